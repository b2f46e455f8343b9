//! A gateway on this node: refused with its reason, or applied: a rule to its table, the fallback there, and one route
//! over the pods that can be reached. Without one the fallback alone is left, and packets are refused.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use super::{Accepted, MAIN_RULE, Plan, RESERVED_TABLES, tunnels};
use crate::{
    FALLBACK_METRIC, Facts, Family, Gateway, GatewayPod, Hop, IPVS_INTERFACE, NextHop, Route, RouteKey, Rule,
};

/// The kernel's main table.
const MAIN_TABLE: u32 = 254;
/// How many routers one route has at most: what fits into one message several times over.
const MOST_HOPS: usize = 256;

/// Why a gateway is refused on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Neighbours find each other there.
    LinkLocal(IpNet),
    /// Pods or Services are there.
    ClusterNetwork(IpNet),
    /// The node has an address in it.
    Interface(String, IpNet),
    /// A node is there.
    Node(IpAddr),
    /// The API server is there: the agent would cut itself off.
    ApiServer(IpAddr),
    /// A peer of that WireGuard interface is there: the tunnel's packets would be led to the pods, at worst by itself.
    Endpoint(String, IpAddr),
    /// The kernel uses that table itself.
    ReservedTable(u32),
    /// A VIP of this node uses that table.
    TableOfVip(u32, String),
    /// Zero stands beside the local table; from 32766 on the main table comes first.
    PriorityOutOfRange(u32),
    /// Another gateway has the same destination and table.
    Duplicate(String),
    /// The kernel would not take it.
    Failed(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LinkLocal(network) => write!(f, "overlaps {network}, where neighbours find each other"),
            Self::ClusterNetwork(network) => write!(f, "overlaps clusterCIDR {network}"),
            Self::Interface(name, network) => write!(f, "overlaps {name} {network}"),
            Self::Node(address) => write!(f, "overlaps node address {address}"),
            Self::ApiServer(address) => write!(f, "overlaps the API server {address}"),
            Self::Endpoint(interface, address) => {
                write!(f, "overlaps the endpoint {address} of a peer of {interface}")
            }
            Self::ReservedTable(table) => write!(f, "route table {table} is the kernel's own"),
            Self::TableOfVip(table, vip) => write!(f, "route table {table} belongs to VIP {vip}"),
            Self::PriorityOutOfRange(priority) => {
                write!(f, "rule priority {priority} is not between 1 and {}", MAIN_RULE - 1)
            }
            Self::Duplicate(other) => {
                write!(f, "VipGateway {other} has the same destination and route table; both are refused")
            }
            Self::Failed(error) => f.write_str(error),
        }
    }
}

/// How a gateway stands on this node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GatewayStanding {
    /// Why nothing of it is here.
    pub refused: Option<Refusal>,
    /// Pods that should lead there and cannot, each with the reason.
    pub unusable: Vec<String>,
    /// Over how many pods packets go; with none they are refused.
    pub pods: usize,
}

/// Adds all gateways that can be applied to the plan, and returns their destinations.
pub(super) fn place(plan: &mut Plan, facts: &Facts, accepted: &[Accepted<'_>]) -> Vec<IpNet> {
    let mut destinations = Vec::new();
    // Of two with one destination, the one that packets are led to has its way with a WireGuard interface.
    let mut order: Vec<&Gateway> = facts.gateways.iter().collect();
    order.sort_by_key(|gateway| gateway.priority);
    for gateway in order {
        let judged = judge(plan, facts, gateway, accepted);
        let standing = match judged {
            Err(refusal) => GatewayStanding { refused: Some(refusal), ..GatewayStanding::default() },
            Ok(destination) => {
                destinations.push(destination);
                apply(plan, facts, gateway, destination)
            }
        };
        plan.gateways.insert(gateway.name.clone(), standing);
    }
    destinations
}

fn judge(plan: &Plan, facts: &Facts, gateway: &Gateway, accepted: &[Accepted<'_>]) -> Result<IpNet, Refusal> {
    let destination = gateway.destination.trunc();
    let overlaps = |other: &IpNet| destination.contains(other) || other.contains(&destination);
    let unmarked = Family::of(destination.addr()).unmarked();
    let refusals = [
        unmarked.into_iter().find(|network| overlaps(network)).map(Refusal::LinkLocal),
        facts.cluster_networks.iter().find(|network| overlaps(network)).map(|n| Refusal::ClusterNetwork(*n)),
        local_network(plan, facts, overlaps),
        facts.node_addresses.iter().find(|address| destination.contains(*address)).map(|a| Refusal::Node(*a)),
        facts.api_servers.iter().find(|a| gateway.destination.contains(*a)).map(|a| Refusal::ApiServer(*a)),
        tunnels::endpoint(facts, destination)
            .map(|(name, address)| Refusal::Endpoint(name.to_owned(), address)),
        RESERVED_TABLES.contains(&gateway.table).then_some(Refusal::ReservedTable(gateway.table)),
        accepted
            .iter()
            .find(|other| other.vip.table == gateway.table)
            .map(|other| Refusal::TableOfVip(gateway.table, other.vip.name.clone())),
        (gateway.priority == 0 || gateway.priority >= MAIN_RULE)
            .then_some(Refusal::PriorityOutOfRange(gateway.priority)),
        facts
            .gateways
            .iter()
            .find(|other| {
                other.name != gateway.name
                    && other.destination.trunc() == gateway.destination.trunc()
                    && other.table == gateway.table
            })
            .map(|other| Refusal::Duplicate(other.name.clone())),
        facts.excluded.get(&gateway.name).map(|error| Refusal::Failed(error.clone())),
    ];
    refusals.into_iter().flatten().next().map_or(Ok(destination), Err)
}

/// A network of this node, VIPs' among them, that the destination overlaps.
fn local_network(plan: &Plan, facts: &Facts, overlaps: impl Fn(&IpNet) -> bool) -> Option<Refusal> {
    let foreign = facts
        .interfaces
        .iter()
        .filter(|(name, _)| *name != IPVS_INTERFACE)
        .flat_map(|(name, interface)| interface.foreign.iter().map(move |network| (name, network)));
    let own = plan.desired.addresses.keys().map(|key| (&key.interface, &key.address));
    let found = foreign.chain(own).find(|(_, network)| overlaps(network));
    found.map(|(name, network)| Refusal::Interface(name.clone(), *network))
}

fn apply(plan: &mut Plan, facts: &Facts, gateway: &Gateway, destination: IpNet) -> GatewayStanding {
    let family = Family::of(destination.addr());
    let rule = |priority, from, table| Rule {
        family,
        priority,
        mark: 0,
        mask: facts.mask,
        from,
        to: Some(destination),
        table,
    };
    let key = |metric| RouteKey { table: gateway.table, destination, metric };
    plan.desired.rules.insert(rule(gateway.priority, None, gateway.table));
    plan.desired.routes.insert(key(FALLBACK_METRIC), Route::Unreachable);

    // A node with pods of its own never hands their packets to another node: two such nodes would hand them back and forth.
    let local = gateway.pods.iter().any(|pod| pod.local);
    let mut standing = GatewayStanding::default();
    let mut ways: Vec<(&GatewayPod, &NextHop)> = Vec::new();
    for pod in gateway.pods.iter().filter(|pod| pod.local || !local) {
        if pod.local && Family::of(pod.address) == family {
            // What a pod itself sends there goes on; back to the pod it would go round until its hop limit is used up.
            plan.desired.rules.insert(rule(gateway.priority - 1, Some(pod.address.into()), MAIN_TABLE));
        }
        match way(facts, gateway, pod) {
            Ok(way) => ways.push((pod, way)),
            Err(why) => standing.unusable.push(unusable(pod, &why)),
        }
    }
    if let Some(error) = facts.closed.get(&gateway.name) {
        standing.unusable.push(error.clone());
        return standing;
    }
    let ways = tunnels::passable(plan, facts, destination, ways, &mut standing.unusable);
    standing.pods = ways.len();
    if let Some(route) = route(&ways) {
        plan.desired.routes.insert(key(family.route_metric()), route);
    }
    standing
}

pub(super) fn unusable(pod: &GatewayPod, why: &str) -> String {
    format!("pod {} ({}): {why}", pod.name, pod.address)
}

fn way<'a>(facts: &'a Facts, gateway: &Gateway, pod: &GatewayPod) -> Result<&'a NextHop, String> {
    if Family::of(pod.address) != Family::of(gateway.destination.addr()) {
        return Err("its address is of another family than the gateway's destination".to_owned());
    }
    if gateway.destination.contains(&pod.address) {
        return Err("its address is inside the gateway's own destination".to_owned());
    }
    match facts.hops.get(&pod.address) {
        Some(Ok(way)) => Ok(way),
        Some(Err(why)) => Err(why.clone()),
        None => Err("no way to it is known".to_owned()),
    }
}

/// One route over all of them. Pods behind the same router add to its share.
fn route(ways: &[&NextHop]) -> Option<Route> {
    let mut shares: BTreeMap<(IpAddr, &str), u8> = BTreeMap::new();
    for way in ways {
        let share = shares.entry((way.gateway, &way.interface)).or_default();
        *share = share.saturating_add(1);
    }
    let hops = shares.into_iter().take(MOST_HOPS).map(|((gateway, interface), weight)| Hop {
        gateway,
        interface: interface.to_owned(),
        weight,
    });
    // Where interfaces differ each has a source of its own.
    let source =
        ways.first().map(|way| way.source).filter(|first| ways.iter().all(|way| way.source == *first));
    Route::through(hops.collect(), source)
}
