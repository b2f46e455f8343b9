//! From facts to the state a node should have.
//!
//! A VIP is either right or refused with a reason; one VIP's mistake never keeps the others from being programmed.

mod gateway;
mod guard;
mod problem;
mod table;
mod tunnels;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

pub use gateway::{GatewayStanding, Refusal};
pub use problem::{Problem, mac_text};

use crate::{
    Address, AddressKey, Desired, FALLBACK_METRIC, Facts, Family, LABEL_PREFIX, LIFETIME, MarkNetworks,
    Route, RouteKey, Rule, Vip, VipNetworks, normalise,
};

/// The lowest priority number that the main table's own rule has: later ones are never reached.
const MAIN_RULE: u32 = 32766;

/// `unspec`, `default`, `main` and `local`.
const RESERVED_TABLES: [u32; 4] = [0, 253, 254, 255];

/// The desired state, and what stands against it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// What the kernel should hold.
    pub desired: Desired,
    /// By VIP name: why it is refused, or in what it falls short. A VIP that is not here is right.
    pub problems: BTreeMap<String, Vec<Problem>>,
    /// By VIP name: what was ignored in its sources.
    pub warnings: BTreeMap<String, Vec<String>>,
    /// By name of the VipGateway.
    pub gateways: BTreeMap<String, GatewayStanding>,
}

impl Plan {
    /// Whether a VIP is part of the desired state.
    pub fn accepts(&self, vip: &str) -> bool {
        !self.problems.get(vip).is_some_and(|problems| problems.iter().any(Problem::refuses))
    }
}

/// One VIP that is part of the plan, with its networks worked out.
pub(crate) struct Accepted<'a> {
    pub(crate) vip: &'a Vip,
    pub(crate) networks: VipNetworks,
}

/// The plan for these facts.
pub fn compile(facts: &Facts) -> Plan {
    let mut plan = Plan::default();
    let mut order: Vec<&Vip> = facts.vips.iter().collect();
    order.sort_by(|a, b| (a.mark, &a.name).cmp(&(b.mark, &b.name)));
    let mut accepted: Vec<Accepted<'_>> = Vec::new();
    for vip in order {
        let problems = problem::problems(facts, vip, accepted.iter().map(|other| other.vip));
        let refused = problems.iter().any(Problem::refuses);
        if !problems.is_empty() {
            plan.problems.insert(vip.name.clone(), problems);
        }
        if refused {
            continue;
        }
        let networks = normalise(vip.virtual_cidr, &vip.source_cidrs);
        if !networks.warnings.is_empty() {
            plan.warnings.insert(vip.name.clone(), networks.warnings.clone());
        }
        place(&mut plan.desired, facts, vip, &networks);
        accepted.push(Accepted { vip, networks });
    }
    let destinations = gateway::place(&mut plan, facts, &accepted);
    plan.desired.renew = facts.in_company;
    plan.desired.nft = Some(table::table(facts, &accepted, &destinations));
    plan
}

/// The address, routes and rule of one VIP.
///
/// Its table always ends in "unreachable". While the interface is down or gone the device routes cannot be there, and
/// without the fallback its packets would fall through to the main table and leave with the node's address.
fn place(desired: &mut Desired, facts: &Facts, vip: &Vip, networks: &VipNetworks) {
    let family = vip.family();
    desired.routes.insert(
        RouteKey { table: vip.table, destination: family.everywhere(), metric: FALLBACK_METRIC },
        Route::Unreachable,
    );
    desired.rules.insert(Rule {
        family,
        priority: vip.priority,
        mark: vip.mark,
        mask: facts.mask,
        from: None,
        to: None,
        table: vip.table,
    });
    let Some(interface) = facts.interfaces.get(&vip.interface) else { return };
    let key = AddressKey { interface: vip.interface.clone(), address: vip.virtual_cidr };
    let address = match family {
        // With a strict reverse path filter and no route for the network, the node would not even answer ARP there.
        Family::V4 => {
            Address { label: Some(label(vip)), no_prefix_route: interface.rp_filter != 1, seconds: LIFETIME }
        }
        Family::V6 => Address { label: None, no_prefix_route: true, seconds: LIFETIME },
    };
    // The kernel takes IPv6 addresses off an interface that goes down.
    if interface.up || family == Family::V4 {
        desired.addresses.insert(key, address);
    }
    if !interface.up {
        return;
    }
    let source = vip.address();
    let key = |destination| RouteKey { table: vip.table, destination, metric: family.route_metric() };
    desired
        .routes
        .insert(key(vip.virtual_cidr.trunc()), Route::Link { interface: vip.interface.clone(), source });
    if let Some(gateway) = vip.gateway {
        for &destination in &networks.routes {
            let route = Route::Via { gateway, interface: vip.interface.clone(), source };
            desired.routes.insert(key(destination), route);
        }
    }
}

/// At most 14 characters: the kernel's labels end at 15.
fn label(vip: &Vip) -> String {
    format!("{LABEL_PREFIX}{}", vip.index)
}

/// The keys of egress maps: every pod's destinations go to one VIP each. Where two VIPs claim one destination of a pod
/// the narrower network wins, then the lower mark; what is left of the broader one stays without overlap.
fn egress_claims(accepted: &[Accepted<'_>]) -> BTreeMap<(IpAddr, IpNet), u32> {
    let mut wanted: BTreeSet<(IpAddr, std::cmp::Reverse<u8>, u32, IpNet)> = BTreeSet::new();
    for Accepted { vip, networks } in accepted {
        let MarkNetworks::Specific(marks) = &networks.marks else { continue };
        for pod in vip.pods() {
            wanted.extend(marks.iter().map(|&net| (pod, std::cmp::Reverse(net.prefix_len()), vip.mark, net)));
        }
    }
    let mut claims = BTreeMap::new();
    let mut taken: BTreeMap<IpAddr, Vec<IpNet>> = BTreeMap::new();
    for (pod, _, mark, network) in wanted {
        let holes = taken.entry(pod).or_default();
        for part in crate::subtract(network, holes) {
            claims.insert((pod, part), mark);
        }
        holes.push(network);
    }
    claims
}

#[cfg(test)]
pub(crate) use tests::golden_facts;

#[cfg(test)]
pub(crate) mod tests;

#[cfg(test)]
mod gateway_tests;

#[cfg(test)]
mod tunnel_tests;
