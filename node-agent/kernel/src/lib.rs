//! The only crate with netlink, nftables and raw sockets, and the only one that may lift `unsafe`.
//!
//! It does what it is told and says what is there; it never decides what a node should look like.

mod error;

mod netns;
mod rtnl;
mod wire;

mod links;
mod resolve;
mod routing;
mod wireguard;

mod announce;
mod arp;
mod conntrack;
mod ndp;
mod nft;
mod packet;

mod kernel;
mod monitor;
mod observe;
mod probe;
mod prober;

pub use error::KernelError;
pub use kernel::{Applied, Kernel};
pub use links::{Link, Links};
pub use monitor::{Monitor, Notice};
pub use netns::Netns;
pub use probe::{MissingFeature, probe};
pub use prober::{Asker, Claim, Prober};
