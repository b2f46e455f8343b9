//! The load generator and the scenarios it runs.
