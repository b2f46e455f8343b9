//! The whole agent on Debian's kernel, which has WireGuard: `make test-vm` runs it in a virtual machine.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking; clippy knows only functions marked as tests"
)]

#[allow(dead_code, reason = "shared with the tests that need no WireGuard")]
#[path = "agent/api.rs"]
mod api;
#[path = "vm/gateways.rs"]
mod gateways;
#[allow(dead_code, reason = "shared with the tests that need no WireGuard")]
#[path = "agent/node.rs"]
mod node;
