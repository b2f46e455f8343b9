//! Decisions row by row as they are documented, and the laws they keep.

mod laws;

use litek8s_crds::names::FINALIZER_RELEASE;

use super::super::facts::{EndpointFact, NodeFact, Terminating};
use super::super::fixture::{
    address, at, config, endpoint, execute, facts, network, placements, service, settle,
};
use super::super::report::Verdict;
use super::*;

const STABLE: i64 = 60;

/// `.10` is 203.0.113.10.
fn ips(last: &[u8]) -> Vec<String> {
    last.iter().map(|byte| format!("203.0.113.{byte}")).collect()
}

/// One Service `web`; existing VipAddresses as (address, index, node).
fn web(last: &[u8], endpoints: &[(&str, u8)], existing: &[(u8, u32, &str)], limit: i64) -> Facts {
    let mut facts = facts();
    facts.config.as_mut().unwrap().spec.max_address_count = limit;
    let listed = ips(last);
    let listed: Vec<&str> = listed.iter().map(String::as_str).collect();
    facts.services = vec![service("web", &listed, endpoints)];
    facts.addresses = existing
        .iter()
        .map(|&(ip, index, node)| address("web", index, &format!("203.0.113.{ip}"), node))
        .collect();
    facts
}

/// The placement at once, and the one when everything that is wanted has been wanted long enough.
fn outcome(mut facts: Facts) -> (String, String) {
    let mut memory = Memory::default();
    settle(&mut facts, &mut memory);
    let at_once = placements(&facts);
    facts.now = at(1_000 + STABLE);
    settle(&mut facts, &mut memory);
    (at_once, placements(&facts))
}

#[test]
fn addresses_without_a_place_go_where_most_is_missing() {
    for (name, last, endpoints, expected) in [
        ("A1", &[10, 11, 12, 13][..], &[("a", 1), ("b", 1)][..], "a: .10#1 .12#3; b: .11#2 .13#4"),
        ("A2", &[10, 11, 12, 13], &[("a", 3), ("b", 1)], "a: .10#1 .11#2 .12#3; b: .13#4"),
        ("A3", &[10, 11], &[("a", 1), ("b", 1), ("c", 1)], "a: .10#1; b: .11#2"),
        ("A5", &[10, 11, 12], &[("a", 4), ("b", 1)], "a: .10#1 .11#2; b: .12#3"),
        (
            "A6",
            &[10, 11, 12, 13, 14],
            &[("a", 1), ("b", 1), ("c", 1)],
            "a: .10#1 .13#4; b: .11#2 .14#5; c: .12#3",
        ),
        (
            "A7",
            &[10, 11, 12, 13, 14, 15, 16, 17, 18, 19],
            &[("a", 5), ("b", 3), ("c", 2)],
            "a: .10#1 .11#2 .12#3 .14#5 .17#8; b: .13#4 .15#6 .18#9; c: .16#7 .19#10",
        ),
        ("D4", &[10, 10, 11], &[("a", 1), ("b", 1)], "a: .10#1; b: .11#2"),
    ] {
        let (at_once, later) = outcome(web(last, endpoints, &[], 127));
        assert_eq!((at_once.as_str(), later.as_str()), (expected, expected), "{name}");
    }
    let (_, limited) = outcome(web(&[10, 11, 12, 13], &[("a", 3), ("b", 1)], &[], 2));
    assert_eq!(limited, "a: .10#1 .11#2; b: .12#3 .13#4", "C3");
}

#[test]
fn addresses_move_for_balance_only_when_it_was_wanted_long_enough() {
    let abc = &[("a", 1), ("b", 1), ("c", 1)][..];
    let ab = &[("a", 1), ("b", 1)][..];
    let on = |a: &[u8], b: &[u8]| -> Vec<(u8, u32, &'static str)> {
        let all = a.iter().map(|&ip| (ip, "a")).chain(b.iter().map(|&ip| (ip, "b")));
        all.map(|(ip, node)| (ip, u32::from(ip) - 9, node)).collect()
    };
    for (name, last, endpoints, existing, expected) in [
        ("B2", &[10, 11, 12, 13][..], abc, on(&[10, 11], &[12, 13]), "a: .10#1; b: .12#3 .13#4; c: .11#2"),
        ("B3", &[10, 11, 12, 13], ab, on(&[10, 11, 12, 13], &[]), "a: .10#1 .11#2; b: .12#3 .13#4"),
        ("B4", &[10, 11, 12], ab, on(&[10, 11], &[12]), "a: .10#1 .11#2; b: .12#3"),
        ("B5", &[10, 11, 12], ab, on(&[10], &[11, 12]), "a: .10#1; b: .11#2 .12#3"),
        ("B7", &[10, 11], &[("a", 2), ("b", 1)], on(&[10], &[11]), "a: .10#1; b: .11#2"),
        (
            "B8",
            &[10, 11, 12, 13],
            &[("a", 2), ("b", 1)],
            on(&[10, 12], &[11, 13]),
            "a: .10#1 .12#3 .13#4; b: .11#2",
        ),
        (
            "B9",
            &[10, 11, 12, 13],
            &[("a", 3), ("b", 1)],
            on(&[10, 12], &[11, 13]),
            "a: .10#1 .12#3 .13#4; b: .11#2",
        ),
        ("D3", &[13, 10, 12, 11], ab, on(&[10, 12], &[11, 13]), "a: .10#1 .12#3; b: .11#2 .13#4"),
    ] {
        let facts = web(last, endpoints, &existing, 127);
        let before = placements(&facts);
        let (at_once, later) = outcome(facts);
        assert_eq!((at_once.as_str(), later.as_str()), (before.as_str(), expected), "{name}");
    }
}

#[test]
fn a_limit_keeps_the_lowest_index() {
    let facts = web(&[10, 11], &[("a", 1), ("b", 1)], &[(10, 1, "a"), (11, 2, "a")], 1);
    let (at_once, _) = outcome(facts);
    assert_eq!(at_once, "a: .10#1; b: .11#2", "C2");
}

#[test]
fn a_new_address_gets_the_lowest_free_index() {
    let facts = web(&[10, 12, 14], &[("a", 1), ("b", 1)], &[(10, 1, "a"), (12, 3, "b")], 127);
    let (at_once, _) = outcome(facts);
    assert_eq!(at_once, "a: .10#1 .14#2; b: .12#3", "D2");
}

#[test]
fn an_address_whose_network_no_node_has_is_not_placed() {
    let mut facts = web(&[10], &[("a", 1), ("b", 1)], &[], 127);
    let mut other = network("other", "198.51.100.0/24", 0);
    other.spec.node_selector = Some(litek8s_crds::Selector {
        match_labels: [("rack".to_owned(), "2".to_owned())].into(),
        match_expressions: Vec::new(),
    });
    facts.networks.push(other);
    facts.services[0].requested.push("198.51.100.11".into());
    let decision = settle(&mut facts, &mut Memory::default());
    assert_eq!(placements(&facts), "a: .10#1", "E2");
    let service = &decision.services[0];
    assert!(service.addresses[1].explanation.contains("NoNodeForNetwork"));
    assert_eq!(service.verdict.reason, "NotPlaced");
}

#[test]
fn without_any_ready_endpoint_addresses_stay_for_the_withdraw_delay() {
    let mut facts = web(&[10, 11], &[], &[(10, 1, "a"), (11, 2, "a")], 127);
    let mut memory = Memory::default();
    let decision = settle(&mut facts, &mut memory);
    assert_eq!((placements(&facts).as_str(), decision.wake), ("a: .10#1 .11#2", Some(at(1_030))), "C4");
    facts.now = at(1_029);
    settle(&mut facts, &mut memory);
    assert_eq!(facts.addresses.len(), 2);
    facts.now = at(1_030);
    let released = decide(&facts, &memory);
    let why: Vec<String> = released.actions.iter().map(ToString::to_string).collect();
    assert_eq!(
        why,
        [
            "delete default/web-1: there is no ready endpoint",
            "delete default/web-2: there is no ready endpoint"
        ]
    );
}

#[test]
fn an_endpoint_that_comes_back_ends_the_wait() {
    let mut facts = web(&[10], &[], &[(10, 1, "a")], 127);
    let mut memory = Memory::default();
    settle(&mut facts, &mut memory);
    facts.now = at(1_020);
    facts.services[0].endpoints = vec![endpoint("a", 1)];
    settle(&mut facts, &mut memory);
    facts.now = at(1_040);
    facts.services[0].endpoints.clear();
    let decision = settle(&mut facts, &mut memory);
    assert_eq!((placements(&facts).as_str(), decision.wake), ("a: .10#1", Some(at(1_070))));
}

#[test]
fn an_address_whose_node_is_lost_is_placed_at_once() {
    for unfit in ["is not ready", "is out of service", "is drained"] {
        let mut facts = web(&[10], &[("a", 1), ("b", 1)], &[(10, 1, "a")], 127);
        facts.nodes[0].unfit = Some(unfit.to_owned());
        let (at_once, _) = outcome(facts);
        assert_eq!(at_once, "b: .10#1", "{unfit}");
    }
    let mut gone = web(&[10], &[("a", 1), ("b", 1)], &[(10, 1, "a")], 127);
    gone.nodes.remove(0);
    assert_eq!(outcome(gone).0, "b: .10#1");
    let mut alone = web(&[10], &[("a", 1)], &[(10, 1, "a")], 127);
    alone.nodes[0].unfit = Some("is out of service".to_owned());
    assert_eq!(outcome(alone).0, "");
}

#[test]
fn one_address_a_node_survives_a_loss_and_returns_only_after_the_window() {
    let mut facts = web(&[10, 11, 12], &[("a", 1), ("b", 1), ("c", 1)], &[], 127);
    let mut memory = Memory::default();
    settle(&mut facts, &mut memory);
    assert_eq!(placements(&facts), "a: .10#1; b: .11#2; c: .12#3");
    let lost = Some("is not ready".to_owned());
    (facts.nodes[0].dead, facts.nodes[0].unfit) = (lost.clone(), lost);
    settle(&mut facts, &mut memory);
    assert_eq!(placements(&facts), "b: .10#1 .11#2; c: .12#3", "two nodes carry three");
    facts.nodes[0] = NodeFact { name: "a".into(), ..NodeFact::default() };
    facts.now = at(1_100);
    settle(&mut facts, &mut memory);
    assert_eq!(placements(&facts), "b: .10#1 .11#2; c: .12#3", "nothing moves because a node is back");
    facts.now = at(1_100 + STABLE);
    settle(&mut facts, &mut memory);
    assert_eq!(placements(&facts), "a: .11#2; b: .10#1; c: .12#3", "what still pays moves, once");

    let mut alone = web(&[10], &[("a", 1), ("b", 1)], &[(10, 1, "b")], 127);
    assert_eq!(outcome(alone.clone()), ("b: .10#1".to_owned(), "b: .10#1".to_owned()));
    alone.nodes.reverse();
    assert_eq!(outcome(alone).1, "b: .10#1", "nor ever when it does not pay");
}

#[test]
fn a_pod_with_another_address_changes_what_leaves_and_no_vip() {
    let mut facts = web(&[10], &[("a", 1)], &[], 127);
    facts.services[0].egress = true;
    facts.services[0].endpoints[0].uid = Some("pod".into());
    let mut memory = Memory::default();
    settle(&mut facts, &mut memory);
    facts.services[0].endpoints[0].address = "10.42.1.77".parse().unwrap();
    let decision = decide(&facts, &memory);
    let text: Vec<String> = decision.actions.iter().map(ToString::to_string).collect();
    assert_eq!(text, ["map default/web-1: 10.42.1.77"]);
}

#[test]
fn a_vip_on_terminating_endpoints_waits_for_the_window_and_only_when_there_is_another_node() {
    let leaving = EndpointFact { ready: false, terminating: true, ..endpoint("a", 9) };
    let mut facts = web(&[10], &[], &[(10, 1, "a")], 127);
    facts.services[0].endpoints = vec![leaving.clone()];
    let mut memory = Memory::default();
    assert_eq!(settle(&mut facts, &mut memory).wake, None);
    facts.services[0].endpoints.push(endpoint("b", 1));
    assert_eq!(settle(&mut facts, &mut memory).wake, Some(at(1_060)));
    facts.now = at(1_059);
    settle(&mut facts, &mut memory);
    assert_eq!(placements(&facts), "a: .10#1");
    let mut later = facts.clone();
    later.now = at(1_060);
    settle(&mut later, &mut memory.clone());
    assert_eq!(placements(&later), "b: .10#1");
    facts.services[0].endpoints.remove(0);
    settle(&mut facts, &mut memory);
    assert_eq!(placements(&facts), "b: .10#1", "with the last endpoint gone it moves at once");

    let mut eager = web(&[10], &[("b", 1)], &[(10, 1, "a")], 127);
    eager.services[0].endpoints.push(leaving);
    eager.services[0].terminating = Terminating::Release;
    assert_eq!(outcome(eager).0, "b: .10#1");
}

#[test]
fn a_rolling_update_moves_nothing_for_balance() {
    let mut facts = web(&[10, 11, 12, 13], &[("a", 2), ("b", 1)], &[], 127);
    facts.addresses = (1..=4)
        .map(|index| {
            address("web", index, &format!("203.0.113.{}", 9 + index), if index % 2 == 1 { "a" } else { "b" })
        })
        .collect();
    facts.services[0].endpoints[0].ready = false;
    facts.services[0].endpoints.push(endpoint("a", 50));
    let (at_once, later) = outcome(facts);
    assert_eq!(
        (at_once.as_str(), later.as_str()),
        ("a: .10#1 .12#3; b: .11#2 .13#4", "a: .10#1 .12#3; b: .11#2 .13#4")
    );
}

#[test]
fn a_wish_with_a_break_waits_again() {
    let mut facts = web(&[10, 11, 12, 13], &[("a", 2), ("b", 1)], &[], 127);
    facts.addresses = (1..=4)
        .map(|index| {
            address("web", index, &format!("203.0.113.{}", 9 + index), if index % 2 == 1 { "a" } else { "b" })
        })
        .collect();
    let mut memory = Memory::default();
    assert_eq!(settle(&mut facts, &mut memory).wake, Some(at(1_060)));
    let surge = facts.services[0].endpoints.remove(0);
    facts.now = at(1_050);
    assert_eq!(settle(&mut facts, &mut memory).wake, None);
    facts.services[0].endpoints.push(surge);
    facts.now = at(1_061);
    assert_eq!(settle(&mut facts, &mut memory).wake, Some(at(1_121)));
    assert_eq!(placements(&facts), "a: .10#1 .12#3; b: .11#2 .13#4");
}

#[test]
fn moves_for_balance_are_limited_by_the_minute() {
    let existing: Vec<(u8, u32, &str)> = (10..16).map(|ip| (ip, u32::from(ip) - 9, "a")).collect();
    let mut facts = web(&[10, 11, 12, 13, 14, 15], &[("a", 1), ("b", 1)], &existing, 127);
    facts.config.as_mut().unwrap().spec.rebalance.max_moves_per_minute = Some(1);
    facts.config.as_mut().unwrap().spec.rebalance.stabilization_seconds = 0;
    let mut memory = Memory::default();
    let decision = settle(&mut facts, &mut memory);
    assert_eq!(
        (placements(&facts).as_str(), decision.wake),
        ("a: .10#1 .11#2 .12#3 .13#4 .14#5; b: .15#6", Some(at(1_060)))
    );
    facts.now = at(1_059);
    settle(&mut facts, &mut memory);
    assert_eq!(facts.addresses.iter().filter(|address| address.spec.node == "b").count(), 1);
    facts.now = at(1_060);
    settle(&mut facts, &mut memory);
    assert_eq!(facts.addresses.iter().filter(|address| address.spec.node == "b").count(), 2);
}

#[test]
fn a_move_deletes_first_and_makes_the_same_name_once_that_is_seen() {
    let mut facts = web(&[10], &[("b", 1)], &[(10, 1, "a")], 127);
    let memory = Memory::default();
    let first = decide(&facts, &memory);
    assert_eq!(
        first.actions.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["delete default/web-1: it moves to b, Node a has no ready endpoint"]
    );
    let again = decide(&facts, &first.memory);
    assert_eq!(again.actions.len(), 1, "nothing is made while the old one is there");
    facts.addresses[0].deleting = true;
    assert_eq!(decide(&facts, &first.memory).actions, []);
    facts.addresses.clear();
    let second = decide(&facts, &again.memory);
    assert_eq!(second.actions.len(), 1);
    let Action::Create { address, note } = &second.actions[0] else { panic!("{second}") };
    assert_eq!((address.metadata.name.as_deref(), address.spec.node.as_str()), (Some("web-1"), "b"));
    assert_eq!(address.spec.firewall_mark, 1, "the mark comes along");
    assert_eq!(note.kind, NoteKind::VipMoved);
    assert_eq!(note.message, "203.0.113.10 moved from a to b: Node a has no ready endpoint");
    assert_eq!(decide(&facts, &second.memory).actions.len(), 1, "a failed create is tried again");
}

/// A VIP on node `a` that belongs on `b`, and the decision that begins its move.
fn moving() -> (Facts, Decision) {
    let mut facts = web(&[10], &[("b", 1)], &[(10, 1, "a")], 127);
    facts.addresses[0].finalizers = vec!["example.com/other".into(), FINALIZER_RELEASE.into()];
    let first = decide(&facts, &Memory::default());
    (facts, first)
}

#[test]
fn a_moving_vip_waits_until_its_node_let_go() {
    let (mut facts, first) = moving();
    let Action::Delete { finalizers, .. } = &first.actions[0] else { panic!("{first}") };
    assert_eq!(*finalizers, None, "its node is asked");
    facts.addresses[0].deleting = true;
    let waiting = decide(&facts, &first.memory);
    assert_eq!((waiting.actions.as_slice(), waiting.wake), (&[][..], Some(at(1_003))));
    facts.addresses[0].released = true;
    facts.now = at(1_001);
    let done = decide(&facts, &waiting.memory);
    let text: Vec<String> = done.actions.iter().map(ToString::to_string).collect();
    assert_eq!(text[0], "release default/web-1: Node a let go of it");
    assert!(text[1].starts_with("create default/web-1 on b: 203.0.113.10/24 mark 0x1"), "{done}");
    let Action::Release { finalizers, .. } = &done.actions[0] else { panic!("{done}") };
    assert_eq!(*finalizers, ["example.com/other"], "only ours is taken off");
    let Action::Create { address, .. } = &done.actions[1] else { panic!("{done}") };
    assert_eq!(address.metadata.finalizers.as_deref(), Some(&[FINALIZER_RELEASE.to_owned()][..]));
}

#[test]
fn a_node_that_does_not_answer_is_waited_for_three_seconds_and_that_is_told() {
    let (mut facts, first) = moving();
    facts.addresses[0].deleting = true;
    let waiting = decide(&facts, &first.memory);
    facts.now = at(1_003);
    let done = decide(&facts, &waiting.memory);
    assert_eq!(done.actions.len(), 2, "{done}");
    assert_eq!(done.notes.iter().map(|note| note.kind).collect::<Vec<_>>(), [NoteKind::VipReleaseUnanswered]);
    assert_eq!(done.notes[0].message, "Node a did not let go of 203.0.113.10/24 in time");
}

#[test]
fn a_dead_node_is_not_waited_for() {
    for gone in [true, false] {
        let (mut facts, first) = moving();
        if gone {
            facts.nodes.retain(|node| node.name != "a");
        } else {
            facts.nodes[0].dead = Some("is not ready".into());
        }
        let at_once = decide(&facts, &Memory::default());
        let Action::Delete { finalizers, .. } = &at_once.actions[0] else { panic!("{at_once}") };
        assert_eq!(finalizers.as_deref(), Some(&["example.com/other".to_owned()][..]));
        facts.addresses[0].deleting = true;
        let done = decide(&facts, &first.memory);
        assert_eq!(done.actions.len(), 2, "{done}");
        assert_eq!(done.notes, []);
    }
}

#[test]
fn a_node_whose_agent_is_silent_keeps_what_it_has_and_gets_nothing_new() {
    let mut facts = web(&[10, 11, 12], &[("a", 1), ("b", 1)], &[(10, 1, "a")], 127);
    facts.nodes[0].mute = Some("its agent is silent".into());
    let mut memory = Memory::default();
    settle(&mut facts, &mut memory);
    assert_eq!(placements(&facts), "a: .10#1; b: .11#2 .12#3");
    facts.services[0].endpoints.retain(|endpoint| endpoint.node.as_deref() == Some("a"));
    facts.services[0].requested.push("203.0.113.13".into());
    let decision = settle(&mut facts, &mut memory);
    assert!(!placements(&facts).contains(".13"), "{}", placements(&facts));
    let why = &decision.services[0].addresses[3].explanation;
    assert!(why.contains("(a: its agent is silent)"), "{why}");
}

#[test]
fn without_another_place_a_silent_nodes_vips_stay() {
    let mut facts = web(&[10], &[("a", 1)], &[(10, 1, "a")], 127);
    facts.nodes[0].unfit = Some("does not answer".into());
    facts.nodes[0].dead = Some("does not answer".into());
    facts.nodes[0].silent = true;
    assert_eq!(decide(&facts, &Memory::default()).actions, []);
    facts.services[0].endpoints.push(endpoint("b", 9));
    let mut memory = Memory::default();
    settle(&mut facts, &mut memory);
    assert_eq!(placements(&facts), "b: .10#1");
}

#[test]
fn a_network_that_a_node_cannot_serve_is_served_elsewhere() {
    let mut facts = web(&[10, 11], &[("a", 1), ("b", 1)], &[(10, 1, "a"), (11, 2, "b")], 127);
    let why = "interface eth1 has no carrier".to_owned();
    facts.nodes[0].unserved.insert("public".into(), why.clone());
    let mut memory = Memory::default();
    let decision = settle(&mut facts, &mut memory);
    assert_eq!(placements(&facts), "b: .10#1 .11#2");
    let degraded = &decision.networks[0].degraded;
    assert!(degraded.good && degraded.message == format!("a: {why}"), "{degraded}");
    // With nobody else it stays, and says why.
    facts.nodes[1].unserved.insert("public".into(), why.clone());
    facts.services[0].requested.push("203.0.113.12".into());
    let decision = settle(&mut facts, &mut memory);
    assert_eq!(placements(&facts), "b: .10#1 .11#2");
    let addresses = &decision.services[0].addresses;
    assert!(addresses[0].explanation.contains("no carrier, and no other node can take it"));
    assert!(addresses[2].explanation.contains("(a: interface eth1 has no carrier; b: "));
}

#[test]
fn a_vip_that_its_own_node_has_again_is_not_waited_for() {
    let mut facts = web(&[10], &[("a", 1)], &[(10, 1, "a")], 127);
    facts.addresses[0].finalizers = vec![FINALIZER_RELEASE.into()];
    facts.addresses[0].spec.gateway_ip = "203.0.113.2".into();
    let decision = decide(&facts, &Memory::default());
    let Action::Delete { finalizers, .. } = &decision.actions[0] else { panic!("{decision}") };
    assert_eq!(finalizers.as_deref(), Some(&[][..]));
}

#[test]
fn a_drained_node_gives_its_vips_away_and_lets_go_first() {
    let mut facts = web(&[10, 11], &[("a", 1), ("b", 1)], &[(10, 1, "a"), (11, 2, "b")], 127);
    facts.addresses[0].finalizers = vec![FINALIZER_RELEASE.into()];
    facts.nodes[0].unfit = Some("is drained".into());
    let decision = decide(&facts, &Memory::default());
    assert_eq!(
        decision.actions.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["delete default/web-1: it moves to b, Node a is drained"]
    );
    let Action::Delete { finalizers, .. } = &decision.actions[0] else { panic!("{decision}") };
    assert_eq!(*finalizers, None);
}

#[test]
fn a_vip_address_has_labels_and_both_owners() {
    let mut facts = web(&[10], &[("a", 1)], &[], 127);
    let long = format!("node-{}", "x".repeat(80));
    facts.nodes = vec![NodeFact { name: long.clone(), ..NodeFact::default() }];
    facts.services[0].endpoints = vec![endpoint(&long, 1)];
    facts.services[0].egress = true;
    let decision = decide(&facts, &Memory::default());
    let Action::Create { address, .. } = &decision.actions[0] else { panic!("{decision}") };
    let labels = address.metadata.labels.clone().unwrap();
    assert_eq!(labels["netwrangler.dev/managed-by"], "netwrangler");
    assert_eq!(labels["netwrangler.dev/namespace"], "default");
    assert_eq!(labels["netwrangler.dev/network"], "public");
    assert_eq!(labels["netwrangler.dev/service"], "web");
    assert!(labels["netwrangler.dev/node-name"].len() <= 63);
    assert_eq!(address.metadata.annotations.clone().unwrap()["netwrangler.dev/full-node-name"], long);
    let owners = address.metadata.owner_references.clone().unwrap();
    assert_eq!((owners[0].kind.as_str(), owners[0].controller), ("Service", Some(true)));
    assert_eq!((owners[1].kind.as_str(), owners[1].controller), ("VipNetwork", None));
    assert!(owners.iter().all(|owner| owner.block_owner_deletion == Some(true)));
    let spec = &address.spec;
    assert_eq!((spec.virtual_cidr.as_str(), spec.node.as_str()), ("203.0.113.10/24", long.as_str()));
    assert_eq!((spec.firewall_mark, spec.route_table, spec.routing_priority), (1, 20_001, 20_001));
    assert!(spec.egress_enabled);
}

#[test]
fn marks_are_unique_on_a_node_and_a_freed_one_is_used_again() {
    let mut facts = facts();
    facts.services = vec![
        service("svc-a", &["203.0.113.10"], &[("a", 1)]),
        service("svc-b", &["203.0.113.20"], &[("a", 1)]),
    ];
    let mut memory = Memory::default();
    settle(&mut facts, &mut memory);
    let slots = |facts: &Facts| -> Vec<(String, u32, u32)> {
        let mut slots: Vec<_> = facts
            .addresses
            .iter()
            .map(|address| (address.name.clone(), address.spec.firewall_mark, address.spec.route_table))
            .collect();
        slots.sort();
        slots
    };
    assert_eq!(slots(&facts), [("svc-a-1".into(), 1, 20_001), ("svc-b-1".into(), 2, 20_002)]);
    facts.services.remove(0);
    facts.services.push(service("svc-c", &["203.0.113.30"], &[("a", 1)]));
    settle(&mut facts, &mut memory);
    assert_eq!(slots(&facts), [("svc-b-1".into(), 2, 20_002), ("svc-c-1".into(), 1, 20_001)]);
}

#[test]
fn a_node_takes_no_more_than_it_has_marks() {
    let mut facts = facts();
    let spec = &mut facts.config.as_mut().unwrap().spec;
    (spec.firewall_mark_mask, spec.max_address_count) = (0x3, 127);
    facts.services = vec![
        service("one", &["203.0.113.10", "203.0.113.11"], &[("a", 1)]),
        service("two", &["203.0.113.12", "203.0.113.13"], &[("a", 1)]),
    ];
    let decision = settle(&mut facts, &mut Memory::default());
    assert_eq!(facts.addresses.len(), 3);
    assert!(decision.services[1].addresses[1].explanation.contains("NodeFull"));
}

#[test]
fn a_gateway_s_table_is_given_up() {
    let mut facts = web(&[10, 11], &[("a", 1)], &[(10, 1, "a"), (11, 2, "a")], 127);
    facts.gateway_tables = [20_001].into();
    settle(&mut facts, &mut Memory::default());
    let tables: Vec<(u32, u32)> =
        facts.addresses.iter().map(|address| (address.spec.index, address.spec.route_table)).collect();
    assert!(tables.contains(&(2, 20_002)), "the other stays: {tables:?}");
    assert!(tables.iter().all(|&(_, table)| table != 20_001), "{tables:?}");
}

#[test]
fn an_invalid_config_leaves_the_last_accepted_one_in_force() {
    let mut facts = web(&[10, 11], &[("a", 1), ("b", 1)], &[(10, 1, "a")], 127);
    let fact = facts.config.as_mut().unwrap();
    fact.status.accepted = Some(config());
    fact.spec.firewall_mark_mask = 0xf0;
    let decision = settle(&mut facts, &mut Memory::default());
    assert_eq!(placements(&facts), "a: .10#1; b: .11#2");
    let report = decision.config.unwrap();
    assert_eq!((report.verdict.good, report.verdict.reason.as_str()), (false, "InvalidFirewallMark"));
    assert_eq!((report.ready.good, report.accepted), (true, Some(config())));

    facts.config.as_mut().unwrap().status.accepted = None;
    facts.services[0].requested.push("203.0.113.12".into());
    let decision = settle(&mut facts, &mut Memory::default());
    assert_eq!(placements(&facts), "a: .10#1; b: .11#2", "nothing is deleted and nothing placed");
    assert!(!decision.config.unwrap().ready.good);
}

#[test]
fn vip_addresses_go_with_their_service_network_and_label() {
    let base = || web(&[10, 11], &[("a", 1)], &[(10, 1, "a"), (11, 2, "a")], 127);
    let reasons = |facts: &Facts| -> Vec<String> {
        decide(facts, &Memory::default()).actions.iter().map(ToString::to_string).collect()
    };
    let mut no_service = base();
    no_service.services.clear();
    assert_eq!(reasons(&no_service)[0], "delete default/web-1: Service default/web asks for no VIPs");
    let mut no_network = base();
    no_network.networks.clear();
    assert_eq!(reasons(&no_network)[1], "delete default/web-2: no VipNetwork contains it");
    let mut shorter = base();
    shorter.services[0].requested.pop();
    assert_eq!(reasons(&shorter), ["delete default/web-2: Service default/web does not list it"]);
    let mut disabled = base();
    let mut winner = network("winner", "203.0.113.0/26", 0);
    winner.spec.gateway_ip = "203.0.113.62".into();
    disabled.networks.push(winner);
    disabled.addresses.clear();
    settle(&mut disabled, &mut Memory::default());
    assert!(disabled.addresses.iter().all(|address| address.spec.network == "winner"));
}

#[test]
fn a_network_that_cannot_be_used_keeps_what_it_has() {
    let mut facts = web(&[10, 11], &[("a", 1)], &[(10, 1, "a")], 127);
    facts.networks[0].spec.gateway_ip = "198.51.100.1".into();
    let before = facts.addresses.clone();
    let decision = settle(&mut facts, &mut Memory::default());
    assert_eq!(facts.addresses, before);
    assert_eq!(decision.networks[0].accepted.reason, "InvalidGatewayIP");
    assert!(decision.services[0].addresses[1].explanation.contains("NetworkDisabled"));
}

#[test]
fn a_change_of_the_network_makes_its_vip_addresses_anew_in_place() {
    let mut facts = web(&[10, 11], &[("a", 1), ("b", 1)], &[(10, 1, "b"), (11, 2, "a")], 127);
    facts.networks[0].spec.source_cidrs = vec!["10.1.0.0/16".into(), "10.0.0.0/8".into()];
    facts.networks[0].spec.node_interfaces =
        vec![litek8s_crds::NodeInterface { node_name: "b".into(), interface: "enp1s0".into() }];
    let slots = |facts: &Facts| -> Vec<Slot> { facts.addresses.iter().map(of).collect() };
    let before = slots(&facts);
    let decision = settle(&mut facts, &mut Memory::default());
    assert_eq!((placements(&facts).as_str(), slots(&facts)), ("a: .11#2; b: .10#1", before));
    assert!(facts.addresses.iter().all(|address| address.spec.source_cidrs == ["10.0.0.0/8"]));
    let interface = |node: &str| {
        let found = facts.addresses.iter().find(|address| address.spec.node == node);
        found.unwrap().spec.interface.clone()
    };
    assert_eq!((interface("a"), interface("b")), ("eth1".into(), "enp1s0".into()));
    assert_eq!(decision.networks[0].warnings.len(), 1);
}

#[test]
fn a_config_with_other_numbers_makes_all_anew_in_the_same_network() {
    let mut facts = web(&[10, 11], &[("a", 1), ("b", 1)], &[(10, 1, "a"), (11, 2, "b")], 127);
    facts.networks.push(network("narrow", "203.0.113.0/27", 0));
    let spec = &mut facts.config.as_mut().unwrap().spec;
    (spec.route_table, spec.routing_priority) = (10_001, 30_001);
    settle(&mut facts, &mut Memory::default());
    assert_eq!(placements(&facts), "a: .10#1; b: .11#2");
    for address in &facts.addresses {
        let spec = &address.spec;
        assert_eq!(spec.network, "public", "though a more specific one waits for its chance");
        assert_eq!((spec.route_table, spec.routing_priority), (10_000 + spec.index, 30_000 + spec.index));
        assert_eq!(spec.firewall_mark, spec.index);
    }
}

#[test]
fn owners_made_anew_get_a_new_vip_address() {
    let mut facts = web(&[10], &[("a", 1)], &[(10, 1, "a")], 127);
    facts.services[0].uid = "another".into();
    settle(&mut facts, &mut Memory::default());
    assert!(facts.addresses[0].owners.contains("another"));
}

#[test]
fn two_vip_addresses_of_one_address_become_one() {
    let mut facts = web(&[10], &[("a", 1), ("b", 1)], &[(10, 2, "a"), (10, 1, "b")], 127);
    let decision = decide(&facts, &Memory::default());
    assert_eq!(decision.actions.len(), 1, "{decision}");
    execute(&mut facts, &decision.actions);
    assert_eq!(placements(&facts), "b: .10#1");
}

#[test]
fn pods_are_mapped_when_egress_is_on() {
    let mut facts = web(&[10], &[("a", 2)], &[], 127);
    facts.services[0].egress = true;
    let mut memory = Memory::default();
    settle(&mut facts, &mut memory);
    let mapped: Vec<&str> = facts.addresses[0].endpoints.iter().map(|pod| pod.address.as_str()).collect();
    assert_eq!(mapped, ["10.42.1.1", "10.42.1.2"]);
    facts.services[0].egress = false;
    settle(&mut facts, &mut memory);
    assert!(facts.addresses[0].endpoints.is_empty());
}

#[test]
fn a_service_is_ready_when_its_nodes_say_so() {
    let mut facts = web(&[10, 11], &[("a", 1)], &[(10, 1, "a"), (11, 2, "a")], 127);
    facts.addresses[1].ready = false;
    let decision = decide(&facts, &Memory::default());
    assert_eq!(
        decision.services[0].verdict,
        Verdict::new(false, "Pending", "2/2 placed, 1/2 in place on their nodes")
    );
    facts.addresses[1].ready = true;
    let decision = decide(&facts, &Memory::default());
    assert_eq!(decision.services[0].verdict, Verdict::new(true, "Ready", "2/2 in place on their nodes"));
    assert_eq!(decision.services[0].placed.len(), 2);
}

#[test]
fn a_decision_explains_itself() {
    let facts = web(&[10, 11, 12, 13], &[("a", 2), ("b", 1)], &[(10, 1, "a"), (11, 2, "b")], 127);
    let text = decide(&facts, &Memory::default()).to_string();
    for line in [
        "vipconfig default: Accepted: in force",
        "vipnetwork public: InForce: addresses of this network are placed",
        "service default/web: Pending: 4/4 placed, 2/4 in place on their nodes",
        "  203.0.113.10: a: it was there; share 2.67 of 4 (2 of 3 endpoints)",
        "  203.0.113.12: a: furthest below its share; share 2.67 of 4 (2 of 3 endpoints)",
        "create default/web-3 on a: 203.0.113.12/24 mark 0x3 table 20003 priority 20003: 203.0.113.12 assigned to a: share 2.67 of 4 (2 of 3 endpoints)",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n---\n{text}");
    }
}
