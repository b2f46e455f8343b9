//! What is to be said of each object, as conditions and in words.

use litek8s_crds::{VipConfigSpec, VipService};
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use super::allocate::Allocator;
use super::board::{Seat, Table, Why};
use super::cidr;
use super::config::ConfigJudgement;
use super::facts::{AddressFact, ConfigFact, Facts, NetworkFact};
use super::networks::{NetworkProblem, Networks};

/// How many nodes a condition names.
const NODES_NAMED: usize = 8;

/// A condition's status, reason and message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// True or False.
    pub good: bool,
    /// One word for programs.
    pub reason: String,
    /// For people.
    pub message: String,
}

impl Verdict {
    pub(crate) fn new(good: bool, reason: &str, message: impl Into<String>) -> Self {
        Self { good, reason: reason.to_owned(), message: message.into() }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.reason, self.message)
    }
}

/// What is to be said of the VipConfig.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigReport {
    /// The generation that was judged.
    pub generation: i64,
    /// `Accepted`.
    pub verdict: Verdict,
    /// `Ready`: whether some specification is in force.
    pub ready: Verdict,
    /// `Degraded`.
    pub degraded: Verdict,
    /// The specification in force.
    pub accepted: Option<VipConfigSpec>,
    /// How many VIPs a node has marks, tables and priorities for.
    pub capacity: u64,
}

/// What is to be said of a VipNetwork.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkReport {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The generation that was judged.
    pub generation: i64,
    /// `Accepted`.
    pub accepted: Verdict,
    /// `Ready`.
    pub ready: Verdict,
    /// `Degraded`: nodes that should be on it and cannot serve it.
    pub degraded: Verdict,
    /// How many VipAddresses belong to it.
    pub used: i64,
    /// How many addresses it has that can be VIPs: not its own, the broadcast address or the gateway's.
    pub size: i64,
    /// What was left out of its specification.
    pub warnings: Vec<String>,
}

/// What is to be said of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceReport {
    /// Its namespace and name.
    pub key: VipService,
    /// Its UID.
    pub uid: String,
    /// `netwrangler.dev/VipsReady`.
    pub verdict: Verdict,
    /// Its addresses with a VipAddress, in the order it lists them.
    pub placed: Vec<IpAddr>,
    /// Each address it lists.
    pub addresses: Vec<AddressReport>,
}

/// How far an address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressState {
    /// In place on its node.
    Ready,
    /// It has a node, which does not have it in place.
    Pending,
    /// It has no place, for this reason.
    Unplaced(&'static str),
}

/// What is to be said of one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressReport {
    /// The address.
    pub text: String,
    /// The node it is on or goes to.
    pub node: Option<String>,
    /// How far it is.
    pub state: AddressState,
    /// Where it is and why, or why it has no place.
    pub explanation: String,
}

pub(crate) fn config(fact: &ConfigFact, judged: &ConfigJudgement) -> ConfigReport {
    let (verdict, accepted) = match &judged.problem {
        None => (Verdict::new(true, "Accepted", "in force"), Some(fact.spec.clone())),
        Some(problem) => {
            let stays =
                if judged.rules.is_some() { "; the last accepted specification stays in force" } else { "" };
            let message = format!("{}{stays}", problem.message);
            (Verdict::new(false, problem.reason, message), fact.status.accepted.clone())
        }
    };
    let ready = match &judged.rules {
        Some(rules) => Verdict::new(
            true,
            "InForce",
            format!("a node takes at most {} addresses of one Service", rules.limit),
        ),
        None => Verdict::new(false, "NotAccepted", "no specification is in force; no VIP is placed"),
    };
    let degraded = match judged.rules.as_ref().and_then(|rules| rules.degraded.as_ref()) {
        Some((reason, message)) => Verdict::new(true, reason, message),
        None => Verdict::new(false, "AsAsked", "nothing is limited"),
    };
    let capacity = judged.rules.as_ref().map_or(0, |rules| rules.slots.capacity());
    ConfigReport { generation: fact.generation, verdict, ready, degraded, accepted, capacity }
}

pub(crate) fn network(fact: &NetworkFact, networks: &Networks<'_>, facts: &Facts) -> NetworkReport {
    let used =
        facts.addresses.iter().filter(|address| address.managed && address.spec.network == fact.name).count();
    let accepted = Verdict::new(true, "Accepted", "the specification can be used");
    let (accepted, ready) = match networks.refused.get(fact.name.as_str()) {
        None => (accepted, Verdict::new(true, "InForce", "addresses of this network are placed")),
        Some(NetworkProblem::NotAccepted { reason, message }) => {
            let verdict = Verdict::new(false, reason, message);
            (verdict.clone(), verdict)
        }
        Some(NetworkProblem::Overlaps { winner, cidr }) => {
            let message = format!("{} overlaps {cidr} of VipNetwork {winner}", fact.spec.network_cidr);
            (accepted, Verdict::new(false, "Overlaps", message))
        }
    };
    let enabled = networks.enabled.get(fact.name.as_str());
    NetworkReport {
        name: fact.name.clone(),
        uid: fact.uid.clone(),
        generation: fact.generation,
        accepted,
        ready,
        degraded: unserved(fact, facts),
        used: i64::try_from(used).unwrap_or(i64::MAX),
        size: cidr::network(&fact.spec.network_cidr).map_or(0, size),
        warnings: enabled.map(|network| network.warnings.clone()).unwrap_or_default(),
    }
}

/// How many addresses of a network can be VIPs.
fn size(network: IpNet) -> i64 {
    let bits = u32::from(network.max_prefix_len() - network.prefix_len());
    let all = 1i64.checked_shl(bits).filter(|all| *all > 0).unwrap_or(i64::MAX);
    let reserved = if network.addr().is_ipv4() && bits > 1 { 3 } else { 1 };
    (all - reserved).max(0)
}

/// Which nodes cannot serve a network.
fn unserved(network: &NetworkFact, facts: &Facts) -> Verdict {
    let mut nodes: Vec<String> = facts
        .nodes
        .iter()
        .filter_map(|node| Some(format!("{}: {}", node.name, node.unserved.get(&network.name)?)))
        .collect();
    nodes.sort();
    if nodes.is_empty() {
        return Verdict::new(false, "Served", "no node says that it cannot serve it");
    }
    let more = nodes.len().saturating_sub(NODES_NAMED);
    nodes.truncate(NODES_NAMED);
    let more = if more > 0 { format!("; and {more} more nodes") } else { String::new() };
    Verdict::new(true, "NodesCannotServe", format!("{}{more}", nodes.join("; ")))
}

pub(crate) fn service(table: &Table<'_>, allocator: &Allocator<'_>) -> ServiceReport {
    let total = table.seats.len();
    let placed: Vec<IpAddr> = table
        .seats
        .iter()
        .filter(|seat| object(seat).is_some_and(|object| seat.node() == Some(&object.spec.node)))
        .filter_map(|seat| seat.claim.map(|claim| claim.ip))
        .collect();
    let ready = table.seats.iter().filter(|seat| object(seat).is_some_and(|object| object.ready)).count();
    let refused: Vec<String> = table
        .seats
        .iter()
        .filter_map(|seat| Some((seat, seat.outcome.as_ref().err()?)))
        .map(|(seat, refusal)| format!("{}: {}, {refusal}", seat.text, refusal.reason()))
        .collect();
    let verdict = if total == 0 {
        Verdict::new(false, "NoAddresses", "the Service lists no address")
    } else if !refused.is_empty() {
        let message = format!("{}/{total} placed: {}", total - refused.len(), refused.join("; "));
        Verdict::new(false, "NotPlaced", message)
    } else if ready < total {
        let message = format!("{total}/{total} placed, {ready}/{total} in place on their nodes");
        Verdict::new(false, "Pending", message)
    } else {
        Verdict::new(true, "Ready", format!("{total}/{total} in place on their nodes"))
    };
    let addresses = table.seats.iter().map(|seat| AddressReport {
        text: seat.text.clone(),
        node: seat.node().map(str::to_owned),
        state: match &seat.outcome {
            Err(refusal) => AddressState::Unplaced(refusal.reason()),
            Ok(_) if object(seat).is_some_and(|object| object.ready) => AddressState::Ready,
            Ok(_) => AddressState::Pending,
        },
        explanation: explain(seat, table, allocator),
    });
    ServiceReport {
        key: table.fact.key.clone(),
        uid: table.fact.uid.clone(),
        verdict,
        placed,
        addresses: addresses.collect(),
    }
}

/// The VipAddress of a seat that has a place.
fn object<'a>(seat: &Seat<'a>) -> Option<&'a AddressFact> {
    seat.outcome.as_ref().ok()?;
    seat.claim?.object
}

fn explain(seat: &Seat<'_>, table: &Table<'_>, allocator: &Allocator<'_>) -> String {
    let place = match &seat.outcome {
        Ok(place) => place,
        Err(refusal) => return format!("not placed, {}: {refusal}", refusal.reason()),
    };
    let share = table.shares.describe(&place.node);
    let why = match &place.why {
        Why::Kept => "it was there".to_owned(),
        Why::Frozen => "nothing changes while its network or the VipConfig cannot be used".to_owned(),
        Why::Leaving(None) => "its endpoints are terminating, and no other node has a ready one".to_owned(),
        Why::Leaving(Some(until)) => format!("its endpoints are terminating, it goes at {until}"),
        Why::Stuck(cause) => format!("{cause}, and no other node can take it"),
        Why::Bare(until) => format!("no endpoint is ready, it is given up at {until}"),
        Why::Assigned => "furthest below its share".to_owned(),
        Why::Moved { from, cause } => format!("moved from {from}, {cause}"),
    };
    let held = seat.claim.and_then(|claim| {
        let key = table.key(&claim);
        let wish = allocator.next.wishes.iter().find(|(wish, _)| wish.seat == key);
        wish.map(|(wish, since)| format!("; a move to {} is wanted since {since}", wish.to))
    });
    format!("{}: {why}; {share}{}", place.node, held.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_room_for_its_hosts_without_the_gateway() {
        for (text, expected) in
            [("203.0.113.0/24", 253), ("192.0.2.0/30", 1), ("192.0.2.0/31", 1), ("192.0.2.1/32", 0)]
        {
            assert_eq!(size(text.parse().unwrap()), expected, "{text}");
        }
        assert_eq!(size("2001:db8::/64".parse().unwrap()), i64::MAX - 1);
        assert_eq!(size("2001:db8::/65".parse().unwrap()), i64::MAX - 1);
        assert_eq!(size("2001:db8::/112".parse().unwrap()), 65535);
    }
}
