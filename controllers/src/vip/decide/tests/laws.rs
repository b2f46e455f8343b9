//! What holds of every decision, whatever the facts.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::super::super::fixture::{at, facts, one_holder, service, settle};
use super::*;

const NODES: [&str; 4] = ["a", "b", "c", "d"];

/// Facts with two Services, their addresses and ready endpoints, settled from nothing or from an earlier distribution.
fn world() -> impl Strategy<Value = (Facts, Memory)> {
    let endpoints = || proptest::collection::vec(0_u8..5, NODES.len());
    (1_usize..12, 0_usize..8, endpoints(), endpoints(), endpoints(), 1_i64..20).prop_map(
        |(first, second, before, one, two, limit)| {
            let mut facts = facts();
            facts.config.as_mut().unwrap().spec.max_address_count = limit;
            facts.services = vec![build("one", 10, first, &before), build("two", 100, second, &two)];
            let mut memory = Memory::default();
            settle(&mut facts, &mut memory);
            facts.services[0] = build("one", 10, first, &one);
            (facts, memory)
        },
    )
}

fn build(name: &str, start: usize, count: usize, endpoints: &[u8]) -> ServiceFact {
    let ips: Vec<String> = (start..start + count).map(|last| format!("203.0.113.{last}")).collect();
    let ips: Vec<&str> = ips.iter().map(String::as_str).collect();
    let endpoints: Vec<(&str, u8)> = NODES.into_iter().zip(endpoints.iter().copied()).collect();
    service(name, &ips, &endpoints)
}

fn ready(service: &ServiceFact) -> BTreeMap<&str, i64> {
    let mut ready = BTreeMap::new();
    for endpoint in &service.endpoints {
        *ready.entry(endpoint.node.as_deref().unwrap()).or_insert(0) += 1;
    }
    ready
}

fn held(facts: &Facts, service: &str, node: &str) -> i64 {
    let held = facts
        .addresses
        .iter()
        .filter(|address| address.spec.service.name == service && address.spec.node == node);
    i64::try_from(held.count()).unwrap()
}

fn homes(facts: &Facts) -> BTreeMap<String, String> {
    let homes = facts.addresses.iter();
    homes.map(|address| (address.spec.virtual_cidr.clone(), address.spec.node.clone())).collect()
}

/// Settled until no move is wanted any more.
fn rest(facts: &mut Facts, memory: &mut Memory) {
    let mut last = None;
    for round in 0..20 {
        facts.now = at(2_000 + round * 61);
        settle(facts, memory);
        let now = homes(facts);
        if last.as_ref() == Some(&now) {
            return;
        }
        last = Some(now);
    }
    panic!("moves never end");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn a_settled_cluster_has_nothing_to_do((mut facts, mut memory) in world()) {
        rest(&mut facts, &mut memory);
        prop_assert_eq!(decide(&facts, &memory).actions, vec![]);
        prop_assert_eq!(decide(&facts, &Memory::default()).actions, vec![], "nor after a restart");
    }

    #[test]
    fn no_address_is_held_twice_and_numbers_are_unique((mut facts, mut memory) in world()) {
        rest(&mut facts, &mut memory);
        one_holder(&facts);
        let (mut names, mut marks, mut tables, mut priorities) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for address in &facts.addresses {
            let spec = &address.spec;
            prop_assert!(names.insert((spec.service.clone(), spec.index)));
            prop_assert!(marks.insert((spec.node.clone(), spec.firewall_mark)));
            prop_assert!(tables.insert((spec.node.clone(), spec.route_table)));
            prop_assert!(priorities.insert((spec.node.clone(), spec.routing_priority)));
        }
    }

    #[test]
    fn limits_hold_and_nodes_without_endpoints_get_nothing((mut facts, mut memory) in world()) {
        rest(&mut facts, &mut memory);
        let limit = facts.config.as_ref().unwrap().spec.max_address_count;
        for service in &facts.services {
            let ready = ready(service);
            for node in NODES {
                let count = held(&facts, &service.key.name, node);
                prop_assert!(count <= limit);
                prop_assert!(count == 0 || ready.is_empty() || ready.contains_key(node));
            }
        }
    }

    #[test]
    fn every_node_is_within_one_address_of_its_share((mut facts, mut memory) in world()) {
        facts.config.as_mut().unwrap().spec.max_address_count = 127;
        rest(&mut facts, &mut memory);
        for service in &facts.services {
            let ready = ready(service);
            let total: i64 = ready.values().sum();
            let addresses = i64::try_from(service.requested.len()).unwrap();
            for (node, endpoints) in &ready {
                let off = held(&facts, &service.key.name, node) * total - addresses * endpoints;
                prop_assert!(off.abs() < total, "{node} is {off}/{total} off");
            }
        }
    }

    #[test]
    fn the_order_of_the_lists_means_nothing((facts, memory) in world(), turn in 0_usize..4) {
        let expected = decide(&facts, &memory);
        let mut other = facts.clone();
        other.nodes.rotate_left(turn);
        other.services.reverse();
        other.addresses.reverse();
        other.networks.reverse();
        for service in &mut other.services {
            service.endpoints.reverse();
        }
        prop_assert_eq!(decide(&other, &memory), expected);
    }

    #[test]
    fn a_lost_node_moves_what_it_had_and_little_else((mut facts, mut memory) in world(), lost in 0_usize..4) {
        facts.config.as_mut().unwrap().spec.max_address_count = 127;
        rest(&mut facts, &mut memory);
        let before = homes(&facts);
        facts.nodes.retain(|node| node.name != NODES[lost]);
        rest(&mut facts, &mut memory);
        let after = homes(&facts);
        let others = before
            .iter()
            .filter(|(ip, node)| *node != NODES[lost] && after.get(*ip) != Some(node))
            .count();
        prop_assert!(others <= 2 * facts.services.len(), "{before:?} {after:?}");
    }

    #[test]
    fn a_node_that_returns_takes_its_share_and_little_else((mut facts, mut memory) in world(), lost in 0_usize..4) {
        facts.config.as_mut().unwrap().spec.max_address_count = 127;
        let whole = facts.nodes.clone();
        facts.nodes.retain(|node| node.name != NODES[lost]);
        rest(&mut facts, &mut memory);
        let before = facts.addresses.clone();
        facts.nodes = whole;
        rest(&mut facts, &mut memory);
        for service in &facts.services {
            let ready = ready(service);
            let (total, here) = (ready.values().sum::<i64>(), ready.get(NODES[lost]).copied().unwrap_or(0));
            let share = (i64::try_from(service.requested.len()).unwrap() * here + total - 1) / total.max(1);
            let homes = |addresses: &[AddressFact]| -> BTreeMap<String, String> {
                let own = addresses.iter().filter(|address| address.spec.service == service.key);
                own.map(|address| (address.spec.virtual_cidr.clone(), address.spec.node.clone())).collect()
            };
            let (then, now) = (homes(&before), homes(&facts.addresses));
            let moved = then.iter().filter(|(ip, node)| now.get(*ip) != Some(node)).count();
            prop_assert!(i64::try_from(moved).unwrap() <= share + 2, "{share}: {then:?} {now:?}");
        }
    }

    #[test]
    fn what_does_not_pay_does_not_move((mut facts, mut memory) in world()) {
        rest(&mut facts, &mut memory);
        let before = homes(&facts);
        let mut again = facts.clone();
        again.services[1].requested.push("203.0.113.200".into());
        settle(&mut again, &mut memory);
        let after = homes(&again);
        for (ip, node) in before {
            prop_assert_eq!(after.get(&ip), Some(&node));
        }
    }
}
