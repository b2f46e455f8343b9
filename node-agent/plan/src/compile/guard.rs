//! Pods that leave with a VIP or not at all: what they begin and nothing marked is refused where the node would forward it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::nft::{Base, Chain, Field, Kind, Rule, Selector, Set, Table, VIP_MARKS, Value, Verdict, names};
use crate::{Facts, Family};

/// After the marks are given, and before any source NAT.
const FORWARD: Base = Base { kind: "filter", hook: 2, priority: 0 };

/// The pods to guard. A node's own address is no pod's.
pub(super) fn pods(facts: &Facts) -> impl Iterator<Item = IpAddr> {
    facts.guarded.iter().copied().filter(|pod| !facts.node_addresses.contains(pod))
}

/// Adds the guard, where there is a pod to guard. Without a VipConfig nobody knows what lies inside the cluster.
pub(super) fn add(table: &mut Table, facts: &Facts, families: &[Family]) {
    if pods(facts).next().is_none() || facts.mask == 0 {
        return;
    }
    let within = |selector, set: &str, verdict| Rule::InSet(selector, set.to_owned(), verdict);
    let mut forward = Vec::new();
    for &family in families {
        let names = names(family);
        forward.push(within(Selector::Destination(family), names.cluster_networks, Verdict::Return));
        forward.push(within(
            Selector::OriginalDestination(family),
            names.gateway_destinations,
            Verdict::Return,
        ));
    }
    // By its VIP's interface with its VIP as source, or dropped at the end of postrouting.
    forward.push(within(Selector::MaskedMark(facts.mask), VIP_MARKS, Verdict::Return));
    for &family in families {
        let name = names(family).guarded_pods;
        let elements: BTreeMap<_, _> = pods(facts)
            .filter(|pod| Family::of(*pod) == family)
            .map(|pod| (vec![pod.into()], Value::Nothing))
            .collect();
        if elements.is_empty() {
            continue;
        }
        let set = Set { key: vec![Field::Address(family)], kind: Kind::Set, interval: false, elements };
        table.sets.insert(name.to_owned(), set);
        // It has no original addresses to look at, and never a mark.
        forward.push(Rule::Untracked(family, name.to_owned(), Verdict::Drop));
        forward.push(within(Selector::OriginalSource(family), name, Verdict::Goto("guard".to_owned())));
    }
    table.chains.insert("filter-forward".to_owned(), Chain { base: Some(FORWARD), rules: forward });
    let guard = Chain { base: None, rules: vec![Rule::Reset, Rule::Prohibit] };
    table.chains.insert("guard".to_owned(), guard);
}
