//! Server-side apply against what upstream does.
