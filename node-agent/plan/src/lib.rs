//! From objects to what a node's kernel should hold, and the changes that get it there. Pure: no clock, file, socket or
//! randomness, and the same facts give the same bytes.
//!
//! `Facts` → [`compile`] → `Desired`; [`diff`]`(Desired, Observed)` → `Op`s in the one order that is safe after each.

mod facts;
mod family;
mod gateway;
mod networks;
mod tunnel;

pub mod nft;

mod desired;
mod observed;

mod claims;

mod compile;
mod diff;
mod op;

pub use claims::{Claims, left};
pub use compile::{GatewayStanding, Plan, Problem, Refusal, compile, mac_text};
pub use desired::{Address, AddressKey, Desired, Hop, Route, RouteKey, Rule};
pub use diff::{diff, parting, recheck};
pub use facts::{Contest, Facts, IPVS_INTERFACE, Interface, Mac, Vip};
pub use family::Family;
pub use gateway::{Gateway, GatewayPod, NextHop, free_mark};
pub use networks::{MarkNetworks, VipNetworks, merged, normalise, subtract};
pub use observed::{ForeignRule, Observed};
pub use op::{Flow, Op};
pub use tunnel::{AllowedIp, Peer, PeerKey, Tunnel};

/// The routing protocol of every rule and route that is ours.
pub const PROTOCOL: u8 = 110;

/// What the label of every IPv4 address that is ours begins with. IPv6 addresses have no labels and carry [`PROTOCOL`].
pub const LABEL_PREFIX: &str = "vip:";

/// For how long, in seconds, the kernel keeps a VIP's address unless an agent renews it.
pub const LIFETIME: u32 = 60;

/// The metric of the fallback that makes a table of ours end in "unreachable" and not in the main table.
pub const FALLBACK_METRIC: u32 = u32::MAX;
