//! Which VipNetworks are in force, and which networks beyond their routers count.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use super::cidr;
use super::facts::{Facts, NetworkFact, NodeFact};
use super::memory::Memory;

/// A VipNetwork in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Network<'a> {
    pub(crate) fact: &'a NetworkFact,
    pub(crate) cidr: IpNet,
    pub(crate) gateway: IpAddr,
    /// The least list that covers the specification's.
    pub(crate) sources: Vec<IpNet>,
    /// What was left out, in words.
    pub(crate) warnings: Vec<String>,
}

/// Why a VipNetwork is not in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NetworkProblem {
    /// It cannot be used at all; what was placed by it stays as it is.
    NotAccepted { reason: &'static str, message: String },
    /// It overlaps another one that is in force; nothing of it stays.
    Overlaps { winner: String, cidr: IpNet },
}

/// All VipNetworks, judged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Networks<'a> {
    pub(crate) enabled: BTreeMap<&'a str, Network<'a>>,
    pub(crate) refused: BTreeMap<&'a str, NetworkProblem>,
    /// The networks of the refused ones, for a better answer than "no network".
    disabled: Vec<(IpNet, &'a str)>,
}

impl<'a> Networks<'a> {
    /// The network in force that holds an address.
    pub(crate) fn of(&self, ip: IpAddr) -> Option<&Network<'a>> {
        self.enabled.values().find(|network| network.cidr.contains(&ip))
    }

    /// A network that would hold an address but is not in force.
    pub(crate) fn disabled_of(&self, ip: IpAddr) -> Option<&'a str> {
        self.disabled.iter().find(|(cidr, _)| cidr.contains(&ip)).map(|&(_, name)| name)
    }

    /// Whether a network exists but cannot be used, so that what it placed stays.
    pub(crate) fn frozen(&self, name: &str) -> bool {
        matches!(self.refused.get(name), Some(NetworkProblem::NotAccepted { .. }))
    }
}

impl Network<'_> {
    /// Whether a node is on this network.
    pub(crate) fn reaches(&self, node: &NodeFact) -> bool {
        self.fact.spec.node_selector.as_ref().is_none_or(|selector| selector.matches(&node.labels))
    }

    /// The interface of the network on a node.
    pub(crate) fn interface(&self, node: &str) -> &str {
        self.fact.spec.interface_on(node)
    }
}

/// Judges all VipNetworks. Of those that overlap stay the ones with VipAddresses, then the more specific, the older, the
/// first by name; one loses only to one that is in force itself. A network whose VipAddresses are being made anew keeps
/// its right meanwhile.
pub(crate) fn judge<'a>(facts: &'a Facts, memory: &Memory) -> Networks<'a> {
    let moving = memory.intents.values().filter_map(|intent| intent.network.as_deref());
    let occupied: BTreeSet<&str> = facts
        .addresses
        .iter()
        .filter(|address| address.managed)
        .map(|address| address.spec.network.as_str())
        .chain(moving)
        .collect();
    let mut networks = Networks::default();
    let mut usable = Vec::new();
    for fact in &facts.networks {
        match read(fact) {
            Ok(network) => usable.push(network),
            Err(problem) => {
                if let Some(cidr) = cidr::network(&fact.spec.network_cidr) {
                    networks.disabled.push((cidr, &fact.name));
                }
                networks.refused.insert(&fact.name, problem);
            }
        }
    }
    usable.sort_by_key(|network| {
        let fact = network.fact;
        let prefix = std::cmp::Reverse(network.cidr.prefix_len());
        (!occupied.contains(fact.name.as_str()), prefix, fact.created, &fact.name)
    });
    for network in usable {
        let winner = networks.enabled.values().find(|other| cidr::overlap(&other.cidr, &network.cidr));
        if let Some(winner) = winner {
            let problem = NetworkProblem::Overlaps { winner: winner.fact.name.clone(), cidr: winner.cidr };
            networks.disabled.push((network.cidr, &network.fact.name));
            networks.refused.insert(&network.fact.name, problem);
        } else {
            networks.enabled.insert(&network.fact.name, network);
        }
    }
    networks.disabled.sort();
    networks
}

fn read(fact: &NetworkFact) -> Result<Network<'_>, NetworkProblem> {
    let refuse = |reason, message| NetworkProblem::NotAccepted { reason, message };
    let spec = &fact.spec;
    let cidr = cidr::network(&spec.network_cidr)
        .ok_or_else(|| refuse("InvalidNetworkCIDR", format!("{} is not a network", spec.network_cidr)))?
        .trunc();
    let gateway = cidr::address(&spec.gateway_ip)
        .ok_or_else(|| refuse("InvalidGatewayIP", format!("{} is not an address", spec.gateway_ip)))?;
    if !cidr.contains(&gateway) {
        return Err(refuse("InvalidGatewayIP", format!("gatewayIP {gateway} is not within {cidr}")));
    }
    if cidr::is_network_address(&cidr, gateway) || cidr::is_broadcast_address(&cidr, gateway) {
        let message = format!("gatewayIP {gateway} is the network's or the broadcast address of {cidr}");
        return Err(refuse("InvalidGatewayIP", message));
    }
    let mut sources = Vec::new();
    for text in &spec.source_cidrs {
        let source = cidr::network(text)
            .ok_or_else(|| refuse("InvalidSourceCIDR", format!("sourceCIDRs: {text} is not a network")))?;
        if source.addr().is_ipv4() != cidr.addr().is_ipv4() {
            let message = format!("sourceCIDRs: {text} is not of the family of {cidr}");
            return Err(refuse("InvalidSourceCIDR", message));
        }
        sources.push(source);
    }
    let (sources, warnings) = normalise(cidr, &sources);
    Ok(Network { fact, cidr, gateway, sources, warnings })
}

/// The least list of networks that covers the given ones, in order, and what was changed, in words. What lies within the
/// VIP network itself is reached without the router and left out.
pub(crate) fn normalise(network: IpNet, sources: &[IpNet]) -> (Vec<IpNet>, Vec<String>) {
    let mut warnings = Vec::new();
    let mut masked = BTreeSet::new();
    for source in sources {
        let net = source.trunc();
        if net != *source {
            warnings.push(format!("{source} has host bits, read as {net}"));
        }
        if !masked.insert(net) {
            warnings.push(format!("{net} is listed more than once"));
        }
    }
    if let Some(&all) = masked.iter().find(|net| net.prefix_len() == 0) {
        return (vec![all], warnings);
    }
    let mut kept = Vec::new();
    for net in &masked {
        if let Some(wider) = masked.iter().find(|wider| *wider != net && wider.contains(net)) {
            warnings.push(format!("{net} lies within {wider} and is left out"));
        } else if network.contains(net) {
            warnings.push(format!("{net} lies within the network {network} itself and is left out"));
        } else {
            kept.push(*net);
        }
    }
    (kept, warnings)
}

#[cfg(test)]
mod tests;
