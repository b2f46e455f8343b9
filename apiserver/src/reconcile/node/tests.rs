//! Nodes that fall silent, and what becomes of their pods.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::super::kind::Kind;
use super::super::tests::World;
use crate::endpoints::metadata;

fn world() -> World {
    let mut world = World::new();
    world.has_nodes = true;
    world
}

fn node(world: &mut World, name: &str) {
    let meta = json!({"namespace": "", "labels": {"kubernetes.io/os": "linux"}});
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2023-12-31T00:00:00Z"});
    world.add(Kind::Node, name, json!({"metadata": meta, "status": {"conditions": [ready]}}));
    let meta = json!({"namespace": "kube-node-lease"});
    world.add(
        Kind::Lease,
        name,
        json!({"metadata": meta, "spec": {"renewTime": "2024-01-01T00:00:00.000000Z"}}),
    );
}

fn pod(world: &mut World, name: &str, node: &str, tolerations: Value) {
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2023-12-31T00:00:00Z"});
    world.add(
        Kind::Pod,
        name,
        json!({
            "spec": {"nodeName": node, "tolerations": tolerations, "containers": []},
            "status": {"phase": "Running", "conditions": [ready]},
        }),
    );
}

/// Lets seconds pass while these nodes renew their Leases.
fn live(world: &mut World, seconds: i64, nodes: &[&str]) {
    for _ in 0..seconds / 10 {
        let now = metadata::time(world.now + SignedDuration::from_secs(10));
        world.pass(10);
        for name in nodes {
            world.edit_in("kube-node-lease", Kind::Lease, name, |lease| {
                lease["spec"]["renewTime"] = json!(now)
            });
        }
        world.settle();
    }
}

fn get(world: &World, name: &str) -> Value {
    world.list(Kind::Node).into_iter().find(|node| node["metadata"]["name"] == name).unwrap()
}

fn ready(world: &World, name: &str) -> Value {
    get(world, name)["status"]["conditions"][0]["status"].clone()
}

fn taints(world: &World, name: &str) -> Vec<String> {
    let node = get(world, name);
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let text = |taint: &Value, field: &str| taint[field].as_str().unwrap().to_owned();
    let short = |key: String| key.replace("node.kubernetes.io/", "");
    taints.iter().map(|taint| format!("{}:{}", short(text(taint, "key")), text(taint, "effect"))).collect()
}

#[test]
fn a_silent_node_drives_its_pods_away_and_comes_back() {
    let mut world = world();
    node(&mut world, "n1");
    node(&mut world, "n2");
    let waits = json!([{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]);
    pod(&mut world, "patient", "n1", waits);
    pod(&mut world, "hasty", "n1", json!([]));
    pod(&mut world, "daemon", "n1", json!([{"operator": "Exists"}]));
    world.settle();
    assert_eq!(get(&world, "n1")["metadata"]["labels"]["beta.kubernetes.io/os"], "linux");
    live(&mut world, 30, &["n2"]);
    assert_eq!(ready(&world, "n1"), "True");
    live(&mut world, 20, &["n2"]);
    assert_eq!((ready(&world, "n1"), ready(&world, "n2")), (json!("Unknown"), json!("True")));
    assert_eq!(taints(&world, "n1"), ["unreachable:NoSchedule", "unreachable:NoExecute"]);
    let gone =
        |world: &World, name: &str| world.get(Kind::Pod, name)["metadata"]["deletionTimestamp"].is_string();
    let all = |world: &World| ["hasty", "patient", "daemon"].map(|name| gone(world, name));
    assert_eq!(all(&world), [true, false, false]);
    let hasty = world.get(Kind::Pod, "hasty");
    let conditions = hasty["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().any(|c| c["reason"] == "DeletionByTaintManager"), "{conditions:?}");
    assert_eq!(
        world.get(Kind::Pod, "daemon")["status"]["conditions"][0]["status"],
        "False",
        "not ready either"
    );
    live(&mut world, 60, &["n2"]);
    assert_eq!(all(&world), [true, true, false]);
    let now = metadata::time(world.now);
    world.edit_in("", Kind::Node, "n1", |node| {
        node["status"]["conditions"] = json!([{
            "type": "Ready", "status": "True", "lastTransitionTime": now, "lastHeartbeatTime": now,
        }]);
    });
    world.settle();
    assert_eq!(taints(&world, "n1"), Vec::<String>::new());
}

#[test]
fn a_node_that_says_that_it_is_not_ready_is_believed_at_once() {
    let mut world = world();
    node(&mut world, "n1");
    node(&mut world, "n2");
    world.edit_in("", Kind::Node, "n1", |node| {
        node["status"]["conditions"][0]["status"] = json!("False");
        node["spec"] = json!({"unschedulable": true, "taints": [{"key": "own", "effect": "NoExecute"}]});
    });
    world.settle();
    assert_eq!(
        taints(&world, "n1"),
        ["own:NoExecute", "not-ready:NoSchedule", "unschedulable:NoSchedule", "not-ready:NoExecute"]
    );
}

#[test]
fn nodes_of_a_zone_go_one_after_the_other_and_none_when_all_seem_gone() {
    let mut world = world();
    for name in ["n1", "n2", "n3", "n4", "n5"] {
        node(&mut world, name);
    }
    world.settle();
    let driving = |world: &World| {
        let marked = ["n1", "n2", "n3", "n4", "n5"]
            .iter()
            .filter(|name| taints(world, name).contains(&"unreachable:NoExecute".to_owned()));
        marked.count()
    };
    live(&mut world, 40, &["n3", "n4", "n5"]);
    assert_eq!(driving(&world), 1, "the first one");
    live(&mut world, 10, &["n3", "n4", "n5"]);
    assert_eq!(driving(&world), 2, "and ten seconds later the second");
    live(&mut world, 60, &["n4", "n5"]);
    assert_eq!(ready(&world, "n3"), "Unknown");
    assert_eq!(driving(&world), 2, "three of five are too many for more");
    live(&mut world, 60, &[]);
    assert_eq!(ready(&world, "n5"), "Unknown");
    assert_eq!(driving(&world), 0, "when nobody answers it is not the nodes");
}

#[test]
fn a_taint_of_a_time_to_come_stops_nobody() {
    let mut world = world();
    for name in ["n1", "n2", "n3", "n4"] {
        node(&mut world, name);
    }
    world.edit_in("", Kind::Node, "n1", |node| {
        node["spec"] = json!({"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute",
            "timeAdded": "9999-12-30T21:30:00Z"}]});
    });
    world.settle();
    live(&mut world, 60, &["n3", "n4"]);
    assert_eq!(taints(&world, "n2"), ["unreachable:NoSchedule", "unreachable:NoExecute"]);
}

#[test]
fn pods_of_a_node_that_is_gone_are_lost_after_a_while() {
    let mut world = world();
    node(&mut world, "n1");
    pod(&mut world, "p", "n1", json!([]));
    pod(&mut world, "q", "never", json!([]));
    world.settle();
    world.gone_in("", Kind::Node, "n1");
    world.settle();
    world.pass(35);
    assert_eq!(world.names(Kind::Pod), ["p", "q"]);
    world.pass(10);
    assert_eq!(world.names(Kind::Pod), Vec::<String>::new());
    assert!(world.written.contains(&"update Pod status".to_owned()), "they are told to have failed");
}

#[test]
fn a_notice_to_go_that_led_to_nothing_is_taken_back() {
    let mut world = world();
    node(&mut world, "n1");
    pod(&mut world, "p", "n1", json!([]));
    world.edit(Kind::Pod, "p", |pod| {
        pod["status"]["conditions"] = json!([{
            "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "lastTransitionTime": "2024-01-01T00:00:00Z",
        }]);
    });
    live(&mut world, 110, &["n1"]);
    assert_eq!(world.get(Kind::Pod, "p")["status"]["conditions"][0]["status"], "True");
    live(&mut world, 20, &["n1"]);
    assert_eq!(world.get(Kind::Pod, "p")["status"]["conditions"][0]["status"], "False");
}

#[test]
fn a_server_that_did_not_look_for_a_while_gives_everybody_the_whole_time_again() {
    let mut world = world();
    node(&mut world, "n1");
    node(&mut world, "n2");
    world.settle();
    world.now += SignedDuration::from_secs(300);
    world.settle();
    assert_eq!((ready(&world, "n1"), ready(&world, "n2")), (json!("True"), json!("True")));
    live(&mut world, 30, &["n2"]);
    assert_eq!(ready(&world, "n1"), "True");
    live(&mut world, 10, &["n2"]);
    assert_eq!((ready(&world, "n1"), ready(&world, "n2")), (json!("Unknown"), json!("True")));
}

#[test]
fn a_lease_that_is_written_and_not_renewed_is_no_sign_of_life() {
    let mut world = world();
    node(&mut world, "n1");
    node(&mut world, "n2");
    world.settle();
    for second in [10, 20, 30, 40] {
        live(&mut world, 10, &["n2"]);
        let label = second.to_string();
        world.edit_in("kube-node-lease", Kind::Lease, "n1", |lease| {
            lease["metadata"]["labels"] = json!({"seen": label})
        });
    }
    world.settle();
    assert_eq!((ready(&world, "n1"), ready(&world, "n2")), (json!("Unknown"), json!("True")));
}

#[test]
fn a_pod_of_a_node_that_is_off_has_failed_though_a_finalizer_keeps_it() {
    let mut world = world();
    node(&mut world, "n1");
    node(&mut world, "n2");
    pod(&mut world, "p", "n1", json!([{"operator": "Exists"}]));
    world.edit(Kind::Pod, "p", |pod| {
        pod["metadata"]["finalizers"] = json!(["example.org/kept"]);
        pod["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    });
    world.settle();
    live(&mut world, 40, &["n2"]);
    assert_eq!(ready(&world, "n1"), "Unknown");
    assert_eq!(world.get(Kind::Pod, "p")["status"]["phase"], "Running");
    world.edit_in("", Kind::Node, "n1", |node| {
        node["spec"] =
            json!({"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]});
    });
    world.settle();
    assert_eq!(world.get(Kind::Pod, "p")["status"]["phase"], "Failed");
}
