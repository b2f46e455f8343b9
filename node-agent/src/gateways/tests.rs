//! Objects in, gateways and what is said of them out.

use serde_json::json;

use super::*;

fn gateway(destination: &str) -> VipGateway {
    serde_json::from_value(json!({
        "apiVersion": "netwrangler.dev/v1", "kind": "VipGateway", "metadata": {"name": "g"},
        "spec": {"destinationCIDR": destination, "routeTable": 200, "routingPriority": 100,
            "podSelector": {"matchLabels": {"app": "edge"}}},
    }))
    .unwrap()
}

fn route(name: &str, ip: &str, node: &str, destination: &str, table: u32) -> (String, VipRoute) {
    let route = serde_json::from_value(json!({
        "apiVersion": "netwrangler.dev/v1", "kind": "VipRoute", "metadata": {"name": name},
        "spec": {"gateway": "g", "pod": {"namespace": "edge", "name": name}, "podIP": ip, "node": node,
            "destinationCIDR": destination, "routeTable": table, "routingPriority": 100},
    }));
    (name.to_owned(), route.unwrap())
}

#[test]
fn a_gateway_has_the_pods_of_its_present_destination_and_table() {
    let routes = BTreeMap::from([
        route("a", "10.42.1.5", "n1", "172.30.0.0/16", 200),
        route("a-anew", "10.42.1.5", "n1", "172.30.0.0/16", 200),
        route("b", "10.42.2.5", "n2", "172.30.0.0/16", 200),
        route("old-table", "10.42.2.6", "n2", "172.30.0.0/16", 199),
        route("old-place", "10.42.2.7", "n2", "172.31.0.0/16", 200),
    ]);
    let (read, unreadable) = read([gateway("172.30.0.0/16"), gateway("nonsense")].iter(), &routes, "n1");
    let pods: Vec<(String, bool)> =
        read[0].pods.iter().map(|pod| (pod.address.to_string(), pod.local)).collect();
    assert_eq!(pods, [("10.42.1.5".to_owned(), true), ("10.42.2.5".to_owned(), false)]);
    assert_eq!(unreadable["g"], "destinationCIDR nonsense is no network");
}

#[test]
fn what_is_said_is_what_a_reader_understands() {
    let routes = BTreeMap::from([route("a", "10.42.1.5", "n1", "172.30.0.0/16", 200)]);
    let (read, _) = read([gateway("172.30.0.0/16")].iter(), &routes, "n1");
    let facts = litek8s_plan::Facts { gateways: read.clone(), ..litek8s_plan::Facts::default() };
    let text = said(&read, &litek8s_plan::compile(&facts), &BTreeMap::from([("bad".into(), "why".into())]));
    let told: BTreeMap<String, GatewayOnNode> = serde_json::from_str(&text).unwrap();
    assert_eq!(told["g"].applied.as_deref(), Some("172.30.0.0/16"));
    assert_eq!(told["g"].unusable, ["pod edge/a (10.42.1.5): no way to it is known"]);
    assert_eq!((told["bad"].refused.as_deref(), &told["bad"].applied), (Some("why"), &None));
}
