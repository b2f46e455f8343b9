//! What a Service's slices become as its pods come, go and change.

use serde_json::{Value, json};

use super::super::kind::Kind;
use super::super::tests::World;
use super::TRIGGER_TIME;

pub(in crate::reconcile) fn service(ports: Value) -> Value {
    json!({
        "metadata": {"labels": {"team": "a"}, "creationTimestamp": "2023-12-31T00:00:00Z"},
        "spec": {
            "clusterIP": "10.43.0.9", "ipFamilies": ["IPv4"], "selector": {"app": "web"}, "ports": ports,
        },
    })
}

pub(in crate::reconcile) fn node(world: &mut World, name: &str) {
    let meta = json!({"namespace": "", "labels": {"topology.kubernetes.io/zone": format!("zone-{name}")}});
    world.add(Kind::Node, name, json!({"metadata": meta}));
}

pub(in crate::reconcile) fn pod(world: &mut World, name: &str, ips: &[&str], ready: bool) {
    let ips: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip})).collect();
    let condition = json!({
        "type": "Ready", "status": if ready { "True" } else { "False" }, "lastTransitionTime": "2024-01-01T00:00:05Z",
    });
    world.add(
        Kind::Pod,
        name,
        json!({
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "nodeName": "n1", "hostname": name, "subdomain": "web",
                "containers": [{"name": "c", "ports": [{"name": "http", "containerPort": 8080}]}],
            },
            "status": {"phase": "Running", "podIP": ips[0]["ip"], "podIPs": ips, "conditions": [condition]},
        }),
    );
}

fn http() -> Value {
    json!([{"name": "web", "port": 80, "targetPort": "http", "protocol": "TCP"}])
}

fn world(ports: Value) -> World {
    let mut world = World::new();
    node(&mut world, "n1");
    world.add(Kind::Service, "web", service(ports));
    world
}

/// The slices, without the name of the namespace's other things.
fn slices(world: &World) -> Vec<Value> {
    world.list(Kind::EndpointSlice)
}

fn sizes(world: &World) -> Vec<usize> {
    slices(world).iter().map(|slice| slice["endpoints"].as_array().map_or(0, Vec::len)).collect()
}

#[test]
fn a_slice_says_everything_about_its_pod() {
    let mut world = world(http());
    pod(&mut world, "a", &["10.42.0.1"], true);
    world.settle();
    let slice = &slices(&world)[0];
    assert_eq!(slice["addressType"], "IPv4");
    assert_eq!(slice["ports"], json!([{"name": "web", "port": 8080, "protocol": "TCP"}]));
    assert_eq!(
        slice["endpoints"],
        json!([{
            "addresses": ["10.42.0.1"], "nodeName": "n1", "zone": "zone-n1", "hostname": "a",
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "targetRef": {"kind": "Pod", "namespace": "default", "name": "a", "uid": "uid-a"},
        }])
    );
    let meta = &slice["metadata"];
    assert_eq!(
        meta["labels"],
        json!({
            "team": "a", "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        })
    );
    assert_eq!(meta["ownerReferences"][0]["uid"], "uid-web");
    assert!(meta["name"].as_str().unwrap().starts_with("web-"));
    // Of a new Service its creation is what is told.
    assert_eq!(meta["annotations"][TRIGGER_TIME], "2024-01-01T00:00:00Z");
    world.written.clear();
    world.edit(Kind::Pod, "a", |pod| pod["metadata"]["annotations"] = json!({"x": "y"}));
    world.settle();
    assert_eq!(world.written, Vec::<String>::new());
}

#[test]
fn a_service_without_pods_has_one_empty_slice() {
    let mut world = world(http());
    world.settle();
    assert_eq!(sizes(&world), [0]);
    assert_eq!(slices(&world)[0]["ports"], json!([]));
    let name = world.names(Kind::EndpointSlice);
    pod(&mut world, "a", &["10.42.0.1"], true);
    world.settle();
    assert_eq!(
        (sizes(&world), world.names(Kind::EndpointSlice)),
        (vec![1], name.clone()),
        "the same slice is used"
    );
    world.gone(Kind::Pod, "a");
    world.settle();
    assert_eq!((sizes(&world), world.names(Kind::EndpointSlice)), (vec![0], name));
    world.edit(Kind::EndpointSlice, &world.names(Kind::EndpointSlice)[0], |slice| {
        slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] = json!("me");
    });
    world.settle();
    assert_eq!(sizes(&world), [0, 0], "what another looks after is left to it");
}

#[test]
fn a_pod_that_is_not_ready_or_leaves_says_so() {
    let mut world = world(http());
    pod(&mut world, "a", &["10.42.0.1"], false);
    pod(&mut world, "b", &["10.42.0.2"], true);
    world.settle();
    world.delete(Kind::Pod, "b");
    world.settle();
    let conditions = |world: &World| -> Vec<Value> {
        let slice = &slices(world)[0];
        slice["endpoints"].as_array().unwrap().iter().map(|e| e["conditions"].clone()).collect()
    };
    let is = |ready: bool, serving: bool, terminating: bool| json!({"ready": ready, "serving": serving, "terminating": terminating});
    assert_eq!(conditions(&world), [is(false, false, false), is(false, true, true)]);
    world.edit(Kind::Service, "web", |service| service["spec"]["publishNotReadyAddresses"] = json!(true));
    world.settle();
    assert_eq!(conditions(&world), [is(true, false, false), is(true, true, true)]);
    world.edit(Kind::Pod, "a", |pod| pod["status"]["phase"] = json!("Failed"));
    world.settle();
    assert_eq!(conditions(&world), [is(true, true, true)]);
}

#[test]
fn families_and_differing_ports_have_slices_of_their_own() {
    let mut world = world(http());
    world.edit(Kind::Service, "web", |service| service["spec"]["ipFamilies"] = json!(["IPv4", "IPv6"]));
    pod(&mut world, "a", &["10.42.0.1", "fd00::1"], true);
    pod(&mut world, "b", &["10.42.0.2", "fd00::2"], true);
    world.edit(Kind::Pod, "b", |pod| pod["spec"]["containers"][0]["ports"][0]["containerPort"] = json!(9090));
    world.settle();
    let mut found: Vec<(String, i64, String)> = slices(&world)
        .iter()
        .map(|slice| {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let port = slice["ports"][0]["port"].as_i64().unwrap();
            (text(&slice["addressType"]), port, text(&slice["endpoints"][0]["addresses"][0]))
        })
        .collect();
    found.sort();
    let found: Vec<_> =
        found.iter().map(|(family, port, ip)| (family.as_str(), *port, ip.as_str())).collect();
    assert_eq!(
        found,
        [
            ("IPv4", 8080, "10.42.0.1"),
            ("IPv4", 9090, "10.42.0.2"),
            ("IPv6", 8080, "fd00::1"),
            ("IPv6", 9090, "fd00::2"),
        ]
    );
    world.edit(Kind::Service, "web", |service| service["spec"]["ipFamilies"] = json!(["IPv4"]));
    world.settle();
    assert_eq!(slices(&world).len(), 2);
}

#[test]
fn a_hundred_to_a_slice_and_few_of_them_written() {
    let mut world = world(http());
    for at in 0..250 {
        pod(&mut world, &format!("p{at:03}"), &[&format!("10.42.{}.{}", at / 200, at % 200 + 1)], true);
    }
    world.settle();
    let mut found = sizes(&world);
    found.sort_unstable();
    assert_eq!(found, [50, 100, 100]);
    let both = ["update EndpointSlice", "update Endpoints"];
    world.written.clear();
    pod(&mut world, "q", &["10.42.9.1"], true);
    world.settle();
    assert_eq!(world.written, both, "the new one fits into the slice with room");
    world.written.clear();
    world.gone(Kind::Pod, "p000");
    pod(&mut world, "r", &["10.42.9.2"], true);
    world.settle();
    assert_eq!(world.written, both, "one comes for the one that goes");
    let told = slices(&world)
        .iter()
        .filter(|s| s["metadata"]["annotations"][TRIGGER_TIME] == "2024-01-01T00:00:05Z")
        .count();
    assert_eq!(told, 2, "what changed tells since when the pod is ready");
}

#[test]
fn pods_on_nodes_that_are_not_known_wait_for_them() {
    let mut world = World::new();
    world.add(Kind::Service, "web", service(http()));
    pod(&mut world, "a", &["10.42.0.1"], true);
    world.settle();
    assert_eq!(sizes(&world), [0]);
    node(&mut world, "n1");
    world.settle();
    assert_eq!(sizes(&world), [1]);
}

#[test]
fn headless_services_say_so_and_preferences_become_hints() {
    let mut world = World::new();
    node(&mut world, "n1");
    let mut headless = service(Value::Null);
    headless["spec"]["clusterIP"] = json!("None");
    headless["spec"]["trafficDistribution"] = json!("PreferSameNode");
    world.add(Kind::Service, "web", headless);
    pod(&mut world, "a", &["10.42.0.1"], true);
    pod(&mut world, "b", &["10.42.0.2"], false);
    world.settle();
    let slice = &slices(&world)[0];
    assert_eq!(slice["metadata"]["labels"]["service.kubernetes.io/headless"], "");
    assert_eq!(slice["ports"], json!([]));
    assert_eq!(
        slice["endpoints"][0]["hints"],
        json!({"forZones": [{"name": "zone-n1"}], "forNodes": [{"name": "n1"}]})
    );
    assert!(slice["endpoints"][1]["hints"].is_null());
}

#[test]
fn services_without_selector_are_left_alone() {
    let mut world = World::new();
    let mut by_hand = service(http());
    by_hand["spec"]["selector"] = Value::Null;
    world.add(Kind::Service, "web", by_hand);
    let slice = json!({
        "metadata": {"labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.1"]}],
    });
    world.add(Kind::EndpointSlice, "hand-made", slice);
    world.settle();
    assert_eq!(world.written, Vec::<String>::new());
    world.gone(Kind::Service, "web");
    world.settle();
    assert_eq!(world.written, Vec::<String>::new());
}
