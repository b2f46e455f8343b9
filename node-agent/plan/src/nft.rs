//! Our nftables table as data: sets and maps, chains, and the few kinds of rule that are in it.
//!
//! The model holds what is compared, not what `nft` prints: a listing says other words than it was given.

mod change;
mod names;
mod text;

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

pub use change::{Change, changes};
pub(crate) use names::{Names, VIP_MARKS, both, names};

use crate::Family;

/// The table's name, in family `inet`.
pub const TABLE: &str = "netwrangler";

/// One column of a set's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// `ipv4_addr` or `ipv6_addr`
    Address(Family),
    /// `mark`
    Mark,
    /// `ifname`
    Interface,
}

/// What a map leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: a set.
    Set,
    /// `verdict`
    VerdictMap,
    /// `ipv4_addr` or `ipv6_addr`
    AddressMap(Family),
}

/// One column of an element's key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// All addresses from the first to the last.
    Addresses(IpAddr, IpAddr),
    /// A packet mark.
    Mark(u32),
    /// An interface name.
    Interface(String),
}

impl From<IpNet> for Part {
    fn from(network: IpNet) -> Self {
        Self::Addresses(network.network(), network.broadcast())
    }
}

impl From<IpAddr> for Part {
    fn from(address: IpAddr) -> Self {
        Self::Addresses(address, address)
    }
}

/// What happens to a packet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// No further rule of this base chain.
    Accept,
    /// Gone.
    Drop,
    /// Back to the calling chain, or the base chain's policy.
    Return,
    /// To another chain and back.
    Jump(String),
    /// To another chain.
    Goto(String),
}

/// What an element leads to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// An element of a set.
    Nothing,
    /// An element of a verdict map.
    Verdict(Verdict),
    /// An element of an address map.
    Address(IpAddr),
}

/// A set or map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Set {
    /// The columns of the key; none when they are not of kinds we use.
    pub key: Vec<Field>,
    /// What it maps to.
    pub kind: Kind,
    /// Whether keys are ranges.
    pub interval: bool,
    /// What is in it. Ranges must not overlap.
    pub elements: BTreeMap<Vec<Part>, Value>,
}

impl Set {
    /// Whether it differs in its elements at most.
    pub fn same_shape(&self, other: &Self) -> bool {
        self.key == other.key && self.kind == other.kind && self.interval == other.interval
    }
}

/// What a rule looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Selector {
    /// `ip saddr`
    Source(Family),
    /// `ip daddr`
    Destination(Family),
    /// `ct original ip saddr`
    OriginalSource(Family),
    /// `ct original ip daddr`
    OriginalDestination(Family),
    /// `meta mark & …`
    MaskedMark(u32),
    /// `oifname`
    OutputInterface,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// `ip daddr @set return`
    InSet(Selector, String, Verdict),
    /// `icmp type redirect ip daddr @set drop`
    Redirect(Family, String, Verdict),
    /// `ip saddr . ip daddr vmap @map`
    Lookup(Vec<Selector>, String),
    /// `jump chain`
    Always(Verdict),
    /// `meta mark set meta mark & keep | mark`
    SetMark {
        /// The bits that stay.
        keep: u32,
        /// The bits that are set.
        mark: u32,
    },
    /// `fib saddr type != local drop`: the source is no address of this node
    NotLocal(Verdict),
    /// `oifname "lo" return`: the node talks to itself
    Loopback(Verdict),
    /// `ct state invalid,untracked ip saddr @set drop`: what belongs to no connection
    Untracked(Family, String, Verdict),
    /// `snat ip to … map @map fully-random`
    Snat(Family, Vec<Selector>, String),
    /// `meta l4proto tcp reject with tcp reset`
    Reset,
    /// `reject with icmpx admin-prohibited`
    Prohibit,
    /// Read from the kernel and none of the above; never equal to one we want.
    Foreign,
}

impl Rule {
    /// The set it looks into.
    pub fn set(&self) -> Option<&str> {
        match self {
            Self::InSet(_, set, _)
            | Self::Redirect(_, set, _)
            | Self::Untracked(_, set, _)
            | Self::Lookup(_, set)
            | Self::Snat(_, _, set) => Some(set),
            Self::Always(_)
            | Self::SetMark { .. }
            | Self::NotLocal(_)
            | Self::Loopback(_)
            | Self::Reset
            | Self::Prohibit
            | Self::Foreign => None,
        }
    }
}

/// Where a chain hooks into the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Base {
    /// `filter`, `route` or `nat`.
    pub kind: &'static str,
    /// `NF_INET_…`: 0 prerouting, 3 output, 4 postrouting.
    pub hook: u32,
    /// Lower comes first.
    pub priority: i32,
}

/// A chain; its policy, where it has one, is accept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chain {
    /// None for a chain that is only jumped to.
    pub base: Option<Base>,
    /// Its rules.
    pub rules: Vec<Rule>,
}

/// The table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// Sets and maps by name.
    pub sets: BTreeMap<String, Set>,
    /// Chains by name.
    pub chains: BTreeMap<String, Chain>,
}

/// The chain that applies a mark.
pub fn mark_chain(mark: u32) -> String {
    format!("mark-{mark:08x}")
}

/// The mark a chain applies, by its name.
pub fn mark_of_chain(chain: &str) -> Option<u32> {
    u32::from_str_radix(chain.strip_prefix("mark-")?, 16).ok()
}
