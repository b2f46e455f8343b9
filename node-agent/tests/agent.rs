//! The whole agent in a network namespace of its own, against an API of a few lines. Run as root.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking; clippy knows only functions marked as tests"
)]

#[path = "agent/api.rs"]
mod api;
#[path = "agent/join.rs"]
mod join;
#[path = "agent/node.rs"]
mod node;
#[path = "agent/vips.rs"]
mod vips;
