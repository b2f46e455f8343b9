//! What a Service's Endpoints become.

use serde_json::{Value, json};

use super::super::endpoint_slice::tests::{node, pod, service};
use super::super::kind::Kind;
use super::super::tests::World;
use super::truncate::truncate;

fn world(ports: Value) -> World {
    let mut world = World::new();
    node(&mut world, "n1");
    world.add(Kind::Service, "web", service(ports));
    world
}

#[test]
fn addresses_with_the_same_ports_are_together_and_go_with_the_service() {
    let mut world = world(json!([
        {"name": "web", "port": 80, "targetPort": "http"}, {"name": "admin", "port": 81, "targetPort": 9000},
    ]));
    pod(&mut world, "a", &["10.42.0.1"], true);
    pod(&mut world, "b", &["10.42.0.2"], false);
    pod(&mut world, "c", &["10.42.0.3"], true);
    world.edit(Kind::Pod, "c", |pod| pod["spec"]["containers"][0]["ports"] = json!([]));
    world.settle();
    let endpoints = world.get(Kind::Endpoints, "web");
    let address = |name: &str, ip: &str| {
        let target =
            json!({"kind": "Pod", "namespace": "default", "name": name, "uid": format!("uid-{name}")});
        json!({"ip": ip, "nodeName": "n1", "hostname": name, "targetRef": target})
    };
    let (web, admin) = (
        json!({"name": "web", "port": 8080, "protocol": "TCP"}),
        json!({"name": "admin", "port": 9000, "protocol": "TCP"}),
    );
    // The last pod has no port "http": the other two have it for themselves.
    assert_eq!(
        endpoints["subsets"],
        json!([
            {"addresses": [address("a", "10.42.0.1")], "notReadyAddresses": [address("b", "10.42.0.2")], "ports": [web]},
            {
                "addresses": [address("a", "10.42.0.1"), address("c", "10.42.0.3")],
                "notReadyAddresses": [address("b", "10.42.0.2")], "ports": [admin],
            },
        ])
    );
    assert_eq!(
        endpoints["metadata"]["labels"],
        json!({"team": "a", "endpoints.kubernetes.io/managed-by": "endpoint-controller"})
    );
    world.gone(Kind::Service, "web");
    world.settle();
    assert_eq!(world.find(Kind::Endpoints, "web"), None);
}

#[test]
fn what_is_too_much_is_cut_first_of_what_is_not_ready() {
    let list = |count: usize| Value::from(vec![json!({"ip": "192.0.2.1"}); count]);
    let sizes = |subsets: &[Value]| -> Vec<(usize, usize)> {
        let size = |list: &Value| list.as_array().map_or(0, Vec::len);
        subsets.iter().map(|s| (size(&s["addresses"]), size(&s["notReadyAddresses"]))).collect()
    };
    let cut = |given: &[(usize, usize)]| {
        let subset = |(ready, not): &(usize, usize)| json!({"addresses": list(*ready), "notReadyAddresses": list(*not)});
        let mut subsets: Vec<Value> = given.iter().map(subset).collect();
        let was = truncate(&mut subsets);
        (was, sizes(&subsets))
    };
    assert_eq!(cut(&[(600, 400)]), (false, vec![(600, 400)]));
    assert_eq!(cut(&[(400, 300), (300, 100)]), (true, vec![(400, 225), (300, 75)]));
    assert_eq!(cut(&[(1000, 10), (500, 10), (1, 0)]), (true, vec![(667, 0), (333, 0), (0, 0)]));
}

#[test]
fn endpoints_made_by_hand_stay_until_their_service_goes() {
    let mut world = World::new();
    world.add(Kind::Endpoints, "web", json!({"subsets": [{"addresses": [{"ip": "192.0.2.1"}]}]}));
    world.settle();
    assert_eq!(world.written, Vec::<String>::new());
    let mut by_hand = service(json!([{"port": 80}]));
    by_hand["spec"]["selector"] = Value::Null;
    world.add(Kind::Service, "web", by_hand);
    world.settle();
    assert_eq!(world.written, ["create EndpointSlice"], "they are mirrored, not changed");
    world.gone(Kind::Service, "web");
    world.settle();
    assert_eq!(world.find(Kind::Endpoints, "web"), None);
    assert_eq!(world.list(Kind::EndpointSlice), Vec::<Value>::new());
}
