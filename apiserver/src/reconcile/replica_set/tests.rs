//! Sets and their pods.

use serde_json::{Value, json};

use crate::reconcile::kind::Kind;
use crate::reconcile::tests::{World, template};

fn set(replicas: i64) -> Value {
    json!({"spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template("web", "i"),
    }})
}

fn world(replicas: i64) -> World {
    let mut world = World::new();
    world.add(Kind::ReplicaSet, "web", set(replicas));
    world.settle();
    world
}

fn status(world: &World) -> Value {
    world.get(Kind::ReplicaSet, "web")["status"].clone()
}

#[test]
fn pods_are_made_counted_and_replaced() {
    let mut world = world(3);
    assert_eq!(world.names(Kind::Pod).len(), 3);
    let pod = &world.list(Kind::Pod)[0];
    assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], "uid-web");
    assert_eq!(
        status(&world),
        json!({"replicas": 3, "fullyLabeledReplicas": 3, "observedGeneration": 1, "terminatingReplicas": 0})
    );
    world.run_pods();
    world.settle();
    assert_eq!(
        (&status(&world)["readyReplicas"], &status(&world)["availableReplicas"]),
        (&json!(3), &json!(3))
    );
    let name = world.names(Kind::Pod)[0].clone();
    world.delete(Kind::Pod, &name);
    world.settle();
    assert_eq!(world.names(Kind::Pod).len(), 4, "one more while the old one ends");
    assert_eq!((&status(&world)["replicas"], &status(&world)["terminatingReplicas"]), (&json!(3), &json!(1)));
    world.gone(Kind::Pod, &name);
    world.edit(Kind::Pod, &world.names(Kind::Pod)[0].clone(), |pod| pod["status"]["phase"] = json!("Failed"));
    world.settle();
    assert_eq!(world.names(Kind::Pod).len(), 4, "one that failed does not count");
}

#[test]
fn a_replication_controller_is_the_same_with_a_plain_selector() {
    let mut world = World::new();
    let spec = json!({"replicas": 2, "selector": {"app": "web"}, "template": template("web", "i")});
    world.add(Kind::ReplicationController, "web", json!({"spec": spec}));
    world.settle();
    assert_eq!(world.names(Kind::Pod).len(), 2);
    let status = &world.get(Kind::ReplicationController, "web")["status"];
    assert_eq!(*status, json!({"replicas": 2, "fullyLabeledReplicas": 2, "observedGeneration": 1}));
}

#[test]
fn matching_pods_are_adopted_and_others_let_go() {
    let mut world = World::new();
    world.add(
        Kind::Pod,
        "stray",
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}),
    );
    world.add(Kind::ReplicaSet, "web", set(1));
    world.settle();
    assert_eq!(world.names(Kind::Pod), ["stray"]);
    assert_eq!(world.get(Kind::Pod, "stray")["metadata"]["ownerReferences"][0]["controller"], true);
    world.edit(Kind::Pod, "stray", |pod| pod["metadata"]["labels"]["app"] = json!("other"));
    world.settle();
    assert_eq!(world.names(Kind::Pod).len(), 2);
    assert!(world.get(Kind::Pod, "stray")["metadata"]["ownerReferences"].is_null());
    world.edit(Kind::Pod, "stray", |pod| pod["metadata"]["labels"]["app"] = json!("web"));
    world.settle();
    assert_eq!(world.names(Kind::Pod).len(), 1, "it came back and is one too many");
}

#[test]
fn a_pod_that_ended_is_not_adopted_and_a_set_that_goes_keeps_its_own() {
    let mut world = World::new();
    let pod = json!({"metadata": {"labels": {"app": "web"}}, "status": {"phase": "Succeeded"}});
    world.add(Kind::Pod, "done", pod);
    world.add(Kind::ReplicaSet, "web", set(1));
    world.settle();
    assert!(world.get(Kind::Pod, "done")["metadata"]["ownerReferences"].is_null());
    let own = world.names(Kind::Pod).into_iter().find(|name| name != "done").unwrap();
    world.edit(Kind::ReplicaSet, "web", |set| set["metadata"]["finalizers"] = json!(["example.com/wait"]));
    world.delete(Kind::ReplicaSet, "web");
    world.edit(Kind::Pod, &own, |pod| pod["metadata"]["labels"]["app"] = json!("other"));
    world.settle();
    assert!(world.get(Kind::Pod, &own)["metadata"]["ownerReferences"].is_array());
}

#[test]
fn the_least_useful_pods_go_first() {
    let mut world = world(5);
    let names = world.names(Kind::Pod);
    for name in &names[..4] {
        world.run_pod(name);
    }
    world.edit(Kind::Pod, &names[0], |pod| {
        pod["metadata"]["annotations"] = json!({"controller.kubernetes.io/pod-deletion-cost": "-5"});
    });
    world.edit(Kind::Pod, &names[1], |pod| pod["status"]["conditions"][0]["status"] = json!("False"));
    world.edit(Kind::Pod, &names[2], |pod| {
        pod["status"]["containerStatuses"] = json!([{"name": "c", "restartCount": 7}]);
    });
    let mut left = names.clone();
    // On no node, then not ready, then cheap to delete, then often started again.
    for (replicas, gone) in [(4, 4), (3, 1), (2, 0), (1, 2)] {
        world.edit(Kind::ReplicaSet, "web", |set| set["spec"]["replicas"] = json!(replicas));
        world.live();
        left.retain(|name| *name != names[gone]);
        assert_eq!(world.names(Kind::Pod), left);
    }
}

#[test]
fn a_pod_is_available_some_time_after_it_is_ready() {
    let mut world = world(1);
    world.edit(Kind::ReplicaSet, "web", |set| set["spec"]["minReadySeconds"] = json!(30));
    world.run_pods();
    world.settle();
    assert_eq!(status(&world)["readyReplicas"], 1);
    assert!(status(&world)["availableReplicas"].is_null());
    assert_eq!(world.waits(), Some(30));
    world.pass(30);
    assert_eq!(status(&world)["availableReplicas"], 1);
    assert_eq!(world.waits(), None);
}

#[test]
fn why_there_are_too_few_is_in_the_status_until_it_is_over() {
    let mut world = World::new();
    world.refusal = Some("exceeded quota");
    world.add(Kind::ReplicaSet, "web", set(2));
    world.settle();
    let condition = status(&world)["conditions"][0].clone();
    assert_eq!(
        (&condition["type"], &condition["reason"]),
        (&json!("ReplicaFailure"), &json!("FailedCreate"))
    );
    assert_eq!(condition["message"], "exceeded quota");
    world.refusal = None;
    world.pass(5);
    assert_eq!(world.names(Kind::Pod).len(), 2, "it is tried again");
    assert!(status(&world)["conditions"].is_null());
}

#[test]
fn conditions_of_others_stay() {
    let mut world = world(1);
    world.edit(Kind::ReplicaSet, "web", |set| {
        set["status"]["conditions"] = json!([{"type": "Mine", "status": "True"}]);
    });
    world.edit(Kind::ReplicaSet, "web", |set| set["spec"]["replicas"] = json!(2));
    world.settle();
    assert_eq!(status(&world)["conditions"], json!([{"type": "Mine", "status": "True"}]));
}

#[test]
fn a_set_that_does_not_select_its_own_pods_makes_none() {
    let mut world = World::new();
    let spec = json!({"replicas": 2, "selector": {"app": "other"}, "template": template("web", "i")});
    world.add(Kind::ReplicationController, "web", json!({"spec": spec}));
    world.settle();
    assert!(world.names(Kind::Pod).is_empty());
}
