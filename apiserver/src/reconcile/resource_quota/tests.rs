//! What the status of quotas says as objects come and go.

use serde_json::{Value, json};

use super::super::kind::Kind;
use super::super::tests::World;

fn pod(resources: Value) -> Value {
    json!({"spec": {"containers": [{"name": "c", "resources": {"requests": resources}}]}})
}

fn used(world: &World, quota: &str) -> Value {
    world.get(Kind::ResourceQuota, quota)["status"]["used"].clone()
}

#[test]
fn everything_counted_is_said_at_once_and_given_back_when_it_goes() {
    let mut world = World::new();
    world.add(Kind::Service, "s", json!({"spec": {"type": "NodePort", "ports": [{"port": 1}, {"port": 2}]}}));
    let hard = json!({
        "pods": "5", "requests.cpu": "2", "services": "2", "services.nodeports": "9", "count/replicasets.apps": "3",
        "secrets": "4", "count/widgets.example.com": "1", "resourcequotas": "1",
    });
    world.add(Kind::ResourceQuota, "q", json!({"spec": {"hard": hard}}));
    world.settle();
    let nothing = json!({
        "pods": "0", "requests.cpu": "0", "services": "1", "services.nodeports": "2", "count/replicasets.apps": "0",
        "secrets": "0", "count/widgets.example.com": "0", "resourcequotas": "1",
    });
    assert_eq!(used(&world, "q"), nothing);
    assert_eq!(world.get(Kind::ResourceQuota, "q")["status"]["hard"], hard);
    world.add(Kind::Pod, "a", pod(json!({"cpu": "700m"})));
    world.add(Kind::Pod, "b", pod(json!({"cpu": "300m"})));
    world.settle();
    assert_eq!((&used(&world, "q")["pods"], &used(&world, "q")["requests.cpu"]), (&json!("2"), &json!("1")));
    world.edit(Kind::Pod, "b", |pod| pod["status"]["phase"] = json!("Succeeded"));
    world.settle();
    assert_eq!(
        (&used(&world, "q")["pods"], &used(&world, "q")["requests.cpu"]),
        (&json!("1"), &json!("700m"))
    );
    world.gone(Kind::Pod, "a");
    world.gone(Kind::Service, "s");
    world.settle();
    assert_eq!((&used(&world, "q")["pods"], &used(&world, "q")["services"]), (&json!("0"), &json!("0")));
    world.edit(Kind::ResourceQuota, "q", |quota| quota["spec"]["hard"] = json!({"pods": "1"}));
    world.settle();
    assert_eq!(
        world.get(Kind::ResourceQuota, "q")["status"],
        json!({"hard": {"pods": "1"}, "used": {"pods": "0"}})
    );
    world.written.clear();
    world.add(Kind::Pod, "c", pod(json!({})));
    world.edit(Kind::Pod, "c", |pod| pod["metadata"]["annotations"] = json!({"a": "b"}));
    world.settle();
    assert_eq!(world.written, ["update ResourceQuota status"]);
}

#[test]
fn scopes_count_the_pods_they_are_about() {
    let mut world = World::new();
    let quota = |scope: &str| json!({"spec": {"hard": {"pods": "5"}, "scopes": [scope]}});
    for scope in ["BestEffort", "NotBestEffort", "Terminating", "NotTerminating"] {
        world.add(Kind::ResourceQuota, &scope.to_lowercase(), quota(scope));
    }
    let expression = json!([{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]);
    let spec = json!({"hard": {"pods": "5"}, "scopeSelector": {"matchExpressions": expression}});
    world.add(Kind::ResourceQuota, "high", json!({"spec": spec}));
    world.add(Kind::Pod, "a", pod(json!({})));
    let mut ending = pod(json!({"cpu": "1"}));
    ending["spec"]["activeDeadlineSeconds"] = json!(60);
    ending["spec"]["priorityClassName"] = json!("high");
    world.add(Kind::Pod, "b", ending.clone());
    world.add(Kind::Pod, "c", ending);
    world.settle();
    let counts = ["besteffort", "notbesteffort", "terminating", "notterminating", "high"]
        .map(|quota| used(&world, quota)["pods"].clone());
    assert_eq!(counts, [json!("1"), json!("2"), json!("2"), json!("1"), json!("2")]);
    world.gone(Kind::Pod, "b");
    world.settle();
    assert_eq!(used(&world, "high")["pods"], "1");
}
