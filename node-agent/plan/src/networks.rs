//! Arithmetic on networks: which a VIP marks, which it routes, and lists that do not overlap.

use std::collections::BTreeSet;

use ipnet::IpNet;

use crate::Family;

/// What a VIP's packets may come from or go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MarkNetworks {
    /// These networks, none inside another.
    Specific(Vec<IpNet>),
    /// Every network (`0.0.0.0/0` or `::/0`), after all specific ones.
    CatchAll,
}

/// The networks of one VIP, normalised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VipNetworks {
    /// What is marked.
    pub marks: MarkNetworks,
    /// What is routed over the gateway, beside the connected network.
    pub routes: Vec<IpNet>,
    /// What was ignored in the sources, and why.
    pub warnings: Vec<String>,
}

/// Brings `sources` into the form the maps and routes need; their order does not matter.
///
/// Host bits are masked. `0.0.0.0/0`, or `::/0`, wins alone. Entries of the other family are ignored with a warning. An entry inside a broader one, or inside `connected`, is ignored with
/// a warning. When `connected` itself lies inside an entry, only that entry is marked (two overlapping keys would be
/// refused by nftables), and both are routed.
pub fn normalise(connected: IpNet, sources: &[IpNet]) -> VipNetworks {
    let connected = connected.trunc();
    let family = Family::of(connected.addr());
    let (sources, others): (Vec<IpNet>, Vec<IpNet>) =
        sources.iter().copied().partition(|source| Family::of(source.addr()) == family);
    let mut warnings: Vec<String> =
        others.iter().map(|other| format!("{other} is of another family than {connected}")).collect();
    if sources.iter().any(|source| source.prefix_len() == 0) {
        let routes = vec![family.everywhere()];
        return VipNetworks { marks: MarkNetworks::CatchAll, routes, warnings };
    }
    let distinct: BTreeSet<IpNet> = sources.into_iter().collect();
    for source in &distinct {
        if source.trunc() != *source {
            warnings.push(format!("{source} has host bits set; {} is used", source.trunc()));
        }
    }
    let masked: BTreeSet<IpNet> = distinct.iter().map(IpNet::trunc).collect();
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
pub fn merged(networks: impl IntoIterator<Item = IpNet>) -> Vec<IpNet> {
    let networks: Vec<IpNet> = networks.into_iter().map(|network| network.trunc()).collect();
    let mut merged = IpNet::aggregate(&networks);
    merged.sort();
    merged
}

/// The networks that cover `network` without `holes`.
pub fn subtract(network: IpNet, holes: &[IpNet]) -> Vec<IpNet> {
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
