//! The manifests the tests apply, as JSON, which kubectl takes like YAML.

use serde_json::{Value, json};

/// A VipConfig as the documentation shows it.
pub(crate) fn config() -> Value {
    json!({
        "apiVersion": "netwrangler.dev/v1", "kind": "VipConfig", "metadata": {"name": "default"},
        "spec": {"firewallMark": 1, "firewallMarkMask": 127, "routeTable": 20001, "routingPriority": 20001,
            "maxAddressCount": 127, "clusterCIDRs": ["10.42.0.0/16", "10.43.0.0/16"]},
    })
}

/// The public network of the dev cluster: clients may come from everywhere.
pub(crate) fn network() -> Value {
    json!({
        "apiVersion": "netwrangler.dev/v1", "kind": "VipNetwork", "metadata": {"name": "public"},
        "spec": {"interface": "eth1", "gatewayIP": "203.0.113.254", "networkCIDR": "203.0.113.0/24",
            "sourceCIDRs": ["0.0.0.0/0"]},
    })
}

/// The configuration and network of IPv6 beside those of IPv4.
pub(crate) fn dual_config() -> Value {
    let mut config = config();
    config["spec"]["clusterCIDRs"] = json!(["10.42.0.0/16", "10.43.0.0/16", "fd42::/56", "fd43::/112"]);
    config
}

/// The public network of the dev cluster in IPv6.
pub(crate) fn long_network() -> Value {
    json!({
        "apiVersion": "netwrangler.dev/v1", "kind": "VipNetwork", "metadata": {"name": "public-ipv6"},
        "spec": {"interface": "eth1", "gatewayIP": "2001:db8:113::254", "networkCIDR": "2001:db8:113::/64",
            "sourceCIDRs": ["::/0"]},
    })
}

/// A Service of both families, with these external addresses.
pub(crate) fn dual_service(name: &str, addresses: &[&str]) -> Value {
    let mut service = service(name, addresses);
    service["spec"]["ipFamilyPolicy"] = "RequireDualStack".into();
    service
}

/// Ready endpoints of IPv6: node and address of each.
pub(crate) fn long_endpoints(service: &str, ready: &[(&str, &str)]) -> Value {
    let mut slice = endpoints(service, ready);
    slice["metadata"]["name"] = format!("{service}-ipv6").into();
    slice["addressType"] = "IPv6".into();
    slice
}

/// A Service that takes part, with these external addresses.
pub(crate) fn service(name: &str, addresses: &[&str]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "labels": {"netwrangler.dev/ingress": "enabled"}},
        "spec": {"type": "ClusterIP", "externalIPs": addresses, "ports": [{"port": 80, "protocol": "TCP"}]},
    })
}

/// The same, whose endpoints' own connections leave with its addresses.
pub(crate) fn egress_service(name: &str, addresses: &[&str]) -> Value {
    let mut service = service(name, addresses);
    service["metadata"]["labels"]["netwrangler.dev/egress"] = "enabled".into();
    service
}

/// Ready endpoints of a Service: node and address of each.
pub(crate) fn endpoints(service: &str, ready: &[(&str, &str)]) -> Value {
    let endpoints: Vec<Value> = ready
        .iter()
        .map(|(node, address)| {
            json!({"addresses": [address], "nodeName": node, "conditions": {"ready": true, "serving": true}})
        })
        .collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": format!("{service}-1"), "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4", "ports": [{"port": 80, "protocol": "TCP"}], "endpoints": endpoints,
    })
}

/// A ConfigMap with one key.
pub(crate) fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": value}})
}

/// Several objects in one stream.
pub(crate) fn list(items: &[Value]) -> String {
    items.iter().map(|item| format!("---\n{item}\n")).collect()
}
