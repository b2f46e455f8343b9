//! The node agent: watch, index, plan, kernel.
