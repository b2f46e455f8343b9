//! The litek8s binary: parses flags and calls one library's `run`; never has behaviour of its own.

fn main() {}
