//! The mirror of Endpoints.

use serde_json::{Value, json};

use super::super::endpoint_slice::tests::service;
use super::super::kind::Kind;
use super::super::tests::World;

fn world() -> World {
    let mut world = World::new();
    let mut by_hand = service(json!([{"port": 80}]));
    by_hand["spec"]["selector"] = Value::Null;
    world.add(Kind::Service, "db", by_hand);
    let endpoints = json!({
        "metadata": {"labels": {"tier": "back"}, "annotations": {
            "owner": "me", "endpoints.kubernetes.io/last-change-trigger-time": "2024-01-01T00:00:00Z",
        }},
        "subsets": [
            {"addresses": [{"ip": "192.0.2.1", "nodeName": "n1"}], "ports": [{"name": "a", "port": 1}]},
            {"addresses": [{"ip": "192.0.2.1", "nodeName": "n1"}], "ports": [{"name": "b", "port": 2}]},
            {"notReadyAddresses": [{"ip": "2001:db8::1"}, {"ip": "what"}], "ports": [{"port": 3}]},
        ],
    });
    world.add(Kind::Endpoints, "db", endpoints);
    world
}

#[test]
fn every_family_and_set_of_ports_has_a_slice() {
    let mut world = world();
    world.settle();
    let slices = world.list(Kind::EndpointSlice);
    assert_eq!(slices.len(), 2, "{slices:#?}");
    let of = |family: &str| slices.iter().find(|slice| slice["addressType"] == family).unwrap();
    let port = |name: &str, port: i64| json!({"name": name, "port": port, "protocol": "TCP"});
    assert_eq!(of("IPv4")["ports"], json!([port("a", 1), port("b", 2)]));
    assert_eq!(
        of("IPv4")["endpoints"],
        json!([{"addresses": ["192.0.2.1"], "conditions": {"ready": true}, "nodeName": "n1"}])
    );
    assert_eq!(
        of("IPv6")["endpoints"],
        json!([{"addresses": ["2001:db8::1"], "conditions": {"ready": false}}])
    );
    let meta = &of("IPv4")["metadata"];
    assert_eq!(meta["annotations"], json!({"owner": "me"}));
    assert_eq!(meta["labels"]["tier"], "back");
    assert_eq!(
        meta["labels"]["endpointslice.kubernetes.io/managed-by"],
        "endpointslicemirroring-controller.k8s.io"
    );
    assert_eq!(
        (&meta["ownerReferences"][0]["kind"], &meta["ownerReferences"][0]["uid"]),
        (&json!("Endpoints"), &json!("uid-db"))
    );
}

#[test]
fn the_mirror_follows_and_goes() {
    let mut world = world();
    world.settle();
    world.written.clear();
    world.edit(Kind::Endpoints, "db", |endpoints| {
        endpoints["subsets"] = json!([
            {"addresses": [{"ip": "192.0.2.7"}], "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]},
        ]);
    });
    world.settle();
    assert_eq!(world.written, ["update EndpointSlice", "delete EndpointSlice"]);
    assert_eq!(world.list(Kind::EndpointSlice)[0]["endpoints"][0]["addresses"], json!(["192.0.2.7"]));
    world.edit(Kind::Endpoints, "db", |endpoints| {
        endpoints["metadata"]["labels"]["endpointslice.kubernetes.io/skip-mirror"] = json!("true");
    });
    world.settle();
    assert_eq!(world.list(Kind::EndpointSlice), Vec::<Value>::new());
    world.edit(Kind::Endpoints, "db", |endpoints| endpoints["metadata"]["labels"] = json!({}));
    world.settle();
    assert_eq!(world.list(Kind::EndpointSlice).len(), 1);
    world.gone(Kind::Endpoints, "db");
    world.settle();
    assert_eq!(world.list(Kind::EndpointSlice), Vec::<Value>::new());
}
