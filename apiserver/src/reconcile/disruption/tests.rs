//! What budgets allow.

use serde_json::{Value, json};

use super::super::kind::Kind;
use super::super::tests::{World, template};

fn budget(spec: Value) -> Value {
    let mut budget = json!({"spec": {"selector": {"matchLabels": {"app": "web"}}}});
    for (field, value) in spec.as_object().unwrap() {
        budget["spec"][field] = value.clone();
    }
    budget
}

fn deployment(replicas: i64) -> Value {
    json!({"spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template("web", "i"),
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
    }})
}

/// Allowed, healthy, desired and expected.
fn numbers(world: &World) -> [i64; 4] {
    let status = &world.get(Kind::PodDisruptionBudget, "b")["status"];
    ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"]
        .map(|field| status[field].as_i64().unwrap_or(0))
}

fn condition(world: &World) -> Value {
    let condition = &world.get(Kind::PodDisruptionBudget, "b")["status"]["conditions"][0];
    json!([condition["type"], condition["status"], condition["reason"], condition["observedGeneration"]])
}

#[test]
fn percentages_are_of_what_the_owner_is_scaled_to() {
    let mut world = World::new();
    world.add(Kind::Deployment, "web", deployment(10));
    world.add(Kind::PodDisruptionBudget, "b", budget(json!({"minAvailable": "75%"})));
    world.settle();
    assert_eq!(numbers(&world), [0, 0, 8, 10]);
    assert_eq!(condition(&world), json!(["DisruptionAllowed", "False", "InsufficientPods", 1]));
    world.live();
    assert_eq!(numbers(&world), [2, 10, 8, 10]);
    assert_eq!(condition(&world), json!(["DisruptionAllowed", "True", "SufficientPods", 1]));
    world.edit(Kind::PodDisruptionBudget, "b", |budget| {
        budget["spec"].as_object_mut().unwrap().remove("minAvailable");
        budget["spec"]["maxUnavailable"] = json!("15%");
    });
    world.settle();
    assert_eq!(numbers(&world), [2, 10, 8, 10]);
    assert_eq!(world.get(Kind::PodDisruptionBudget, "b")["status"]["observedGeneration"], 2);
    world.written.clear();
    world.edit(Kind::Pod, &world.names(Kind::Pod)[0], |pod| {
        pod["metadata"]["annotations"] = json!({"a": "b"})
    });
    world.settle();
    assert_eq!(world.written, Vec::<String>::new());
}

#[test]
fn a_number_counts_pods_whoever_made_them() {
    let mut world = World::new();
    world.add(Kind::PodDisruptionBudget, "b", budget(json!({"minAvailable": 1})));
    for name in ["x", "y"] {
        let meta = json!({"labels": {"app": "web"}});
        world.add(Kind::Pod, name, json!({"metadata": meta, "spec": {"nodeName": "n1", "containers": []}}));
    }
    world.live();
    assert_eq!(numbers(&world), [1, 2, 1, 2]);
    world.delete(Kind::Pod, "x");
    world.settle();
    assert_eq!(numbers(&world), [0, 1, 1, 2], "what goes is not healthy");
}

#[test]
fn an_evicted_pod_counts_as_gone_for_two_minutes() {
    let mut world = World::new();
    world.add(Kind::Deployment, "web", deployment(3));
    world.add(Kind::PodDisruptionBudget, "b", budget(json!({"maxUnavailable": 1})));
    world.live();
    assert_eq!(numbers(&world), [1, 3, 2, 3]);
    let name = world.names(Kind::Pod)[0].clone();
    world.edit(Kind::PodDisruptionBudget, "b", |budget| {
        budget["status"]["disruptedPods"] =
            json!({name: "2024-01-01T00:00:00Z", "other": "2024-01-01T00:00:00Z"});
    });
    world.settle();
    assert_eq!(numbers(&world), [0, 2, 2, 3]);
    let told = world.get(Kind::PodDisruptionBudget, "b")["status"]["disruptedPods"].clone();
    assert_eq!(told.as_object().map(|pods| pods.len()), Some(1), "{told}");
    world.pass(121);
    assert_eq!(numbers(&world), [1, 3, 2, 3]);
    assert!(world.get(Kind::PodDisruptionBudget, "b")["status"]["disruptedPods"].is_null());
}

#[test]
fn what_cannot_be_told_allows_nothing_and_says_why() {
    let mut world = World::new();
    let owner =
        |kind: &str| json!([{"apiVersion": "v1", "kind": kind, "name": "o", "uid": "u", "controller": true}]);
    let pod = |kind: &str| {
        json!({
            "metadata": {"labels": {"app": "web"}, "ownerReferences": owner(kind)},
            "spec": {"nodeName": "n1", "containers": []},
        })
    };
    world.add(Kind::PodDisruptionBudget, "b", budget(json!({"maxUnavailable": 1})));
    world.add(Kind::Pod, "p", pod("Thing"));
    world.live();
    let told = |world: &World| {
        let condition = &world.get(Kind::PodDisruptionBudget, "b")["status"]["conditions"][0];
        (condition["reason"].as_str().unwrap().to_owned(), condition["message"].as_str().unwrap().to_owned())
    };
    assert_eq!(told(&world), ("SyncFailed".into(), "no matches for kind \"Thing\" in version \"v1\"".into()));
    world.gone(Kind::Pod, "p");
    world.add(Kind::Pod, "q", pod("Service"));
    world.add(Kind::Service, "o", json!({"metadata": {"uid": "u"}, "spec": {}}));
    world.pass(31);
    assert_eq!(told(&world).1, "services does not implement the scale subresource");
    assert_eq!(numbers(&world)[0], 0);
}
