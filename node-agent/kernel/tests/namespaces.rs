//! The kernel crate against a real kernel, each test in network namespaces of its own. Run as root.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking; clippy knows only functions marked as tests"
)]

#[path = "namespaces/announce.rs"]
mod announce;
#[path = "namespaces/gateways.rs"]
mod gateways;
#[path = "namespaces/golden.rs"]
mod golden;
#[path = "namespaces/guard.rs"]
mod guard;
#[path = "namespaces/interrupted.rs"]
mod interrupted;
#[path = "namespaces/links.rs"]
mod links;
#[path = "namespaces/nft.rs"]
mod nft;
#[path = "namespaces/node.rs"]
mod node;
#[path = "namespaces/packets.rs"]
mod packets;
#[path = "namespaces/probe.rs"]
mod probe;
#[path = "namespaces/prober.rs"]
mod prober;
#[path = "namespaces/repair.rs"]
mod repair;
#[path = "namespaces/scratch.rs"]
mod scratch;
