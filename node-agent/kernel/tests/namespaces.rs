//! The kernel crate against a real kernel, each test in network namespaces of its own. Run as root.

#[path = "namespaces/links.rs"]
mod links;
#[path = "namespaces/scratch.rs"]
mod scratch;
