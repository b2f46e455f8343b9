//! The only crate with netlink, nftables and raw sockets, and the only one that may lift `unsafe`.
//!
//! It does what it is told and says what is there; it never decides what a node should look like.

mod error;
mod links;
mod netns;
mod rtnl;

pub use error::KernelError;
pub use links::{Link, Links};
pub use netns::Netns;
