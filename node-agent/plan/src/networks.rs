//! Arithmetic on networks: which a VIP marks, which it routes, and lists that do not overlap.

use std::collections::BTreeSet;

use ipnet::Ipv4Net;

/// What a VIP's packets may come from or go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MarkNetworks {
    /// These networks, none inside another.
    Specific(Vec<Ipv4Net>),
    /// Every network (`0.0.0.0/0`), after all specific ones.
    CatchAll,
}

/// The networks of one VIP, normalised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VipNetworks {
    /// What is marked.
    pub marks: MarkNetworks,
    /// What is routed over the gateway, beside the connected network.
    pub routes: Vec<Ipv4Net>,
    /// What was ignored in the sources, and why.
    pub warnings: Vec<String>,
}

/// Brings `sources` into the form the maps and routes need; their order does not matter.
///
/// Host bits are masked. `0.0.0.0/0` wins alone. An entry inside a broader one, or inside `connected`, is ignored with
/// a warning. When `connected` itself lies inside an entry, only that entry is marked (two overlapping keys would be
/// refused by nftables), and both are routed.
pub fn normalise(connected: Ipv4Net, sources: &[Ipv4Net]) -> VipNetworks {
    let connected = connected.trunc();
    if sources.iter().any(|source| source.prefix_len() == 0) {
        let routes = vec![Ipv4Net::default()];
        return VipNetworks { marks: MarkNetworks::CatchAll, routes, warnings: Vec::new() };
    }
    let mut warnings = Vec::new();
    let distinct: BTreeSet<Ipv4Net> = sources.iter().copied().collect();
    for source in &distinct {
        if source.trunc() != *source {
            warnings.push(format!("{source} has host bits set; {} is used", source.trunc()));
        }
    }
    let masked: BTreeSet<Ipv4Net> = distinct.iter().map(Ipv4Net::trunc).collect();
    let mut routes = Vec::new();
    for &source in &masked {
        if connected.contains(&source) {
            warnings.push(format!("{source} is inside the VIP's own network {connected}"));
        } else if let Some(broader) = masked.iter().find(|&&other| other != source && other.contains(&source))
        {
            warnings.push(format!("{source} is inside {broader}"));
        } else {
            routes.push(source);
        }
    }
    let mut marks = routes.clone();
    if !routes.iter().any(|route| route.contains(&connected)) {
        marks.push(connected);
        marks.sort();
    }
    VipNetworks { marks: MarkNetworks::Specific(marks), routes, warnings }
}

/// The fewest networks that cover exactly the same addresses; none overlaps another.
pub fn merged(networks: impl IntoIterator<Item = Ipv4Net>) -> Vec<Ipv4Net> {
    let networks: Vec<Ipv4Net> = networks.into_iter().map(|network| network.trunc()).collect();
    let mut merged = Ipv4Net::aggregate(&networks);
    merged.sort();
    merged
}

/// The networks that cover `network` without `holes`.
pub fn subtract(network: Ipv4Net, holes: &[Ipv4Net]) -> Vec<Ipv4Net> {
    if holes.iter().any(|hole| hole.contains(&network)) {
        return Vec::new();
    }
    if !holes.iter().any(|hole| network.contains(hole)) {
        return vec![network];
    }
    // A hole strictly inside: halve until every part is all hole or none.
    match network.subnets(network.prefix_len() + 1) {
        Ok(halves) => halves.flat_map(|half| subtract(half, holes)).collect(),
        Err(_) => vec![network],
    }
}

#[cfg(test)]
mod tests;
