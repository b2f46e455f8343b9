//! Pods that leave with a VIP or not at all: what they begin and nothing marked is refused where the node would forward it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::Facts;
use crate::nft::{Base, Chain, Field, Kind, Rule, Selector, Set, Table, Value, Verdict};

/// After the marks are given, and before any source NAT.
const FORWARD: Base = Base { kind: "filter", hook: 2, priority: 0 };

/// Adds the guard, where there is a pod to guard. Without a VipConfig nobody knows what lies inside the cluster.
pub(super) fn add(table: &mut Table, facts: &Facts) {
    let pods: BTreeMap<_, _> = facts
        .guarded
        .iter()
        .filter_map(|pod| match pod {
            IpAddr::V4(pod) if !facts.node_addresses.contains(pod) => {
                Some((vec![(*pod).into()], Value::Nothing))
            }
            IpAddr::V4(_) | IpAddr::V6(_) => None,
        })
        .collect();
    if pods.is_empty() || facts.mask == 0 {
        return;
    }
    let set = Set { key: vec![Field::Address], kind: Kind::Set, interval: false, elements: pods };
    table.sets.insert("guarded-pods".to_owned(), set);
    let within = |selector, set: &str, verdict| Rule::InSet(selector, set.to_owned(), verdict);
    let forward = vec![
        within(Selector::Destination, "cluster-networks", Verdict::Return),
        within(Selector::OriginalDestination, "gateway-destinations", Verdict::Return),
        // By its VIP's interface with its VIP as source, or dropped at the end of postrouting.
        within(Selector::MaskedMark(facts.mask), "vip-marks", Verdict::Return),
        within(Selector::OriginalSource, "guarded-pods", Verdict::Goto("guard".to_owned())),
    ];
    table.chains.insert("filter-forward".to_owned(), Chain { base: Some(FORWARD), rules: forward });
    let guard = Chain { base: None, rules: vec![Rule::Reset, Rule::Prohibit] };
    table.chains.insert("guard".to_owned(), guard);
}
