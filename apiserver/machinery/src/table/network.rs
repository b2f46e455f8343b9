//! The cells of nodes, services, endpoints and ingresses.

use serde_json::{Map, Value};

use super::printer::{at, condition, items, number, or_none, text};

/// Longest text of a list of endpoints or addresses.
const WIDTH: usize = 16;

/// `Ready,SchedulingDisabled`.
pub(super) fn node_status(node: &Value) -> String {
    let mut parts = vec![match condition(node, "Ready") {
        Some(ready) if text(ready, "status") == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }];
    if at(node, "spec.unschedulable") == Some(&Value::Bool(true)) {
        parts.push("SchedulingDisabled");
    }
    parts.join(",")
}

/// The roles in the labels, sorted.
pub(super) fn node_roles(node: &Value) -> String {
    let empty = Map::new();
    let labels = at(node, "metadata.labels").and_then(Value::as_object).unwrap_or(&empty);
    let role = |(key, value): (&String, &Value)| match key.strip_prefix("node-role.kubernetes.io/") {
        Some(role) if !role.is_empty() => Some(role.to_owned()),
        _ if key == "kubernetes.io/role" => value.as_str().filter(|role| !role.is_empty()).map(str::to_owned),
        _ => None,
    };
    let mut roles: Vec<String> = labels.iter().filter_map(role).collect();
    roles.sort();
    roles.dedup();
    or_none(roles.join(","))
}

/// The first address of a type.
pub(super) fn node_address(node: &Value, ty: &str) -> String {
    let found = items(node, "status.addresses").iter().find(|address| text(address, "type") == ty);
    found.map_or("<none>".to_owned(), |address| text(address, "address"))
}

/// The cluster IP, or `None` of a headless service as it stands.
pub(super) fn cluster_ip(service: &Value) -> String {
    let first = items(service, "spec.clusterIPs").first().map(crate::jsonpath::text).unwrap_or_default();
    or_none(if first.is_empty() { text(service, "spec.clusterIP") } else { first })
}

/// Who holds an address: `services/default/web`.
pub(super) fn address_parent(address: &Value) -> String {
    let Some(parent) = at(address, "spec.parentRef") else { return "<none>".to_owned() };
    let (resource, group) = (text(parent, "resource"), text(parent, "group"));
    let kind = if group.is_empty() { resource } else { format!("{resource}.{group}") };
    let names = ["namespace", "name"].map(|field| text(parent, field));
    let names = names.iter().filter(|name| !name.is_empty()).map(String::as_str);
    std::iter::once(kind.to_lowercase().as_str()).chain(names).collect::<Vec<_>>().join("/")
}

/// What reaches a service from outside.
pub(super) fn external_ip(service: &Value) -> String {
    let external = strings(service, "spec.externalIPs");
    match text(service, "spec.type").as_str() {
        "LoadBalancer" => {
            let balanced = ingress(service);
            let mut all: Vec<String> = Vec::new();
            if !balanced.is_empty() {
                all.push(balanced);
            }
            all.extend(external);
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        "ExternalName" => text(service, "spec.externalName"),
        _ => or_none(external.join(",")),
    }
}

/// The addresses or names of a load balancer, as far as they fit.
pub(super) fn load_balancer(object: &Value) -> String {
    let all = ingress(object);
    if all.chars().count() > WIDTH {
        let cut: String = all.chars().take(WIDTH - 3).collect();
        return format!("{cut}...");
    }
    all
}

fn ingress(object: &Value) -> String {
    let mut seen: Vec<String> = Vec::new();
    for one in items(object, "status.loadBalancer.ingress") {
        let address = match text(one, "ip") {
            ip if !ip.is_empty() => ip,
            _ => text(one, "hostname"),
        };
        if !address.is_empty() && !seen.contains(&address) {
            seen.push(address);
        }
    }
    seen.join(",")
}

fn strings(object: &Value, path: &str) -> Vec<String> {
    items(object, path).iter().map(crate::jsonpath::text).collect()
}

/// `80/TCP,443:30443/TCP`.
pub(super) fn service_ports(service: &Value) -> String {
    let one = |port: &Value| {
        let (number, node) = (number(port, "port"), number(port, "nodePort"));
        let protocol = text(port, "protocol");
        if node > 0 { format!("{number}:{node}/{protocol}") } else { format!("{number}/{protocol}") }
    };
    or_none(items(service, "spec.ports").iter().map(one).collect::<Vec<_>>().join(","))
}

/// `10.42.0.5:80,10.42.0.6:80 + 3 more...`.
pub(super) fn endpoints(object: &Value) -> String {
    let mut all = Vec::new();
    for subset in items(object, "subsets") {
        let ports = items(subset, "ports");
        for address in items(subset, "addresses") {
            let ip = text(address, "ip");
            if ports.is_empty() {
                all.push(ip.clone());
            }
            for port in ports {
                let bracketed = if ip.contains(':') { format!("[{ip}]") } else { ip.clone() };
                all.push(format!("{bracketed}:{}", number(port, "port")));
            }
        }
    }
    few(&all)
}

/// The first three, and how many more there are.
fn few(all: &[String]) -> String {
    let shown = all.iter().take(3).cloned().collect::<Vec<_>>().join(",");
    match all.len() {
        0 => "<none>".to_owned(),
        count @ 4.. => format!("{shown} + {} more...", count - 3),
        _ => shown,
    }
}

/// The port numbers of a slice.
pub(super) fn slice_ports(slice: &Value) -> String {
    let ports = items(slice, "ports");
    if ports.is_empty() {
        return "<unset>".to_owned();
    }
    let all: Vec<String> =
        ports.iter().map(|port| at(port, "port").map_or("*".to_owned(), crate::jsonpath::text)).collect();
    few(&all)
}

/// The addresses of a slice.
pub(super) fn slice_endpoints(slice: &Value) -> String {
    let endpoints = items(slice, "endpoints");
    if endpoints.is_empty() {
        return "<unset>".to_owned();
    }
    let all: Vec<String> = endpoints.iter().flat_map(|endpoint| strings(endpoint, "addresses")).collect();
    few(&all)
}

/// The hosts of an ingress, or `*`.
pub(super) fn ingress_hosts(ingress: &Value) -> String {
    let hosts: Vec<String> = items(ingress, "spec.rules")
        .iter()
        .map(|rule| text(rule, "host"))
        .filter(|host| !host.is_empty())
        .collect();
    match hosts.len() {
        0 => "*".to_owned(),
        count @ 4.. => format!("{} + {} more...", hosts[..3].join(","), count - 3),
        _ => hosts.join(","),
    }
}
