//! Gateways by example: what each is on a node with eth0 192.0.2.2/24, to the rule and route.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::tests::golden_facts;
use crate::{Facts, Gateway, GatewayPod, Interface, NextHop, Observed, Plan, compile, diff};

fn gateway(name: &str, destination: &str, table: u32, priority: u32) -> Gateway {
    Gateway {
        name: name.into(),
        destination: destination.parse().unwrap(),
        table,
        priority,
        pods: Vec::new(),
    }
}

fn pod(address: &str, local: bool) -> GatewayPod {
    GatewayPod { name: format!("edge/{address}"), address: address.parse().unwrap(), local }
}

fn hop(gateway: &str, interface: &str, source: &str) -> Result<NextHop, String> {
    Ok(NextHop {
        gateway: gateway.parse().unwrap(),
        interface: interface.into(),
        source: source.parse().unwrap(),
    })
}

/// A node without VIPs, with the cluster networks and the interface of the table of refusals.
fn facts(gateways: Vec<Gateway>) -> Facts {
    let eth0 = Interface {
        up: true,
        carrier: true,
        foreign: BTreeSet::from(["192.0.2.2/24".parse().unwrap()]),
        ..Interface::default()
    };
    let hops: [(&str, Result<NextHop, String>); 7] = [
        ("fd42::5", hop("fd42::5", "cni0", "fd42::1")),
        ("fd42:0:0:1::5", hop("fd00:192::3", "eth0", "fd00:192::2")),
        ("10.42.0.5", hop("10.42.0.5", "cni0", "10.42.0.1")),
        ("10.42.0.6", hop("10.42.0.6", "cni0", "10.42.0.1")),
        ("10.42.1.5", hop("192.0.2.3", "eth0", "192.0.2.2")),
        ("10.42.1.6", hop("192.0.2.3", "eth0", "192.0.2.2")),
        ("10.42.2.5", Err("only the default route leads there".into())),
    ];
    Facts {
        mask: 0x7f,
        cluster_networks: ["10.244.0.0/16", "10.96.0.0/12", "fd42::/56"]
            .map(|net| net.parse().unwrap())
            .into(),
        node_addresses: vec!["192.0.2.2".parse().unwrap(), "198.51.100.3".parse().unwrap()],
        api_servers: BTreeSet::from(["198.51.100.250".parse::<IpAddr>().unwrap()]),
        gateways,
        hops: hops.into_iter().map(|(pod, hop)| (pod.parse().unwrap(), hop)).collect(),
        interfaces: BTreeMap::from([("eth0".to_owned(), eth0)]),
        ..Facts::default()
    }
}

fn refusal(plan: &Plan, name: &str) -> String {
    plan.gateways[name].refused.as_ref().map(ToString::to_string).unwrap_or_default()
}

/// The rules and routes, and the destinations that take no mark.
fn lines(plan: &Plan) -> Vec<String> {
    let text = plan.desired.to_string();
    let kernel = text.lines().take_while(|line| !line.starts_with("table inet") && !line.starts_with("addr"));
    let sets = &plan.desired.nft.as_ref().unwrap().sets;
    let sets = sets.iter().filter(|(name, _)| name.starts_with("gateway-destinations"));
    let taken = sets.flat_map(|(_, set)| set.elements.keys()).map(|key| format!("set {}", key[0]));
    kernel.filter(|line| *line != "ip rule:").map(str::to_owned).chain(taken).collect()
}

#[test]
fn each_conflict_refuses_the_gateway_and_is_named() {
    for (destination, table, priority, reason) in [
        ("0.0.0.0/0", 200, 100, "overlaps clusterCIDR 10.244.0.0/16"),
        ("10.244.7.0/24", 200, 100, "overlaps clusterCIDR 10.244.0.0/16"),
        ("192.0.2.128/25", 200, 100, "overlaps eth0 192.0.2.2/24"),
        ("192.0.0.0/8", 200, 100, "overlaps eth0 192.0.2.2/24"),
        ("198.51.100.0/25", 200, 100, "overlaps node address 198.51.100.3"),
        ("198.51.100.128/25", 200, 100, "overlaps the API server 198.51.100.250"),
        ("fe80::/64", 200, 100, "overlaps fe80::/10, where neighbours find each other"),
        ("fd00::/8", 200, 100, "overlaps clusterCIDR fd42::/56"),
        ("172.30.0.0/16", 254, 100, "route table 254 is the kernel's own"),
        ("172.30.0.0/16", 0, 100, "route table 0 is the kernel's own"),
        ("172.30.0.0/16", 200, 32_766, "rule priority 32766 is not between 1 and 32765"),
        ("172.30.0.0/16", 200, 0, "rule priority 0 is not between 1 and 32765"),
    ] {
        let plan = compile(&facts(vec![gateway("g", destination, table, priority)]));
        assert_eq!(refusal(&plan, "g"), reason);
        assert!(lines(&plan).is_empty(), "nothing of it is there: {:?}", lines(&plan));
    }
    let plan = compile(&facts(vec![gateway("g", "172.30.0.0/16", 200, 32_765)]));
    assert_eq!(refusal(&plan, "g"), "", "the last priority before the main table is applied");
}

#[test]
fn the_table_of_a_vip_refuses_on_the_vips_node_only() {
    let wanting = vec![gateway("g", "172.30.0.0/16", 20001, 100)];
    let plan = compile(&Facts { gateways: wanting.clone(), ..golden_facts() });
    assert_eq!(refusal(&plan, "g"), "route table 20001 belongs to VIP default/web-1");
    assert_eq!(refusal(&compile(&facts(wanting)), "g"), "");
    // The same for the network of a VIP.
    let inside = vec![gateway("g", "203.0.113.128/25", 200, 100)];
    let plan = compile(&Facts { gateways: inside.clone(), ..golden_facts() });
    assert_eq!(refusal(&plan, "g"), "overlaps eth1 203.0.113.10/24");
    assert_eq!(refusal(&compile(&facts(inside)), "g"), "");
}

#[test]
fn two_gateways_with_one_destination_and_table_are_both_refused() {
    let mut twins = vec![gateway("g", "172.30.0.0/16", 200, 100), gateway("h", "172.30.0.0/16", 200, 50)];
    let plan = compile(&facts(twins.clone()));
    assert_eq!(
        [refusal(&plan, "g"), refusal(&plan, "h")],
        ["h", "g"].map(|other| format!(
            "VipGateway {other} has the same destination and route table; both are refused"
        ))
    );
    assert!(lines(&plan).is_empty());
    twins[1].table = 201;
    let plan = compile(&facts(twins));
    assert_eq!([refusal(&plan, "g"), refusal(&plan, "h")], ["", ""]);
}

#[test]
fn a_nested_destination_is_applied_and_stands_in_the_set_once() {
    let nested = vec![gateway("g1", "172.30.0.0/16", 200, 100), gateway("g2", "172.30.5.0/24", 201, 200)];
    assert_eq!(
        lines(&compile(&facts(nested))),
        [
            "100: from all to 172.30.0.0/16 fwmark 0/0x7f lookup 200 proto 110",
            "200: from all to 172.30.5.0/24 fwmark 0/0x7f lookup 201 proto 110",
            "table 200:",
            "unreachable 172.30.0.0/16 proto 110 metric 4294967295",
            "table 201:",
            "unreachable 172.30.5.0/24 proto 110 metric 4294967295",
            "set 172.30.0.0/16",
        ]
    );
}

#[test]
fn without_a_pod_there_is_the_rule_and_the_fallback() {
    assert_eq!(
        lines(&compile(&facts(vec![gateway("g", "172.30.0.0/16", 200, 100)]))),
        [
            "100: from all to 172.30.0.0/16 fwmark 0/0x7f lookup 200 proto 110",
            "table 200:",
            "unreachable 172.30.0.0/16 proto 110 metric 4294967295",
            "set 172.30.0.0/16",
        ]
    );
}

#[test]
fn with_pods_there_is_one_route_over_all_of_them_and_a_guard_for_each() {
    let mut led = gateway("g", "172.30.0.0/16", 200, 100);
    led.pods = vec![pod("10.42.0.6", true), pod("10.42.0.5", true)];
    assert_eq!(
        lines(&compile(&facts(vec![led.clone()]))),
        [
            "99: from 10.42.0.5/32 to 172.30.0.0/16 fwmark 0/0x7f lookup 254 proto 110",
            "99: from 10.42.0.6/32 to 172.30.0.0/16 fwmark 0/0x7f lookup 254 proto 110",
            "100: from all to 172.30.0.0/16 fwmark 0/0x7f lookup 200 proto 110",
            "table 200:",
            "172.30.0.0/16 proto 110 src 10.42.0.1 nexthop via 10.42.0.5 dev cni0 weight 1 \
             nexthop via 10.42.0.6 dev cni0 weight 1",
            "unreachable 172.30.0.0/16 proto 110 metric 4294967295",
            "set 172.30.0.0/16",
        ]
    );
    led.pods.pop();
    let one = lines(&compile(&facts(vec![led])));
    assert!(
        one.contains(&"172.30.0.0/16 via 10.42.0.6 dev cni0 proto 110 src 10.42.0.1".to_owned()),
        "{one:?}"
    );
}

#[test]
fn a_gateway_of_ipv6_is_the_same_in_its_own_words() {
    let mut led = gateway("g", "3fff:30::/32", 200, 100);
    led.pods = vec![pod("fd42::5", true), pod("fd42:0:0:1::5", false), pod("10.42.0.5", true)];
    let plan = compile(&facts(vec![led.clone()]));
    assert_eq!(
        lines(&plan),
        [
            "ip -6 rule:",
            "99: from fd42::5/128 to 3fff:30::/32 fwmark 0/0x7f lookup 254 proto 110",
            "100: from all to 3fff:30::/32 fwmark 0/0x7f lookup 200 proto 110",
            "table 200:",
            "3fff:30::/32 via fd42::5 dev cni0 proto 110 src fd42::1",
            "unreachable 3fff:30::/32 proto 110 metric 4294967295",
            "set 3fff:30::/32",
        ]
    );
    assert_eq!(
        plan.gateways["g"].unusable,
        ["pod edge/10.42.0.5 (10.42.0.5): its address is of another family than the gateway's destination"]
    );
    led.pods.remove(0);
    led.pods.pop();
    let away = lines(&compile(&facts(vec![led]))).concat();
    assert!(away.contains("via fd00:192::3 dev eth0 proto 110 src fd00:192::2"), "{away}");
}

#[test]
fn a_node_with_pods_of_its_own_never_hands_packets_to_another_node() {
    let mut led = gateway("g", "172.30.0.0/16", 200, 100);
    led.pods = vec![pod("10.42.0.5", true), pod("10.42.1.5", false)];
    let plan = compile(&facts(vec![led.clone()]));
    assert!(lines(&plan).iter().any(|line| line.starts_with("172.30.0.0/16 via 10.42.0.5 dev cni0")));
    assert!(!lines(&plan).concat().contains("192.0.2.3"));
    // Also when its own cannot be reached: then it is closed.
    led.pods[0].address = "10.42.2.5".parse().unwrap();
    let plan = compile(&facts(vec![led]));
    assert!(!lines(&plan).concat().contains(" via "), "{:?}", lines(&plan));
    assert_eq!(
        plan.gateways["g"].unusable,
        ["pod edge/10.42.0.5 (10.42.2.5): only the default route leads there"]
    );
}

#[test]
fn pods_behind_one_router_add_to_its_share_and_sources_differ_by_interface() {
    let mut led = gateway("g", "172.30.0.0/16", 200, 100);
    led.pods = vec![pod("10.42.1.5", false), pod("10.42.1.6", false)];
    let route = |led: &Gateway| -> String {
        let lines = lines(&compile(&facts(vec![led.clone()])));
        lines.into_iter().find(|line| line.starts_with("172.30.0.0/16")).unwrap()
    };
    assert_eq!(route(&led), "172.30.0.0/16 via 192.0.2.3 dev eth0 proto 110 src 192.0.2.2");
    led.pods.push(pod("10.42.0.5", false));
    assert_eq!(
        route(&led),
        "172.30.0.0/16 proto 110 nexthop via 10.42.0.5 dev cni0 weight 1 nexthop via 192.0.2.3 dev eth0 weight 2"
    );
}

#[test]
fn a_pod_without_a_way_closes_the_gateway_and_never_opens_it() {
    let mut led = gateway("g", "172.30.0.0/16", 200, 100);
    for (address, why) in [
        ("10.42.2.5", "only the default route leads there"),
        ("10.42.9.9", "no way to it is known"),
        ("172.30.0.5", "its address is inside the gateway's own destination"),
    ] {
        led.pods = vec![pod(address, false)];
        let plan = compile(&facts(vec![led.clone()]));
        let standing = &plan.gateways["g"];
        assert_eq!((standing.pods, &standing.refused), (0, &None));
        assert_eq!(standing.unusable, [format!("pod edge/{address} ({address}): {why}")]);
        assert_eq!(lines(&plan).len(), 4, "the rule, the fallback, the set: {:?}", lines(&plan));
    }
    // What the kernel would not take is left out the same way.
    led.pods = vec![pod("10.42.0.5", false)];
    let mut refused = facts(vec![led]);
    refused.closed.insert("g".into(), "Nexthop has invalid gateway".into());
    assert_eq!(lines(&compile(&refused)).len(), 4);
}

#[test]
fn redirects_are_dropped_while_a_gateway_is_applied() {
    let chains = |facts: &Facts| compile(facts).desired.nft.unwrap().chains;
    assert!(!chains(&facts(Vec::new())).contains_key("filter-output"));
    let chain = &chains(&facts(vec![gateway("g", "172.30.0.0/16", 200, 100)]))["filter-output"];
    assert_eq!(chain.rules[0].to_string(), "icmp type redirect ip daddr @cluster-networks drop");
    let chain = &chains(&facts(vec![gateway("g", "3fff:30::/32", 200, 100)]))["filter-output"];
    let rules: Vec<String> = chain.rules.iter().map(ToString::to_string).collect();
    assert_eq!(rules, ["icmpv6 type nd-redirect ip6 daddr @cluster-networks-ipv6 drop"]);
}

#[test]
fn pods_that_come_and_go_replace_one_route_and_leave_the_fallback_alone() {
    let mut led = gateway("g", "172.30.0.0/16", 200, 100);
    let mut state = Observed { interfaces: facts(Vec::new()).interfaces, ..Observed::default() };
    let mut step = |pods: &[&str]| -> Vec<String> {
        led.pods = pods.iter().map(|address| pod(address, false)).collect();
        let desired = compile(&facts(vec![led.clone()])).desired;
        let ops = diff(&desired, &state);
        state.routes = desired.routes;
        state.rules = desired.rules;
        state.nft = desired.nft;
        ops.iter().map(ToString::to_string).filter(|line| line.starts_with("ip ")).collect()
    };
    step(&["10.42.0.5", "10.42.0.6"]);
    assert_eq!(
        step(&["10.42.0.6"]),
        ["ip route replace 172.30.0.0/16 via 10.42.0.6 dev cni0 proto 110 src 10.42.0.1 table 200"]
    );
    assert_eq!(
        step(&[]),
        ["ip route del 172.30.0.0/16 via 10.42.0.6 dev cni0 proto 110 src 10.42.0.1 table 200"]
    );
    assert_eq!(
        step(&["10.42.0.5", "10.42.0.6"]),
        [
            "ip route add 172.30.0.0/16 proto 110 src 10.42.0.1 table 200 nexthop via 10.42.0.5 dev cni0 weight 1 \
          nexthop via 10.42.0.6 dev cni0 weight 1"
        ]
    );
}

#[test]
fn a_gateway_comes_before_its_destination_is_unmarked_and_goes_after_it_is_marked_again() {
    let with = Facts { gateways: vec![gateway("g", "172.30.0.0/16", 200, 100)], ..golden_facts() };
    let settled = |facts: &Facts| {
        let desired = compile(facts).desired;
        Observed {
            interfaces: facts.interfaces.clone(),
            addresses: desired.addresses,
            routes: desired.routes,
            rules: desired.rules,
            nft: desired.nft,
            ..Observed::default()
        }
    };
    let kinds = |desired: &Facts, observed: &Facts| -> Vec<String> {
        let ops = diff(&compile(desired).desired, &settled(observed));
        ops.iter().map(|op| op.to_string().split_whitespace().take(3).collect::<Vec<_>>().join(" ")).collect()
    };
    assert_eq!(
        kinds(&with, &golden_facts()),
        ["ip route add", "ip rule add", "nft -f -", "conntrack -D --orig-src"]
    );
    assert_eq!(
        kinds(&golden_facts(), &with),
        ["nft -f -", "conntrack -D --orig-src", "ip rule del", "ip route del"]
    );
}
