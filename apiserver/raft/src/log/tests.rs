//! Tests of the log as a whole.
