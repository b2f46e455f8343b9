//! The law (the ops reach the desired state), its twin (a settled node has nothing to do), and safety after every op.

#![allow(clippy::wildcard_enum_match_arm, reason = "a test that meets the unexpected fails")]

mod model;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use proptest::prelude::*;

use self::model::{EGRESS, INGRESS, TO_PODS, Way, apply, destinations, mapping, marked, translated, way};
use super::diff;
use crate::{
    AllowedIp, Desired, Facts, Family, Flow, Gateway, GatewayPod, Interface, NextHop, Observed, Op, Peer,
    PeerKey, Route, Tunnel, Vip, compile,
};

/// No marked packet leaves by another interface or with another source than its VIP's.
fn assert_safe(state: &Observed, right: &[BTreeMap<IpAddr, Vec<IpAddr>>], after: &str) {
    let Some(table) = &state.nft else { return };
    let holds = |interface: &str, address: IpAddr| {
        state.addresses.keys().any(|key| key.interface == interface && key.address.addr() == address)
    };
    for (pod, network, mark) in marked(table, EGRESS) {
        for destination in probes(state, network) {
            match way(state, mark, destination) {
                Way::Dropped => {}
                Way::Leaked => panic!("after {after}: {pod} to {destination} leaks with mark {mark}"),
                Way::By(interface) => {
                    let source = translated(table, mark, &interface)
                        .unwrap_or_else(|| panic!("after {after}: {pod} leaves untranslated by {interface}"));
                    assert!(holds(&interface, source), "after {after}: {source} is not on {interface}");
                    let allowed = right.iter().any(|map| map.get(&pod).is_some_and(|v| v.contains(&source)));
                    assert!(allowed, "after {after}: {pod} leaves as {source}, which was never its VIP");
                }
            }
        }
    }
    // What takes no mark because a gateway leads there goes through a gateway's table.
    for destination in destinations(table).into_iter().flat_map(|network| probes(state, network)) {
        assert_ne!(way(state, 0, destination), Way::Leaked, "after {after}: {destination} leaks");
    }
    for (vip, network, mark) in marked(table, INGRESS) {
        for destination in probes(state, network) {
            match way(state, mark, destination) {
                Way::Dropped => {}
                Way::Leaked => panic!("after {after}: a reply of {vip} to {destination} leaks"),
                Way::By(interface) => {
                    assert!(holds(&interface, vip), "after {after}: a reply of {vip} leaves by {interface}");
                }
            }
        }
    }
}

/// Addresses of `network` that some route might treat differently.
fn probes(state: &Observed, network: IpNet) -> BTreeSet<IpAddr> {
    let inside = state.routes.keys().map(|key| key.destination.network()).filter(|a| network.contains(a));
    inside.chain([network.network(), network.broadcast()]).collect()
}

fn run(state: &mut Observed, desired: &Desired, stop_after: Option<usize>) {
    let right = [mapping(state.nft.as_ref()), mapping(desired.nft.as_ref())];
    assert_safe(state, &right, "nothing");
    let closed = state.nft.as_ref().map(destinations).unwrap_or_default();
    let staying = desired.nft.as_ref().map(destinations).unwrap_or_default();
    let ops = diff(desired, state);
    for op in ops.iter().take(stop_after.unwrap_or(ops.len())) {
        apply(state, op);
        assert_safe(state, &right, &op.to_string());
        assert_carried(state, op);
        // A gateway that was and will be is at every moment.
        for network in staying.iter().filter(|network| closed.contains(network)) {
            assert_ne!(way(state, 0, network.network()), Way::Leaked, "after {op}: {network} is open");
        }
    }
}

/// A way over WireGuard is there only when a peer takes what is sent by it.
fn assert_carried(state: &Observed, op: &Op) {
    let (Op::AddRoute(key, route) | Op::ReplaceRoute(key, route)) = op else { return };
    if route.interfaces().any(|name| name == "wg0") {
        let ours = AllowedIp { interface: "wg0".into(), network: key.destination };
        assert!(state.allowed_ips.contains_key(&ours), "after {op}: no peer has {}", key.destination);
    }
}

fn assert_reached(state: &Observed, desired: &Desired) {
    assert_eq!(state.rules, desired.rules);
    assert_eq!(state.routes, desired.routes);
    assert_eq!(state.addresses.keys().collect::<Vec<_>>(), desired.addresses.keys().collect::<Vec<_>>());
    assert_eq!(state.nft, desired.nft);
    assert_eq!(state.allowed_ips, desired.allowed_ips);
    assert_eq!(diff(desired, state), [], "a settled node has nothing to do");
}

/// The kernel flushes the device's routes when it goes down, and its addresses when it goes away; those of IPv6 when it
/// goes down. What a peer had goes with it.
fn change_links(state: &mut Observed, facts: &Facts) {
    let interfaces = &facts.interfaces;
    state.tunnels.clone_from(&facts.tunnels);
    let tunnels = &state.tunnels;
    state.allowed_ips.retain(|key, peer| {
        tunnels.get(&key.interface).is_some_and(|tunnel| tunnel.peers.contains_key(peer))
    });
    let up = |name: &str| interfaces.get(name).is_some_and(|interface| interface.up);
    state.routes.retain(|_, route| route.interfaces().all(|name| TO_PODS.contains(&name) || up(name)));
    state.addresses.retain(|key, _| match key.family() {
        Family::V4 => interfaces.contains_key(&key.interface),
        Family::V6 => up(&key.interface),
    });
    let mut interfaces = interfaces.clone();
    for (name, interface) in &mut interfaces {
        interface.promote_secondaries = state.interfaces.get(name).is_some_and(|old| old.promote_secondaries);
    }
    state.interfaces = interfaces;
}

fn vip() -> impl Strategy<Value = Vip> {
    let sources = prop::collection::vec(
        prop::sample::select(vec![
            ("10.0.0.0/8", "2001:db8::/32"),
            ("10.9.0.0/16", "2001:db8:9::/48"),
            ("198.51.100.0/24", "3fff::/20"),
            ("0.0.0.0/0", "::/0"),
        ]),
        0..3,
    );
    let pods = prop::collection::btree_set(1u8..4, 0..3);
    let six = prop::sample::select(vec![false, false, true]);
    (six, 0u8..2, 10u8..13, 1u32..4, 1u32..4, 1u32..4, sources, pods).prop_map(
        |(six, net, host, mark, table, priority, sources, pods)| Vip {
            name: format!("default/v{net}-{host}-{six}"),
            index: u32::from(host),
            interface: format!("eth{net}"),
            virtual_cidr: IpNet::new(on_network(six, net, host), if six { 64 } else { 24 }).unwrap(),
            gateway: Some(on_network(six, net, 254)),
            source_cidrs: sources
                .iter()
                .map(|(four, long)| if six { long } else { four }.parse().unwrap())
                .collect(),
            mark,
            table: 100 + table,
            priority: 200 + priority,
            endpoints: pods.into_iter().flat_map(pod).collect(),
        },
    )
}

/// A gateway; its table may be one a VIP wants.
fn gateway() -> impl Strategy<Value = Gateway> {
    let destinations = prop::sample::select(vec![
        "10.0.0.0/8",
        "10.9.0.0/16",
        "172.30.0.0/16",
        "203.0.113.0/25",
        "2001:db8:9::/48",
        "3fff:30::/32",
    ]);
    (destinations, 0u32..3, 1u32..3, prop::collection::vec(1u8..4, 0..3)).prop_map(
        |(destination, table, priority, pods)| {
            let destination: IpNet = destination.parse().unwrap();
            let of = |pod: u8| GatewayPod {
                name: format!("edge/p{pod}"),
                address: gateway_pod(destination.addr().is_ipv6(), pod),
                local: pod == 1,
            };
            Gateway {
                name: String::new(),
                destination,
                table: 103 + table,
                priority: 100 + priority,
                pods: pods.into_iter().map(of).collect(),
            }
        },
    )
}

/// Where the pods of gateways are; the third cannot be reached, and the second is on a bridge or behind a peer.
fn hops(wireguard: bool) -> BTreeMap<IpAddr, Result<NextHop, String>> {
    let way = |six: bool, pod: u8| NextHop {
        gateway: gateway_pod(six, pod),
        interface: if wireguard && !six && pod == 2 { "wg0".into() } else { "cni0".into() },
        source: gateway_pod(six, 254),
    };
    let of = |six| [(1, Ok(way(six, 1))), (2, Ok(way(six, 2))), (3, Err("no route".to_owned()))];
    [false, true].into_iter().flat_map(|six| of(six).map(|(pod, hop)| (gateway_pod(six, pod), hop))).collect()
}

fn gateway_pod(six: bool, number: u8) -> IpAddr {
    if six {
        Ipv6Addr::new(0xfd42, 0, 0, 1, 0, 0, 0, number.into()).into()
    } else {
        [10, 42, 1, number].into()
    }
}

/// wg0 with up to two peers; the last one has the pods.
fn tunnels(peers: u8) -> BTreeMap<String, Tunnel> {
    let pods = |last: bool| last.then(|| "10.42.1.0/24".parse().unwrap());
    let peers = (1..=peers).map(|peer| {
        let allowed_ips = pods(peer == peers).into_iter().collect();
        (PeerKey([peer; 32]), Peer { endpoint: None, allowed_ips })
    });
    BTreeMap::from([("wg0".to_owned(), Tunnel { index: 7, peers: peers.collect() })])
}

fn on_network(six: bool, net: u8, host: u8) -> IpAddr {
    if six {
        Ipv6Addr::new(0x2001, 0xdb8, 0x113, net.into(), 0, 0, 0, host.into()).into()
    } else {
        [203, 0, 113 + net, host].into()
    }
}

/// The addresses of a pod.
fn pod(number: u8) -> [IpAddr; 2] {
    [[10, 42, 0, number].into(), Ipv6Addr::new(0xfd42, 0, 0, 0, 0, 0, 0, number.into()).into()]
}

fn facts() -> impl Strategy<Value = Facts> {
    let links = prop::sample::select(vec![2u8, 2, 2, 1, 0]);
    let gateways = prop::collection::btree_map(0u8..3, gateway(), 0..3);
    let all = (prop::collection::vec(vip(), 0..5), links, any::<bool>(), gateways, 0u8..3);
    all.prop_map(|(vips, links, wide, gateways, peers)| {
        let mut interfaces = BTreeMap::new();
        for (name, state) in [("eth0", 2u8), ("eth1", links)] {
            if state > 0 {
                let up = state == 2;
                interfaces.insert(name.to_owned(), Interface { up, carrier: up, ..Interface::default() });
            }
        }
        Facts {
            mask: if wide { 0xff } else { 0x7f },
            cluster_networks: vec!["10.42.0.0/16".parse().unwrap(), "fd42::/56".parse().unwrap()],
            vips,
            gateways: gateways
                .into_iter()
                .map(|(number, gateway)| Gateway { name: format!("g{number}"), ..gateway })
                .collect(),
            hops: hops(peers > 0),
            tunnels: tunnels(peers),
            interfaces,
            ..Facts::default()
        }
    })
}

/// A node that has settled on `facts`.
fn settled(facts: &Facts) -> Observed {
    let mut state = Observed {
        interfaces: facts.interfaces.clone(),
        tunnels: facts.tunnels.clone(),
        ..Observed::default()
    };
    run(&mut state, &compile(facts).desired, None);
    state
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_prefix_of_the_ops_is_safe_and_all_of_them_reach_the_desired_state(a in facts(), b in facts()) {
        let mut state = settled(&a);
        change_links(&mut state, &b);
        let desired = compile(&b).desired;
        run(&mut state, &desired, None);
        assert_reached(&state, &desired);
    }

    #[test]
    fn a_crash_after_any_op_is_finished_safely_by_the_next_run(
        a in facts(), b in facts(), c in facts(), crash in 0usize..20,
    ) {
        let mut state = settled(&a);
        change_links(&mut state, &b);
        run(&mut state, &compile(&b).desired, Some(crash));
        change_links(&mut state, &c);
        let desired = compile(&c).desired;
        let ops = diff(&desired, &state);
        ops.iter().for_each(|op| apply(&mut state, op));
        assert_reached(&state, &desired);
    }

    #[test]
    fn whatever_others_took_away_comes_back(a in facts(), taken in any::<[bool; 5]>()) {
        let mut state = settled(&a);
        if taken[0] { state.nft = None; }
        if taken[1] { state.rules.clear(); }
        if taken[2] { state.routes.clear(); }
        if taken[3] { state.addresses.clear(); }
        if taken[4] { state.allowed_ips.clear(); }
        let desired = compile(&a).desired;
        let ops = diff(&desired, &state);
        ops.iter().for_each(|op| apply(&mut state, op));
        assert_reached(&state, &desired);
    }

    #[test]
    fn nothing_desired_leaves_nothing(a in facts()) {
        let mut state = settled(&a);
        run(&mut state, &Desired::default(), None);
        prop_assert!(state.is_empty());
    }
}

fn golden() -> (Facts, Observed) {
    let facts = crate::compile::golden_facts();
    let state = settled(&facts);
    (facts, state)
}

#[test]
fn a_vip_that_leaves_goes_in_the_reverse_order() {
    let (mut facts, state) = golden();
    facts.vips.remove(0);
    let ops = diff(&compile(&facts).desired, &state);
    let kinds: Vec<&str> = ops
        .iter()
        .map(|op| match op {
            Op::Nft(_) => "nft",
            Op::Forget(Flow::Address(_)) => "conntrack",
            Op::DeleteRule(_) => "rule",
            Op::DeleteRoute(..) => "route",
            Op::DeleteAddress(_) => "address",
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(kinds, ["nft", "conntrack", "rule", "route", "route", "route", "address", "conntrack"]);
    assert!(matches!(&ops[5], Op::DeleteRoute(_, Route::Unreachable)), "the fallback goes last");
}

#[test]
fn a_vip_that_is_recreated_with_another_mark_keeps_its_address_and_connections() {
    let (mut facts, state) = golden();
    facts.vips[0].mark = 9;
    facts.vips[0].table = 20009;
    facts.vips[0].priority = 20009;
    for op in diff(&compile(&facts).desired, &state) {
        let keeps =
            !matches!(op, Op::AddAddress(..) | Op::DeleteAddress(_) | Op::Forget(_) | Op::Announce { .. });
        assert!(keeps, "{op}");
    }
}

#[test]
fn a_pod_that_comes_or_goes_touches_its_own_connections_only() {
    let (mut facts, state) = golden();
    let (old, new): (IpAddr, IpAddr) = ([10, 42, 0, 5].into(), [10, 42, 0, 6].into());
    facts.vips[0].endpoints = BTreeSet::from([new]);
    let ops = diff(&compile(&facts).desired, &state);
    let flows: Vec<String> = ops[1..].iter().map(ToString::to_string).collect();
    assert_eq!(
        flows,
        [
            "conntrack -D --orig-src 10.42.0.6 --orig-dst 10.9.0.0/16,203.0.113.0/24 # not to \
             10.42.0.0/16,10.96.0.0/12,192.0.2.1/32,192.0.2.2/32, not from 203.0.113.10"
                .to_owned(),
            format!("conntrack -D --orig-src {old} --reply-dst 203.0.113.10"),
        ]
    );
}

#[test]
fn when_a_gateway_goes_what_went_through_it_is_forgotten() {
    let (mut facts, _) = golden();
    facts.gateways = vec![Gateway {
        name: "g".into(),
        destination: "10.9.7.0/24".parse().unwrap(),
        table: 200,
        priority: 100,
        pods: Vec::new(),
    }];
    let state = settled(&facts);
    facts.gateways.clear();
    let ops = diff(&compile(&facts).desired, &state);
    let forgotten: Vec<String> =
        ops.iter().filter(|op| matches!(op, Op::Forget(_))).map(ToString::to_string).collect();
    assert_eq!(
        forgotten,
        ["conntrack -D --orig-src 10.42.0.5 --orig-dst 10.9.7.0/24 # not to \
          10.42.0.0/16,10.96.0.0/12,192.0.2.1/32,192.0.2.2/32, not from 203.0.113.10"]
    );
}

#[test]
fn a_map_that_loses_many_elements_is_made_anew_in_the_same_transaction() {
    let (mut facts, _) = golden();
    facts.vips[0].endpoints = (1..=40).map(|pod| Ipv4Addr::new(10, 42, 1, pod).into()).collect();
    let state = settled(&facts);
    facts.vips[0].endpoints = BTreeSet::from([[10, 42, 1, 1].into()]);
    let ops = diff(&compile(&facts).desired, &state);
    let text = ops[0].to_string();
    let order = [
        "flush chain inet netwrangler egress",
        "delete set inet netwrangler egress-marks-ipv4",
        "add map inet netwrangler egress-marks-ipv4",
        "add element inet netwrangler egress-marks-ipv4",
        "add rule inet netwrangler egress ",
    ];
    let places: Vec<usize> =
        order.iter().map(|line| text.find(line).unwrap_or_else(|| panic!("{line}\n{text}"))).collect();
    assert!(places.is_sorted(), "{text}");
    assert_eq!(text.lines().count(), 6);
}

#[test]
fn rules_of_others_that_look_at_our_bits_are_reported_and_never_changed() {
    let (facts, mut state) = golden();
    state.foreign_rules.insert(crate::ForeignRule {
        family: Family::V4,
        priority: 77,
        mark: 0x3,
        mask: 0xff,
        table: 77,
    });
    state.foreign_rules.insert(crate::ForeignRule {
        family: Family::V4,
        priority: 78,
        mark: 0x100,
        mask: 0xff00,
        table: 78,
    });
    assert_eq!(diff(&compile(&facts).desired, &state), []);
    let conflicts: Vec<u32> = state.mark_conflicts(facts.mask).iter().map(|rule| rule.priority).collect();
    assert_eq!(conflicts, [77]);
}

#[test]
fn a_lifetime_is_renewed_in_time_and_only_in_company() {
    let (mut facts, mut state) = golden();
    facts.in_company = true;
    let ops = |facts: &Facts, state: &Observed| -> Vec<String> {
        diff(&compile(facts).desired, state).iter().map(ToString::to_string).collect()
    };
    assert_eq!(ops(&facts, &state), Vec::<String>::new());
    let first = state.addresses.values_mut().next().unwrap();
    first.seconds = 44;
    let renewal =
        "ip addr change 203.0.113.10/24 dev eth1 label vip:1 valid_lft 60 preferred_lft 60 noprefixroute";
    assert_eq!(ops(&facts, &state), [renewal]);
    facts.in_company = false;
    assert_eq!(ops(&facts, &state), Vec::<String>::new());
}

#[test]
fn addresses_outlive_an_agent_that_ends_and_the_next_one_takes_them_over() {
    let (mut facts, mut state) = golden();
    facts.in_company = true;
    let ops = super::parting(&state);
    assert_eq!(ops.len(), 2);
    ops.iter().for_each(|op| apply(&mut state, op));
    assert!(state.addresses.values().all(|address| address.seconds == 600));
    run(&mut state, &compile(&facts).desired, None);
    assert!(state.addresses.values().all(|address| address.seconds == crate::LIFETIME));
}
