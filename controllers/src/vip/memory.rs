//! What one decision remembers for the next. Nothing is lost with it but waiting time: after a restart every wait begins
//! again, and moves under way end where the facts lead.

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::Timestamp;
use litek8s_crds::VipService;

use super::marks::Slot;

/// One address of one Service.
pub(crate) type SeatKey = (VipService, IpAddr);

/// A move for balance that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Wish {
    pub(crate) seat: SeatKey,
    pub(crate) from: String,
    pub(crate) to: String,
}

/// A place that was decided and whose VipAddress is not seen yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Intent {
    /// The VipNetwork, which counts as in use meanwhile; none while that cannot be used.
    pub(crate) network: Option<String>,
    pub(crate) node: String,
    pub(crate) index: u32,
    pub(crate) slot: Slot,
    /// The UID of the VipAddress that goes first.
    pub(crate) replaces: Option<String>,
    /// The node it comes from and why, for the Event.
    pub(crate) moved: Option<(String, String)>,
}

/// What one decision remembers for the next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// Since when a move is wanted.
    pub(crate) wishes: BTreeMap<Wish, Timestamp>,
    /// Since when a VIP is on a node with terminating endpoints only, while others have ready ones.
    pub(crate) leaving: BTreeMap<SeatKey, Timestamp>,
    /// Since when a VIP has no endpoint anywhere.
    pub(crate) bare: BTreeMap<SeatKey, Timestamp>,
    /// When moves for balance were made in the last minute.
    pub(crate) moves: Vec<Timestamp>,
    /// Since when a VipAddress that is being deleted waits for its node, by UID.
    pub(crate) releasing: BTreeMap<String, Timestamp>,
    /// Places decided and not seen yet.
    pub(crate) intents: BTreeMap<SeatKey, Intent>,
    /// What was last said of an address, as it is written, or of a network.
    pub(crate) said: BTreeMap<(Option<VipService>, String), String>,
}
