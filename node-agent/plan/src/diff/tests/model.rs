//! A kernel as small as the question: which way does a marked packet leave?

#![allow(clippy::wildcard_enum_match_arm, reason = "a test that meets the unexpected fails")]

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::family::network_between;
use crate::nft::{Change, Part, Table, Value, both};
use crate::{Family, Observed, Op, Route, Rule};

/// The maps of pods.
pub(super) const EGRESS: [&str; 4] =
    ["egress-marks-ipv4", "egress-marks-default-ipv4", "egress-marks-ipv6", "egress-marks-default-ipv6"];
/// The maps of VIPs.
pub(super) const INGRESS: [&str; 4] =
    ["ingress-marks-ipv4", "ingress-marks-default-ipv4", "ingress-marks-ipv6", "ingress-marks-default-ipv6"];

/// The interfaces that lead to pods; they are always up.
pub(super) const TO_PODS: [&str; 2] = ["cni0", "wg0"];

/// Applies one op, as strict as the kernel is.
pub(super) fn apply(state: &mut Observed, op: &Op) {
    match op {
        Op::PromoteSecondaries(name) => {
            state.interfaces.get_mut(name).unwrap().promote_secondaries = true;
        }
        Op::Nft(changes) => changes.iter().for_each(|change| apply_nft(&mut state.nft, change)),
        Op::Forget(_) | Op::Announce { .. } => {}
        Op::AddAddress(key, address) => {
            assert!(state.addresses.insert(key.clone(), address.clone()).is_none(), "{op}: File exists");
        }
        Op::RenewAddress(key, address) => {
            let there = state.addresses.get_mut(key).expect("nothing to renew");
            there.seconds = address.seconds;
        }
        Op::DeleteAddress(key) => {
            let safe = key.family() == Family::V6 || state.interfaces[&key.interface].promote_secondaries;
            assert!(safe, "{op}: would take others along");
            assert!(state.addresses.remove(key).is_some(), "{op}: not there");
        }
        Op::AddRoute(key, route) => {
            gateway_is_reachable(state, key.table, route);
            assert!(state.routes.insert(*key, route.clone()).is_none(), "{op}: File exists");
        }
        Op::ReplaceRoute(key, route) => {
            gateway_is_reachable(state, key.table, route);
            assert!(state.routes.insert(*key, route.clone()).is_some(), "{op}: nothing to replace");
        }
        Op::DeleteRoute(key, route) => {
            assert_eq!(state.routes.remove(key).as_ref(), Some(route), "{op}: not there");
        }
        Op::AddAllowedIp(key, peer) => {
            let tunnel = state.tunnels.get(&key.interface).unwrap_or_else(|| panic!("{op}: No such device"));
            assert!(tunnel.peers.contains_key(peer), "{op}: no such peer");
            assert_eq!(tunnel.holder(key.network), None, "{op}: takes it from its owner");
            state.allowed_ips.insert(key.clone(), *peer);
        }
        Op::RemoveAllowedIp(key, peer) => {
            assert_eq!(state.allowed_ips.remove(key).as_ref(), Some(peer), "{op}: not there");
        }
        Op::AddRule(rule) => assert!(state.rules.insert(*rule), "{op}: File exists"),
        Op::DeleteRule(rule) => assert!(state.rules.remove(rule), "{op}: not there"),
    }
}

fn gateway_is_reachable(state: &Observed, table: u32, route: &Route) {
    // The main table has a way to every pod.
    if let Route::Via { gateway, interface, .. } = route
        && !TO_PODS.contains(&interface.as_str())
    {
        let connected = state.routes.iter().any(|(key, other)| {
            key.table == table
                && key.destination.contains(gateway)
                && matches!(other, Route::Link { interface: link, .. } if link == interface)
        });
        assert!(connected, "Nexthop has invalid gateway");
    }
}

fn apply_nft(table: &mut Option<Table>, change: &Change) {
    match change {
        Change::AddTable => assert!(table.replace(Table::default()).is_none()),
        Change::DeleteTable => assert!(table.take().is_some()),
        other => apply_in_table(table.as_mut().expect("no such table"), other),
    }
}

fn apply_in_table(table: &mut Table, change: &Change) {
    let used = |table: &Table, name: &str| {
        table.chains.values().flat_map(|chain| &chain.rules).any(|rule| rule.set() == Some(name))
    };
    match change {
        Change::AddTable | Change::DeleteTable => unreachable!(),
        Change::AddSet(name, set) => assert!(table.sets.insert(name.clone(), set.clone()).is_none()),
        Change::DeleteSet(name) => {
            assert!(!used(table, name), "{change}: Device or resource busy");
            assert!(table.sets.remove(name).is_some());
        }
        Change::AddElements(name, _, elements) => {
            let set = table.sets.get_mut(name).unwrap();
            for (key, value) in elements {
                assert!(set.elements.insert(key.clone(), value.clone()).is_none(), "{change}: File exists");
            }
        }
        Change::DeleteElements(name, _, elements) => {
            let set = table.sets.get_mut(name).unwrap();
            for (key, value) in elements {
                assert_eq!(set.elements.remove(key).as_ref(), Some(value), "{change}");
            }
        }
        Change::AddChain(name, base) => {
            let chain = crate::nft::Chain { base: *base, rules: Vec::new() };
            assert!(table.chains.insert(name.clone(), chain).is_none());
        }
        Change::DeleteChain(name) => {
            let led_to = table.sets.values().flat_map(|set| set.elements.values());
            let busy = led_to.into_iter().any(|value| {
                super::super::marks::mark_of(value).map(crate::nft::mark_chain).as_ref() == Some(name)
            });
            assert!(!busy, "{change}: Device or resource busy");
            assert!(table.chains.remove(name).unwrap().rules.is_empty(), "{change}: busy");
        }
        Change::FlushChain(name) => table.chains.get_mut(name).unwrap().rules.clear(),
        Change::AddRule(name, rule) => {
            assert!(rule.set().is_none_or(|set| table.sets.contains_key(set)), "{change}: no set");
            table.chains.get_mut(name).unwrap().rules.push(rule.clone());
        }
    }
}

/// How a marked packet leaves.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// It does not.
    Dropped,
    /// No table of ours wanted it: it goes where unmarked packets go.
    Leaked,
    /// By that interface.
    By(String),
}

/// The way of a packet with `mark` to `destination`.
pub(super) fn way(state: &Observed, mark: u32, destination: IpAddr) -> Way {
    let family = Family::of(destination);
    let matches = |rule: &&Rule| {
        rule.family == family
            && mark & rule.mask == rule.mark
            && rule.from.is_none()
            && rule.to.is_none_or(|to| to.contains(&destination))
    };
    let mut rules: Vec<&Rule> = state.rules.iter().filter(matches).collect();
    rules.sort();
    for rule in rules {
        let mut candidates: Vec<_> = state
            .routes
            .iter()
            .filter(|(key, _)| key.table == rule.table && key.destination.contains(&destination))
            .collect();
        candidates.sort_by_key(|(key, _)| (std::cmp::Reverse(key.destination.prefix_len()), key.metric));
        if let Some((_, route)) = candidates.first() {
            return route.interfaces().next().map_or(Way::Dropped, |name| Way::By(name.to_owned()));
        }
    }
    Way::Leaked
}

/// Every (subject, destination, mark) that the maps of a table give: a subject is a pod or a VIP.
pub(super) fn marked(table: &Table, maps: [&str; 4]) -> Vec<(IpAddr, IpNet, u32)> {
    let mut all = Vec::new();
    let sets = maps.iter().filter_map(|map| table.sets.get(*map));
    for (key, value) in sets.flat_map(|set| &set.elements) {
        let Part::Addresses(subject, _) = key[0] else { unreachable!() };
        let network = match key.get(1) {
            Some(Part::Addresses(first, last)) => network_between(*first, *last).unwrap(),
            _ => Family::of(subject).everywhere(),
        };
        all.push((subject, network, super::super::marks::mark_of(value).unwrap()));
    }
    all
}

/// The destinations that take no mark because a gateway leads there.
pub(super) fn destinations(table: &Table) -> Vec<IpNet> {
    let sets = both().into_iter().filter_map(|names| table.sets.get(names.gateway_destinations));
    sets.flat_map(|set| set.elements.keys())
        .map(|key| match key[0] {
            Part::Addresses(first, last) => network_between(first, last).unwrap(),
            _ => unreachable!(),
        })
        .collect()
}

/// What the source NAT map makes of a mark on an interface.
pub(super) fn translated(table: &Table, mark: u32, interface: &str) -> Option<IpAddr> {
    let key = vec![Part::Mark(mark), Part::Interface(interface.to_owned())];
    both().into_iter().find_map(|names| match table.sets.get(names.snat_addresses)?.elements.get(&key) {
        Some(Value::Address(address)) => Some(*address),
        _ => None,
    })
}

/// The pods' VIPs in a state: what is right for them there.
pub(super) fn mapping(table: Option<&Table>) -> BTreeMap<IpAddr, Vec<IpAddr>> {
    let mut mapping: BTreeMap<IpAddr, Vec<IpAddr>> = BTreeMap::new();
    let Some(table) = table else { return mapping };
    let bound = super::super::marks::bindings(Some(table));
    for (pod, _, mark) in marked(table, EGRESS) {
        if let Some((_, address)) = bound.get(&mark) {
            mapping.entry(pod).or_default().push(*address);
        }
    }
    mapping
}
