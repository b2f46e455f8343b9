//! The kernel crate against Debian's kernel, which has WireGuard: `make test-vm` runs it in a virtual machine.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking; clippy knows only functions marked as tests"
)]

#[path = "vm/debian.rs"]
mod debian;
#[path = "vm/gateways.rs"]
mod gateways;
#[path = "vm/mesh.rs"]
mod mesh;
#[path = "namespaces/scratch.rs"]
mod scratch;
