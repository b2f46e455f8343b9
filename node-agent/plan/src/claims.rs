//! Which allowed IPs of others' WireGuard interfaces are ours. The kernel keeps no sign of that, as it does for routes, so
//! what is added is noted before it is added: an agent that dies in between, or the next one, still knows.

use std::collections::BTreeSet;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::{AllowedIp, Desired, Observed, Op, PeerKey};

/// What is to be kept where the next agent of this node finds it. It is true for as long as the interfaces live, and ends
/// with a reboot at the latest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims(BTreeSet<Claim>);

/// An allowed IP that was added, or is about to be. One that moves is claimed at both peers until it has moved.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Claim {
    interface: String,
    index: u32,
    network: IpNet,
    peer: PeerKey,
}

impl Claims {
    /// Tells ours from theirs in what was read. An entry that was added to one peer and is at another is theirs by now.
    pub fn sort_out(&self, observed: &mut Observed) {
        for claim in &self.0 {
            let Some(tunnel) = observed.tunnels.get_mut(&claim.interface) else { continue };
            let Some(peer) = tunnel.peers.get_mut(&claim.peer).filter(|_| tunnel.index == claim.index) else {
                continue;
            };
            if peer.allowed_ips.remove(&claim.network) {
                let key = AllowedIp { interface: claim.interface.clone(), network: claim.network };
                observed.allowed_ips.insert(key, claim.peer);
            }
        }
    }

    /// What is to be noted before these changes are made.
    pub fn before(observed: &Observed, ops: &[Op]) -> Self {
        let added = ops
            .iter()
            .filter_map(|op| if let Op::AddAllowedIp(key, peer) = op { Some((key, peer)) } else { None });
        Self::of(observed, observed.allowed_ips.iter().chain(added))
    }

    /// What is left to be noted after all changes were made but for the refused ones.
    pub fn after<'a>(
        desired: &'a Desired,
        observed: &Observed,
        refused: impl Iterator<Item = &'a Op>,
    ) -> Self {
        Self::of(observed, left(desired, refused))
    }

    fn of<'a>(observed: &Observed, entries: impl Iterator<Item = (&'a AllowedIp, &'a PeerKey)>) -> Self {
        let claim = |(key, peer): (&AllowedIp, &PeerKey)| {
            let index = observed.tunnels.get(&key.interface)?.index;
            Some(Claim { interface: key.interface.clone(), index, network: key.network, peer: *peer })
        };
        Self(entries.filter_map(claim).collect())
    }
}

/// The entries that are there after all changes were made but for the refused ones.
pub fn left<'a>(
    desired: &'a Desired,
    refused: impl Iterator<Item = &'a Op>,
) -> impl Iterator<Item = (&'a AllowedIp, &'a PeerKey)> {
    let still = refused
        .filter_map(|op| if let Op::RemoveAllowedIp(key, peer) = op { Some((key, peer)) } else { None });
    desired.allowed_ips.iter().chain(still)
}

#[cfg(test)]
mod tests;
