//! The operator suite's controllers; each a folder with its pure decide.

pub mod vip;
