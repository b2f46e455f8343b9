//! Networks as they are documented, row by row.

use super::super::fixture::{address, at, facts, network};
use super::*;

fn nets(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn source_networks_become_the_least_list() {
    let network: IpNet = "192.168.111.0/24".parse().unwrap();
    for (given, kept, warnings) in [
        (&["10.0.0.0/8"][..], &["10.0.0.0/8"][..], 0),
        (&["10.0.0.0/8", "10.1.0.0/16"], &["10.0.0.0/8"], 1),
        (&["10.1.0.0/16", "10.0.0.0/8"], &["10.0.0.0/8"], 1),
        (&["192.168.0.0/16"], &["192.168.0.0/16"], 0),
        (&["10.1.2.3/8"], &["10.0.0.0/8"], 1),
        (&["0.0.0.0/0", "10.0.0.0/8"], &["0.0.0.0/0"], 0),
        (&["192.168.111.128/25"], &[], 1),
        (&["10.0.0.0/8", "10.0.0.0/8"], &["10.0.0.0/8"], 1),
        (&["172.16.0.0/12", "10.0.0.0/8"], &["10.0.0.0/8", "172.16.0.0/12"], 0),
    ] {
        let (found, said) = normalise(network, &nets(given));
        assert_eq!((found, said.len()), (nets(kept), warnings), "{given:?}: {said:?}");
    }
}

#[test]
fn a_network_that_cannot_be_used_says_why() {
    for (cidr, gateway, sources, expected) in [
        ("192.168.111.0/24", "192.168.111.254", &["fd00::/8"][..], "InvalidSourceCIDR"),
        ("192.168.111.0/24", "192.168.112.254", &[], "InvalidGatewayIP"),
        ("192.168.111.0/24", "192.168.111.0", &[], "InvalidGatewayIP"),
        ("192.168.111.0/24", "192.168.111.255", &[], "InvalidGatewayIP"),
        ("192.168.111.0/24", "192.168.111.010", &[], "InvalidGatewayIP"),
        ("192.168.111/24", "192.168.111.254", &[], "InvalidNetworkCIDR"),
        ("2001:db8::/64", "203.0.113.1", &[], "InvalidGatewayIP"),
        ("2001:db8::/64", "2001:db8::", &[], "InvalidGatewayIP"),
        ("2001:db8::/64", "2001:db8::1", &["10.0.0.0/8"], "InvalidSourceCIDR"),
    ] {
        let mut facts = facts();
        let mut fact = network("n", cidr, 0);
        fact.spec.gateway_ip = gateway.into();
        fact.spec.source_cidrs = sources.iter().map(|text| (*text).to_owned()).collect();
        facts.networks = vec![fact];
        let judged = judge(&facts, &Memory::default());
        assert!(judged.enabled.is_empty());
        assert!(judged.frozen("n"));
        match &judged.refused["n"] {
            NetworkProblem::NotAccepted { reason, .. } => assert_eq!(*reason, expected, "{cidr} {gateway}"),
            NetworkProblem::Overlaps { .. } => panic!("nothing to overlap"),
        }
    }
}

/// The names in force.
fn winners(networks: &[(&str, &str, i64)], with_addresses: &[&str]) -> Vec<String> {
    let mut facts = facts();
    facts.networks = networks.iter().map(|&(name, cidr, age)| network(name, cidr, age)).collect();
    facts.addresses = with_addresses
        .iter()
        .enumerate()
        .map(|(number, name)| {
            let mut fact = address("web", u32::try_from(number).unwrap() + 1, "10.0.0.9", "a");
            fact.spec.network = (*name).to_owned();
            fact
        })
        .collect();
    let forward: Vec<String> =
        judge(&facts, &Memory::default()).enabled.keys().map(|name| (*name).to_owned()).collect();
    facts.networks.reverse();
    let backward: Vec<String> =
        judge(&facts, &Memory::default()).enabled.keys().map(|name| (*name).to_owned()).collect();
    assert_eq!(forward, backward, "the order of the list must not matter");
    forward
}

#[test]
fn of_overlapping_networks_those_in_use_then_the_specific_then_the_old_stay() {
    assert_eq!(winners(&[("p", "10.0.0.0/16", 0), ("q", "10.0.1.0/24", 0)], &["p"]), ["p"]);
    assert_eq!(winners(&[("p", "10.0.0.0/16", 0), ("q", "10.0.1.0/24", 0)], &[]), ["q"]);
    assert_eq!(winners(&[("p", "10.0.0.0/16", 5), ("q", "10.0.0.0/16", 1)], &[]), ["q"]);
    assert_eq!(winners(&[("p", "10.0.0.0/16", 1), ("q", "10.0.0.0/16", 1)], &[]), ["p"]);
}

#[test]
fn a_network_loses_only_to_one_in_force() {
    let (a, b, c) = (("a", "10.0.0.0/16", 0), ("b", "10.0.0.0/8", 0), ("c", "10.9.0.0/16", 0));
    assert_eq!(winners(&[a, b, c], &["a"]), ["a", "c"]);
    assert_eq!(winners(&[b, c], &[]), ["c"]);
    assert_eq!(winners(&[b], &[]), ["b"]);
}

#[test]
fn a_disabled_network_is_named_for_its_addresses() {
    let mut facts = facts();
    facts.networks = vec![network("p", "10.0.0.0/16", 0), network("q", "10.0.1.0/24", 0)];
    let judged = judge(&facts, &Memory::default());
    assert_eq!(judged.of("10.0.1.7".parse().unwrap()).unwrap().fact.name, "q");
    assert_eq!(judged.of("10.0.2.7".parse().unwrap()), None);
    assert_eq!(judged.disabled_of("10.0.2.7".parse().unwrap()), Some("p"));
    assert!(!judged.frozen("p"));
    assert_eq!(judged.enabled["q"].fact.created, at(0));
}
