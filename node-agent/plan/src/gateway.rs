//! Gateways as a plan knows them: destinations that are reached through pods, or not at all.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// One VipGateway with its pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gateway {
    /// Its name.
    pub name: String,
    /// Where it leads to; host bits do not count.
    pub destination: IpNet,
    /// The route table, the same on every node.
    pub table: u32,
    /// The priority of the rule that leads to the table.
    pub priority: u32,
    /// The pods, by their VipRoutes.
    pub pods: Vec<GatewayPod>,
}

/// One pod of a gateway.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GatewayPod {
    /// `namespace/name`.
    pub name: String,
    /// Its address.
    pub address: IpAddr,
    /// Whether it runs on this node.
    pub local: bool,
}

/// The way to a gateway pod: the pod itself where it is on a link, else the router the kernel has for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextHop {
    /// The next router.
    pub gateway: IpAddr,
    /// The interface to it.
    pub interface: String,
    /// The source the kernel would take.
    pub source: IpAddr,
}

/// A mark within `mask` that no rule of ours has: a route that is looked up with it is not one of ours.
pub fn free_mark(mask: u32, taken: &BTreeSet<u32>) -> u32 {
    // The parts of the mask in ascending order; the first that is free comes soon.
    let mut mark = 0u32;
    loop {
        mark = mark.wrapping_sub(mask) & mask;
        if mark == 0 || !taken.contains(&mark) {
            return mark;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_mark_is_a_part_of_the_mask_that_nobody_has() {
        assert_eq!(free_mark(0x7f, &BTreeSet::from([1, 2, 4])), 3);
        assert_eq!(free_mark(0xf00, &BTreeSet::from([0x100])), 0x200);
        assert_eq!(free_mark(0x1, &BTreeSet::from([1])), 0, "none is free");
        assert_eq!(free_mark(0, &BTreeSet::new()), 0);
    }
}
