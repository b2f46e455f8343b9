//! Decisions by example.

use std::collections::BTreeMap;

use litek8s_crds::{GatewayOnNode, PodSelector, VipGatewaySpec};

use super::*;
use crate::gateway::RouteFact;

fn gateway(name: &str, destination: &str, table: i64, priority: i64) -> GatewayFact {
    GatewayFact {
        name: name.into(),
        uid: format!("uid-{name}"),
        generation: 1,
        spec: VipGatewaySpec {
            destination_cidr: destination.into(),
            route_table: table,
            routing_priority: priority,
            pod_selector: PodSelector { match_labels: BTreeMap::from([("app".into(), "edge".into())]) },
        },
        said: None,
        said_degraded: None,
    }
}

fn pod(name: &str, address: &str) -> PodFact {
    PodFact {
        namespace: "edge".into(),
        name: name.into(),
        labels: BTreeMap::from([("app".into(), "edge".into())]),
        node: Some("node-1".into()),
        addresses: vec![address.parse().unwrap()],
        running: true,
        ready: true,
        terminating: false,
    }
}

fn applied(destination: &str) -> GatewayOnNode {
    GatewayOnNode { applied: Some(destination.into()), ..GatewayOnNode::default() }
}

fn refused(why: &str) -> GatewayOnNode {
    GatewayOnNode { refused: Some(why.into()), ..GatewayOnNode::default() }
}

fn agent(node: &str, says: &[(&str, GatewayOnNode)]) -> AgentFact {
    let says = says.iter().map(|(gateway, stands)| ((*gateway).into(), stands.clone()));
    AgentFact { node: node.into(), says: says.collect() }
}

fn facts(pods: Vec<PodFact>) -> Facts {
    Facts {
        manager: "netwrangler".into(),
        gateways: vec![gateway("g", "172.30.0.0/16", 200, 100)],
        agents: vec![agent("node-1", &[("g", applied("172.30.0.0/16")), ("six", applied("fd01::/64"))])],
        pods,
        ..Facts::default()
    }
}

fn made(decision: &Decision) -> Vec<VipRoute> {
    let made = decision.actions.iter().filter_map(|action| match action {
        Action::Create(route) => Some((**route).clone()),
        Action::Delete { .. } => None,
    });
    made.collect()
}

fn addresses(decision: &Decision) -> Vec<String> {
    let mut all: Vec<String> = made(decision).into_iter().map(|route| route.spec.pod_ip).collect();
    all.sort();
    all
}

/// The decision after everything it says was done.
fn settle(facts: &mut Facts) -> Decision {
    let decision = decide(facts, &BTreeMap::new());
    for action in &decision.actions {
        match action {
            Action::Create(route) => facts.routes.push(RouteFact {
                name: route.metadata.name.clone().unwrap(),
                uid: route.metadata.name.clone().unwrap(),
                managed: true,
                spec: route.spec.clone(),
            }),
            Action::Delete { name, .. } => facts.routes.retain(|route| route.name != *name),
        }
    }
    let again = decide(facts, &decision.said);
    assert_eq!((again.actions, again.notes), (Vec::new(), Vec::new()), "a settled cluster is left alone");
    decision
}

#[test]
fn every_running_pod_that_matches_has_a_route_with_labels_and_owner() {
    let mut other = pod("c", "10.42.0.7");
    other.labels.clear();
    let mut pending = pod("d", "10.42.0.8");
    pending.running = false;
    let mut homeless = pod("e", "10.42.0.9");
    homeless.node = None;
    let decision =
        settle(&mut facts(vec![pod("a", "10.42.0.5"), pod("b", "10.42.0.6"), other, pending, homeless]));
    assert_eq!(addresses(&decision), ["10.42.0.5", "10.42.0.6"]);
    let route = &made(&decision)[0];
    let labels = route.metadata.labels.clone().unwrap();
    assert_eq!(labels[names::LABEL_GATEWAY], "g");
    assert_eq!(labels[names::LABEL_MANAGED_BY], "netwrangler");
    assert_eq!(route.metadata.owner_references.as_ref().unwrap()[0].uid, "uid-g");
    assert_eq!(route.spec.route_table, 200);
    let report = &decision.reports[0];
    assert_eq!((report.pods, report.ready.reason.as_str(), report.ready.good), (2, "PodsReady", true));
}

#[test]
fn what_is_new_is_made_before_what_is_old_goes() {
    let mut facts = facts(vec![pod("a", "10.42.0.5")]);
    settle(&mut facts);
    facts.pods[0].addresses = vec!["10.42.0.99".parse().unwrap()];
    let decision = decide(&facts, &BTreeMap::new());
    assert!(matches!(&decision.actions[..], [Action::Create(_), Action::Delete { .. }]), "{decision}");
    settle(&mut facts);
    facts.gateways[0].spec.route_table = 201;
    let decision = settle(&mut facts);
    assert!(matches!(&decision.actions[..], [Action::Create(_), Action::Delete { .. }]), "{decision}");
    assert_eq!(facts.routes.len(), 1);
}

#[test]
fn a_pod_that_goes_leads_there_only_while_no_other_does() {
    let mut leaving = pod("a", "10.42.0.5");
    leaving.terminating = true;
    assert_eq!(addresses(&settle(&mut facts(vec![leaving.clone()]))), ["10.42.0.5"]);
    assert_eq!(addresses(&settle(&mut facts(vec![leaving, pod("b", "10.42.0.6")]))), ["10.42.0.6"]);
}

#[test]
fn a_pod_that_is_not_ready_leads_there_only_while_no_better_one_does() {
    let mut idle = pod("a", "10.42.0.5");
    idle.ready = false;
    assert_eq!(addresses(&settle(&mut facts(vec![idle.clone()]))), ["10.42.0.5"]);
    assert_eq!(addresses(&settle(&mut facts(vec![idle.clone(), pod("b", "10.42.0.6")]))), ["10.42.0.6"]);
    let mut leaving = pod("b", "10.42.0.6");
    leaving.terminating = true;
    assert_eq!(addresses(&settle(&mut facts(vec![idle, leaving]))), ["10.42.0.6"]);
}

#[test]
fn routes_go_with_their_gateway_and_those_of_others_stay() {
    let mut facts = facts(vec![pod("a", "10.42.0.5")]);
    settle(&mut facts);
    let mut foreign = facts.routes[0].clone();
    foreign.name = "by-hand".into();
    foreign.managed = false;
    facts.routes.push(foreign);
    facts.gateways.clear();
    let decision = settle(&mut facts);
    assert_eq!(decision.actions.len(), 1);
    assert_eq!(facts.routes.len(), 1);
    assert_eq!(facts.routes[0].name, "by-hand");
}

#[test]
fn a_gateway_takes_pods_by_the_family_of_its_destination() {
    let mut dual = pod("a", "10.42.0.5");
    dual.addresses.push("fd00::5".parse().unwrap());
    let mut facts = facts(vec![dual]);
    facts.gateways.push(gateway("six", "fd01::/64", 201, 101));
    assert_eq!(addresses(&settle(&mut facts)), ["10.42.0.5", "fd00::5"]);
}

#[test]
fn what_no_node_can_apply_is_not_accepted_and_has_no_routes() {
    for (destination, table, priority, reason) in [
        ("0.0.0.0/0", 200, 100, "InvalidDestination"),
        ("nonsense", 200, 100, "InvalidDestination"),
        ("172.30.0.0/16", 254, 100, "ReservedTable"),
        ("172.30.0.0/16", 0, 100, "ReservedTable"),
        ("172.30.0.0/16", 200, 0, "PriorityOutOfRange"),
        ("172.30.0.0/16", 200, 32_766, "PriorityOutOfRange"),
    ] {
        let mut facts = facts(vec![pod("a", "10.42.0.5")]);
        facts.gateways = vec![gateway("g", destination, table, priority)];
        let decision = settle(&mut facts);
        assert!(decision.actions.is_empty(), "{decision}");
        assert_eq!(decision.reports[0].accepted.reason, reason);
        assert_eq!(decision.notes[0].kind, NoteKind::GatewayRefused);
    }
}

#[test]
fn two_gateways_with_one_destination_and_table_are_both_refused() {
    let mut facts = facts(vec![pod("a", "10.42.0.5")]);
    facts.gateways.push(gateway("h", "172.30.0.0/16", 200, 50));
    let decision = settle(&mut facts);
    assert!(decision.actions.is_empty());
    let reasons: Vec<&str> = decision.reports.iter().map(|report| report.accepted.reason.as_str()).collect();
    assert_eq!(reasons, ["Duplicate", "Duplicate"]);
}

#[test]
fn a_gateway_behind_a_wider_one_with_a_lower_priority_is_shadowed() {
    let mut facts = facts(vec![]);
    facts.gateways.push(gateway("inner", "172.30.5.0/24", 201, 200));
    let degraded = |facts: &Facts| -> Vec<String> {
        let reports = decide(facts, &BTreeMap::new()).reports;
        reports.into_iter().map(|report| report.degraded.reason).collect()
    };
    assert_eq!(degraded(&facts), ["AsExpected", "Shadowed"]);
    facts.gateways[1].spec.routing_priority = 50;
    assert_eq!(degraded(&facts), ["AsExpected", "AsExpected"]);
    // One table holds both: the narrower route wins whatever the priorities are.
    facts.gateways[1].spec.routing_priority = 200;
    facts.gateways[1].spec.route_table = 200;
    assert_eq!(degraded(&facts), ["AsExpected", "AsExpected"]);
}

#[test]
fn what_the_agents_say_is_summed_up() {
    let mut facts = facts(vec![pod("a", "10.42.0.5")]);
    facts.agents = vec![
        agent("node-1", &[("g", applied("172.30.0.0/16"))]),
        agent("node-2", &[("g", refused("overlaps eth0"))]),
    ];
    let decision = decide(&facts, &BTreeMap::new());
    let told: Vec<&str> = decision.notes.iter().map(|note| note.message.as_str()).collect();
    assert_eq!(told, ["172.30.0.0/16: RefusedOnNodes: node-2: overlaps eth0"]);
    assert!(decide(&facts, &decision.said).notes.is_empty(), "an Event is told once");
    facts.gateways[0].said_degraded = Some("node-2: overlaps eth0".into());
    assert!(decide(&facts, &BTreeMap::new()).notes.is_empty(), "also after a restart");
    let report = decision.reports[0].clone();
    assert_eq!((report.nodes, report.accepted.good), ((1, 2), true));
    assert_eq!(
        (report.degraded.reason.as_str(), report.degraded.message.as_str()),
        ("RefusedOnNodes", "node-2: overlaps eth0")
    );
    facts.agents.remove(0);
    let report = decide(&facts, &BTreeMap::new()).reports.remove(0);
    assert_eq!((report.accepted.reason.as_str(), report.ready.good), ("RefusedEverywhere", false));
}

#[test]
fn a_pod_leads_there_only_when_its_own_node_applies_the_gateway() {
    let mut facts = facts(vec![pod("a", "10.42.0.5")]);
    settle(&mut facts);
    assert_eq!(facts.routes.len(), 1);
    for stands in [None, Some(refused("overlaps eth0")), Some(applied("172.29.0.0/16"))] {
        let says: Vec<(&str, GatewayOnNode)> = stands.into_iter().map(|stands| ("g", stands)).collect();
        facts.agents = vec![agent("node-1", &says), agent("node-2", &[("g", applied("172.30.0.0/16"))])];
        let decision = decide(&facts, &BTreeMap::new());
        assert!(matches!(&decision.actions[..], [Action::Delete { .. }]), "{decision}");
        let ready = &decision.reports[0].ready;
        assert_eq!((ready.reason.as_str(), ready.good), ("NoPod", false));
        assert!(
            ready.message.ends_with("edge/a: node node-1 does not apply the gateway"),
            "{}",
            ready.message
        );
    }
}

#[test]
fn pods_that_a_node_cannot_reach_are_named() {
    let mut facts = facts(vec![pod("a", "10.42.0.5")]);
    let unusable = GatewayOnNode {
        unusable: vec!["pod edge/a (10.42.0.5): no route".into()],
        ..applied("172.30.0.0/16")
    };
    facts.agents.push(agent("node-2", &[("g", unusable)]));
    let report = decide(&facts, &BTreeMap::new()).reports.remove(0);
    assert_eq!((report.nodes, report.ready.good), ((2, 2), true));
    assert_eq!(
        (report.degraded.reason.as_str(), report.degraded.message.as_str()),
        ("PodsUnusable", "node-2: pod edge/a (10.42.0.5): no route")
    );
}

#[test]
fn an_event_is_told_when_the_way_closes_and_when_it_opens_again() {
    let mut facts = facts(vec![pod("a", "10.42.0.5")]);
    let open = decide(&facts, &BTreeMap::new());
    assert!(open.notes.is_empty(), "what works from the start is no news");
    facts.pods.clear();
    let closed = decide(&facts, &open.said);
    assert_eq!(closed.notes[0].kind, NoteKind::GatewayClosed);
    assert!(decide(&facts, &closed.said).notes.is_empty());
    // A restart knows from the status what was told.
    facts.gateways[0].said = Some("NoPod".into());
    assert!(decide(&facts, &BTreeMap::new()).notes.is_empty());
    facts.pods = vec![pod("a", "10.42.0.5")];
    assert_eq!(decide(&facts, &closed.said).notes[0].kind, NoteKind::GatewayReady);
}
