//! The plan by example: the golden node, and every reason a VIP can be refused for.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Contest, Facts, Interface, Observed, Plan, Problem, Route, Vip, compile, diff};

/// Two VIPs on eth1: one for a source network with an egress pod, one for everything.
pub(crate) fn golden_facts() -> Facts {
    let vip = |index: u32, address: &str, sources: &[&str]| Vip {
        name: format!("default/web-{index}"),
        index,
        interface: "eth1".into(),
        virtual_cidr: address.parse().unwrap(),
        gateway: Some("203.0.113.254".parse().unwrap()),
        source_cidrs: sources.iter().map(|source| source.parse().unwrap()).collect(),
        mark: index,
        table: 20000 + index,
        priority: 20000 + index,
        endpoints: BTreeSet::new(),
    };
    let mut first = vip(1, "203.0.113.10/24", &["10.9.0.0/16"]);
    first.endpoints.insert("10.42.0.5".parse().unwrap());
    let eth1 = Interface { up: true, carrier: true, promote_secondaries: true, ..Interface::default() };
    Facts {
        mask: 0x7f,
        cluster_networks: vec!["10.42.0.0/16".parse().unwrap(), "10.96.0.0/12".parse().unwrap()],
        node_addresses: vec!["192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap()],
        vips: vec![first, vip(2, "203.0.113.11/24", &["0.0.0.0/0"])],
        interfaces: BTreeMap::from([("eth1".to_owned(), eth1)]),
        ..Facts::default()
    }
}

/// The golden node with an IPv6 VIP besides: of the same Service, on the same interface, for everything.
pub(crate) fn dual_facts() -> Facts {
    let mut facts = golden_facts();
    let mut third = facts.vips[1].clone();
    third.name = "default/web-3".into();
    (third.index, third.mark, third.table, third.priority) = (3, 3, 20003, 20003);
    third.virtual_cidr = "2001:db8:113::10/64".parse().unwrap();
    third.gateway = "2001:db8:113::254".parse().ok();
    third.source_cidrs = vec!["2001:db8:9::/48".parse().unwrap()];
    third.endpoints = ["10.42.0.5", "fd42::5"].map(|pod| pod.parse().unwrap()).into();
    facts.vips.push(third);
    facts.cluster_networks.push("fd42::/56".parse().unwrap());
    facts.node_addresses.push("fd00:192::1".parse().unwrap());
    facts
}

fn reasons(facts: &Facts, vip: &str) -> Vec<&'static str> {
    let plan: Plan = compile(facts);
    plan.problems.get(vip).into_iter().flatten().map(Problem::reason).collect()
}

#[test]
fn the_golden_node_is_rendered_byte_for_byte() {
    let desired = compile(&golden_facts()).desired;
    assert_eq!(desired.to_string(), include_str!("../../golden/two-vips.txt"));
}

#[test]
fn the_golden_node_is_reached_by_the_golden_dry_run() {
    let facts = golden_facts();
    let observed = Observed { interfaces: facts.interfaces.clone(), ..Observed::default() };
    let ops: Vec<String> =
        diff(&compile(&facts).desired, &observed).iter().map(|op| format!("{op}\n")).collect();
    assert_eq!(ops.concat(), include_str!("../../golden/two-vips.dry-run.txt"));
}

#[test]
fn a_node_with_both_families_is_rendered_byte_for_byte() {
    let desired = compile(&dual_facts()).desired;
    assert_eq!(desired.to_string(), include_str!("../../golden/dual-stack.txt"));
}

#[test]
fn a_node_with_both_families_is_reached_by_its_dry_run() {
    let facts = dual_facts();
    let observed = Observed { interfaces: facts.interfaces.clone(), ..Observed::default() };
    let ops: Vec<String> =
        diff(&compile(&facts).desired, &observed).iter().map(|op| format!("{op}\n")).collect();
    assert_eq!(ops.concat(), include_str!("../../golden/dual-stack.dry-run.txt"));
}

#[test]
fn a_vip_of_ipv6_adds_to_the_table_of_ipv4_and_changes_nothing_in_it() {
    let (four, both) = (compile(&golden_facts()).desired, compile(&dual_facts()).desired);
    let (four, both) = (four.nft.unwrap(), both.nft.unwrap());
    for (name, set) in four.sets.iter().filter(|(name, _)| *name != "vip-marks") {
        assert_eq!(both.sets.get(name), Some(set), "{name}");
    }
    for (name, chain) in &four.chains {
        let rules = &both.chains[name].rules;
        assert!(chain.rules.iter().all(|rule| rules.contains(rule)), "{name}");
    }
}

#[test]
fn an_ipv6_vip_leaves_the_pods_and_the_reverse_path_filter_of_ipv4_alone() {
    let mut facts = dual_facts();
    facts.interfaces.get_mut("eth1").unwrap().rp_filter = 1;
    assert!(reasons(&facts, "default/web-3").is_empty());
    let nft = compile(&facts).desired.nft.unwrap();
    let egress: Vec<String> =
        nft.sets["egress-marks-ipv6"].elements.keys().map(|key| key[0].to_string()).collect();
    assert_eq!(egress, ["fd42::5", "fd42::5"]);
}

#[test]
fn while_the_interface_is_down_an_ipv6_vip_has_no_address_and_its_table_refuses() {
    let mut facts = dual_facts();
    facts.interfaces.get_mut("eth1").unwrap().up = false;
    let desired = compile(&facts).desired;
    assert!(desired.addresses.keys().all(|key| key.address.addr().is_ipv4()));
    let table: Vec<&Route> =
        desired.routes.iter().filter(|(key, _)| key.table == 20003).map(|(_, route)| route).collect();
    assert_eq!(table, [&Route::Unreachable]);
}

#[test]
fn a_source_of_the_other_family_is_left_out_with_a_warning() {
    let mut facts = dual_facts();
    facts.vips[2].source_cidrs.push("0.0.0.0/0".parse().unwrap());
    let plan = compile(&facts);
    assert!(plan.accepts("default/web-3"));
    assert!(plan.warnings["default/web-3"][0].starts_with("0.0.0.0/0 is of another family"));
}

#[test]
fn the_order_of_the_vips_changes_nothing() {
    let mut facts = golden_facts();
    let before = compile(&facts);
    facts.vips.reverse();
    assert_eq!(compile(&facts), before);
}

#[test]
fn every_label_fits_the_kernel() {
    let mut facts = golden_facts();
    facts.vips[0].index = u32::MAX;
    let desired = compile(&facts).desired;
    assert!(desired.addresses.values().flat_map(|address| &address.label).all(|label| label.len() <= 15));
}

#[test]
fn a_strict_reverse_path_filter_keeps_the_prefix_route_and_is_reported() {
    let mut facts = golden_facts();
    facts.interfaces.get_mut("eth1").unwrap().rp_filter = 1;
    assert_eq!(reasons(&facts, "default/web-1"), ["RpFilterStrict"]);
    assert!(compile(&facts).desired.addresses.values().all(|address| !address.no_prefix_route));
}

#[test]
fn a_vip_whose_interface_is_down_stays_closed_and_is_reported() {
    let mut facts = golden_facts();
    let whole = compile(&facts).desired;
    facts.interfaces.get_mut("eth1").unwrap().up = false;
    let desired = compile(&facts).desired;
    assert_eq!(reasons(&facts, "default/web-1"), ["InterfaceDown"]);
    assert_eq!((&desired.nft, &desired.rules), (&whole.nft, &whole.rules));
    assert!(desired.routes.values().all(|route| *route == crate::Route::Unreachable));
    facts.interfaces.clear();
    assert_eq!(reasons(&facts, "default/web-1"), ["InterfaceMissing"]);
    assert!(compile(&facts).desired.addresses.is_empty());
}

#[test]
fn an_address_that_is_not_ours_is_a_conflict_and_is_left_alone() {
    let mut facts = golden_facts();
    facts.interfaces.get_mut("eth1").unwrap().foreign.insert("203.0.113.10/32".parse().unwrap());
    // kube-proxy in IPVS mode has the addresses of all Services.
    let ipvs = Interface { foreign: ["203.0.113.11/32".parse().unwrap()].into(), ..Interface::default() };
    facts.interfaces.insert("kube-ipvs0".into(), ipvs);
    assert_eq!(reasons(&facts, "default/web-1"), ["AddressConflict"]);
    let plan = compile(&facts);
    assert!(!plan.accepts("default/web-1") && plan.accepts("default/web-2"));
    assert_eq!(plan.desired.addresses.len(), 1);
}

#[test]
fn what_cannot_work_is_refused_with_its_reason() {
    type Change = fn(&mut Vip);
    let cases: [(&str, Change); 9] = [
        ("MarkOutsideMask", |vip| vip.mark = 0),
        ("MarkOutsideMask", |vip| vip.mark = 0x81),
        ("ReservedTable", |vip| vip.table = 254),
        ("PriorityOutOfRange", |vip| vip.priority = 0),
        ("PriorityOutOfRange", |vip| vip.priority = 32766),
        ("GatewayOutsideNetwork", |vip| vip.gateway = "192.0.2.1".parse().ok()),
        ("NoGateway", |vip| vip.gateway = None),
        ("Duplicate", |vip| vip.table = 20002),
        ("Duplicate", |vip| vip.virtual_cidr = "203.0.113.11/24".parse().unwrap()),
    ];
    for (reason, change) in cases {
        let mut facts = golden_facts();
        // The lower mark is accepted first, so the changed one gets the higher.
        facts.vips[0].mark = 3;
        change(&mut facts.vips[0]);
        let other = if facts.vips[0].mark == 0 { "default/web-2" } else { "default/web-1" };
        let plan = compile(&facts);
        let refused = if other == "default/web-2" { "default/web-1" } else { other };
        let found: Vec<&str> =
            plan.problems.get(refused).into_iter().flatten().map(Problem::reason).collect();
        assert_eq!(found, [reason]);
        assert!(plan.accepts("default/web-2"), "{reason}");
    }
}

#[test]
fn a_pod_behind_two_networks_has_one_vip_for_each_destination() {
    let mut facts = golden_facts();
    facts.vips[1].source_cidrs = vec!["10.9.8.0/22".parse().unwrap()];
    facts.vips[1].endpoints = facts.vips[0].endpoints.clone();
    let nft = compile(&facts).desired.nft.unwrap();
    let egress: Vec<String> = nft.sets["egress-marks-ipv4"]
        .elements
        .iter()
        .map(|(key, value)| format!("{} {value:?}", key[1]))
        .collect();
    assert!(egress.iter().any(|line| line.starts_with("10.9.8.0/22") && line.contains("mark-00000002")));
    assert!(egress.iter().any(|line| line.starts_with("203.0.113.0/24") && line.contains("00000001")));
    assert_eq!(egress.iter().filter(|line| line.contains("00000001")).count(), 7);
}

#[test]
fn guarded_pods_have_no_way_out_but_a_mark() {
    let mut facts = golden_facts();
    // A pod of the node's own network has the node's address: it is no pod to guard.
    facts.guarded = ["10.42.0.5", "10.42.0.6", "192.0.2.1", "fd00::5"].map(|pod| pod.parse().unwrap()).into();
    let nft = compile(&facts).desired.nft.unwrap();
    let pods: Vec<String> = nft.sets["guarded-pods"].elements.keys().map(|key| key[0].to_string()).collect();
    assert_eq!(pods, ["10.42.0.5", "10.42.0.6"]);
    assert_eq!(nft.sets["guarded-pods-ipv6"].elements.len(), 1);
    let rules =
        |chain: &str| -> Vec<String> { nft.chains[chain].rules.iter().map(ToString::to_string).collect() };
    assert_eq!(
        rules("filter-forward"),
        [
            "ip daddr @cluster-networks return",
            "ct original ip daddr @gateway-destinations return",
            "ip6 daddr @cluster-networks-ipv6 return",
            "ct original ip6 daddr @gateway-destinations-ipv6 return",
            "meta mark & 0x0000007f @vip-marks return",
            "ct state invalid,untracked ip saddr @guarded-pods drop",
            "ct original ip saddr @guarded-pods goto guard",
            "ct state invalid,untracked ip6 saddr @guarded-pods-ipv6 drop",
            "ct original ip6 saddr @guarded-pods-ipv6 goto guard",
        ]
    );
    assert_eq!(
        rules("guard"),
        ["meta l4proto tcp reject with tcp reset", "reject with icmpx admin-prohibited"]
    );
    facts.guarded.clear();
    assert!(!compile(&facts).desired.nft.unwrap().chains.contains_key("filter-forward"));
}

#[test]
fn an_address_that_somebody_else_has_or_may_have_is_not_added() {
    let mut facts = golden_facts();
    let (first, stranger) = ("default/web-1", [2, 0, 0, 0, 0, 0x99]);
    let mut judged = |contest| {
        facts.contested.insert(first.into(), contest);
        let plan = compile(&facts);
        let problem = &plan.problems[first][0];
        assert!(plan.accepts("default/web-2"));
        (plan.accepts(first), problem.reason(), problem.to_string())
    };
    assert_eq!(judged(Contest::Asking).1, "Probing");
    let (accepted, reason, words) = judged(Contest::Held(stranger));
    assert_eq!((accepted, reason), (false, "AddressConflict"));
    assert_eq!(words, "02:00:00:00:00:99 has the address on the network of eth1");
    let (accepted, reason, _) = judged(Contest::Claimed(stranger));
    assert_eq!((accepted, reason), (true, "AddressConflict"));
}
