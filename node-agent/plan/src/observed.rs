//! What the kernel holds: ours to compare, and what is foreign as far as a plan must know of it.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Address, AddressKey, AllowedIp, Family, Interface, PeerKey, Route, RouteKey, Rule, Tunnel, nft};

/// A rule of somebody else that looks at the packet mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ForeignRule {
    /// The family whose packets it looks at.
    pub family: Family,
    /// Its priority.
    pub priority: u32,
    /// Its mark.
    pub mark: u32,
    /// The bits it looks at.
    pub mask: u32,
    /// The table it leads to.
    pub table: u32,
}

/// The kernel's state as read at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// All interfaces, by name.
    pub interfaces: BTreeMap<String, Interface>,
    /// WireGuard interfaces of others, by name: with all they have, until [`Claims`](crate::Claims) sort out what is ours.
    pub tunnels: BTreeMap<String, Tunnel>,
    /// What of theirs is ours, and at which peer it is.
    pub allowed_ips: BTreeMap<AllowedIp, PeerKey>,
    /// Addresses with our label or protocol.
    pub addresses: BTreeMap<AddressKey, Address>,
    /// Routes with our protocol.
    pub routes: BTreeMap<RouteKey, Route>,
    /// Rules with our protocol.
    pub rules: BTreeSet<Rule>,
    /// Rules of others that look at the mark.
    pub foreign_rules: BTreeSet<ForeignRule>,
    /// Our nftables table.
    pub nft: Option<nft::Table>,
}

impl Observed {
    /// The rules of others that look at bits of `mask`: their packets and ours can be taken for each other.
    pub fn mark_conflicts(&self, mask: u32) -> Vec<ForeignRule> {
        self.foreign_rules.iter().filter(|rule| rule.mask & mask != 0).copied().collect()
    }

    /// The WireGuard interfaces with these entries of ours beside what is theirs.
    pub fn tunnels_with<'a>(
        &self,
        ours: impl Iterator<Item = (&'a AllowedIp, &'a PeerKey)>,
    ) -> BTreeMap<String, Tunnel> {
        let mut tunnels = self.tunnels.clone();
        for (key, peer) in ours {
            let peer = tunnels.get_mut(&key.interface).and_then(|tunnel| tunnel.peers.get_mut(peer));
            peer.map(|peer| peer.allowed_ips.insert(key.network));
        }
        tunnels
    }

    /// Whether nothing of ours is there.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
            && self.routes.is_empty()
            && self.rules.is_empty()
            && self.allowed_ips.is_empty()
            && self.nft.is_none()
    }
}
