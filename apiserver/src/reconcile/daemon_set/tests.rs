//! A pod on every node where one belongs.

use serde_json::{Value, json};

use crate::reconcile::kind::Kind;
use crate::reconcile::tests::{World, template};

fn daemons(more: Value) -> Value {
    let mut spec = json!({"selector": {"matchLabels": {"app": "log"}}, "template": template("log", "a")});
    for (key, value) in more.as_object().unwrap() {
        spec[key.as_str()] = value.clone();
    }
    json!({"spec": spec})
}

fn world(nodes: &[&str], more: Value) -> World {
    let mut world = World::new();
    for node in nodes {
        world.add(Kind::Node, node, json!({}));
    }
    world.add(Kind::DaemonSet, "log", daemons(more));
    world.settle();
    world
}

fn status(world: &World) -> Value {
    world.get(Kind::DaemonSet, "log")["status"].clone()
}

/// Node and image of every pod that is not going.
fn placed(world: &World) -> Vec<(String, String)> {
    let mut placed: Vec<_> = world
        .list(Kind::Pod)
        .iter()
        .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
        .map(|pod| {
            let terms =
                &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
            let node = &terms["nodeSelectorTerms"][0]["matchFields"][0]["values"][0];
            let image = &pod["spec"]["containers"][0]["image"];
            (node.as_str().unwrap().to_owned(), image.as_str().unwrap().to_owned())
        })
        .collect();
    placed.sort();
    placed
}

fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(node, image)| ((*node).to_owned(), (*image).to_owned())).collect()
}

fn set_image(world: &mut World, image: &str) {
    world.edit(Kind::DaemonSet, "log", |set| {
        set["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    });
    world.settle();
}

#[test]
fn every_node_has_a_pod_and_a_new_one_gets_its_own() {
    let mut world = world(&["n1", "n2"], json!({}));
    assert_eq!(placed(&world), pairs(&[("n1", "a"), ("n2", "a")]));
    let pod = &world.list(Kind::Pod)[0];
    assert!(pod["spec"]["nodeName"].is_null(), "that is for whoever places pods");
    let tolerated: Vec<_> =
        pod["spec"]["tolerations"].as_array().unwrap().iter().map(|t| t["key"].as_str().unwrap()).collect();
    assert!(tolerated.contains(&"node.kubernetes.io/unschedulable"), "{tolerated:?}");
    world.live();
    world.add(Kind::Node, "n3", json!({}));
    world.live();
    let status = status(&world);
    for field in [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    ] {
        assert_eq!(status[field], 3, "{field}");
    }
    world.gone(Kind::Node, "n3");
    world.settle();
    assert_eq!(world.get(Kind::DaemonSet, "log")["status"]["desiredNumberScheduled"], 2);
}

#[test]
fn nodes_are_chosen_by_labels_and_taints() {
    let mut world = World::new();
    world.add(Kind::Node, "plain", json!({}));
    world.add(Kind::Node, "blue", json!({"metadata": {"labels": {"color": "blue"}}}));
    let taint = json!([{"key": "a", "effect": "NoSchedule"}]);
    world.add(
        Kind::Node,
        "tainted",
        json!({"metadata": {"labels": {"color": "blue"}}, "spec": {"taints": taint}}),
    );
    let mut set = daemons(json!({}));
    set["spec"]["template"]["spec"]["nodeSelector"] = json!({"color": "blue"});
    world.add(Kind::DaemonSet, "log", set);
    world.live();
    assert_eq!(placed(&world), pairs(&[("blue", "a")]));
    world.edit(Kind::Node, "plain", |node| node["metadata"]["labels"] = json!({"color": "blue"}));
    world.live();
    assert_eq!(placed(&world), pairs(&[("blue", "a"), ("plain", "a")]));
    // A taint that came later lets stay what it does not evict.
    world.edit(Kind::Node, "blue", |node| {
        node["spec"]["taints"] = json!([{"key": "a", "effect": "NoSchedule"}])
    });
    world.live();
    assert_eq!(placed(&world).len(), 2);
    assert_eq!(status(&world)["numberMisscheduled"], 1);
    world.edit(Kind::Node, "blue", |node| {
        node["spec"]["taints"] = json!([{"key": "a", "effect": "NoExecute"}])
    });
    world.live();
    assert_eq!(placed(&world), pairs(&[("plain", "a")]));
}

#[test]
fn nodes_that_only_report_are_not_looked_at() {
    let mut world = world(&["n1"], json!({}));
    world.live();
    world.written.clear();
    world.edit(Kind::Node, "n1", |node| node["status"]["phase"] = json!("x"));
    assert!(!world.is_due(), "nothing about pods changed");
}

#[test]
fn an_update_replaces_as_many_as_may_be_missing() {
    let mut world =
        world(&["n1", "n2", "n3"], json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}}));
    world.live();
    set_image(&mut world, "b");
    assert_eq!(placed(&world), pairs(&[("n3", "a")]), "two are going");
    world.live();
    assert_eq!(placed(&world), pairs(&[("n1", "b"), ("n2", "b"), ("n3", "b")]));
    assert_eq!(status(&world)["updatedNumberScheduled"], 3);
    assert_eq!(world.names(Kind::ControllerRevision).len(), 2);
}

#[test]
fn a_surge_has_the_new_pod_beside_the_old_one_until_it_works() {
    let strategy = json!({"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}});
    let mut world = world(&["n1", "n2"], strategy);
    world.live();
    set_image(&mut world, "b");
    assert_eq!(placed(&world), pairs(&[("n1", "a"), ("n1", "b"), ("n2", "a")]));
    world.run_pods();
    world.settle();
    assert_eq!(placed(&world), pairs(&[("n1", "b"), ("n2", "a"), ("n2", "b")]));
    world.live();
    assert_eq!(placed(&world), pairs(&[("n1", "b"), ("n2", "b")]));
}

#[test]
fn on_delete_waits_for_the_user_and_history_is_limited() {
    let mut world =
        world(&["n1"], json!({"updateStrategy": {"type": "OnDelete"}, "revisionHistoryLimit": 1}));
    world.live();
    for image in ["b", "c", "d"] {
        set_image(&mut world, image);
    }
    assert_eq!(placed(&world), pairs(&[("n1", "a")]));
    assert_eq!(world.names(Kind::ControllerRevision).len(), 3, "the pod's, the newest and one");
    let pod = world.names(Kind::Pod)[0].clone();
    world.delete(Kind::Pod, &pod);
    world.live();
    assert_eq!(placed(&world), pairs(&[("n1", "d")]));
    assert_eq!(world.names(Kind::ControllerRevision).len(), 2);
}

#[test]
fn a_pod_that_failed_is_replaced_but_not_without_end() {
    let mut world = world(&["n1"], json!({}));
    let fail = |world: &mut World| {
        let pod = world.names(Kind::Pod)[0].clone();
        world.edit(Kind::Pod, &pod, |pod| pod["status"]["phase"] = json!("Failed"));
        world.settle();
        pod
    };
    let first = fail(&mut world);
    assert_eq!(world.names(Kind::Pod), std::slice::from_ref(&first), "it is seconds old");
    world.pass(10);
    assert_ne!(world.names(Kind::Pod), [first]);
    world.pass(60);
    let second = fail(&mut world);
    assert_ne!(world.names(Kind::Pod), [second], "it ran for a while");
}

#[test]
fn a_pod_too_many_goes_the_oldest_stays() {
    let mut world = world(&["n1"], json!({}));
    let mut twin = world.list(Kind::Pod)[0].clone();
    let first = world.names(Kind::Pod)[0].clone();
    twin["metadata"] = json!({"labels": twin["metadata"]["labels"]});
    world.pass(5);
    world.add(Kind::Pod, "twin", twin);
    world.settle();
    assert_eq!(world.names(Kind::Pod), [first]);
}
