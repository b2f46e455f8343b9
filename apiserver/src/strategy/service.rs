//! Services: their addresses and node ports, given out once in the cluster by claims, and what may not change.

mod allocate;
mod validate;

use litek8s_machinery::field::FieldError;
use litek8s_store::Claim;
use serde_json::{Value, json};

use super::{Strategy, WriteContext};
use crate::endpoints::metadata;
use crate::response::Failure;

/// The space of claims on cluster addresses.
pub(crate) const IP_SPACE: &str = "service-ip";
/// The space of claims on node ports, one for each protocol.
pub(crate) const PORT_SPACE: &str = "node-port";

/// The behaviour of Services.
pub(super) struct Service;

impl Strategy for Service {
    fn returns_deleted(&self) -> bool {
        true
    }

    fn prepare_create(&self, cx: &WriteContext<'_>, object: &mut Value) -> Result<(), Failure> {
        object["status"] = json!({"loadBalancer": {}});
        settle(object);
        allocate::addresses(cx, object)?;
        allocate::ports(cx, object)
    }

    fn prepare_update(&self, cx: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Failure> {
        if !cx.subresource.is_empty() {
            return Ok(());
        }
        carry_over(object, old);
        settle(object);
        allocate::addresses(cx, object)?;
        allocate::ports(cx, object)
    }

    fn validate(&self, _: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        validate::service(object, old)
    }

    fn claims(&self, object: &Value) -> Vec<Claim> {
        let ips = if kind(object) == "ExternalName" { Vec::new() } else { addresses(object) };
        let ips = ips.into_iter().map(|ip| Claim::new(IP_SPACE, ip));
        ips.chain(allocate::port_claims(object)).collect()
    }
}

/// The type, `ClusterIP` when none is given.
fn kind(object: &Value) -> &str {
    object["spec"]["type"].as_str().unwrap_or("ClusterIP")
}

/// The cluster addresses, without `None`.
fn addresses(object: &Value) -> Vec<&str> {
    let spec = &object["spec"];
    let list: Vec<&str> =
        spec["clusterIPs"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let all = if list.is_empty() { spec["clusterIP"].as_str().into_iter().collect() } else { list };
    all.into_iter().filter(|ip| !matches!(*ip, "" | "None")).collect()
}

/// Whether the Service has no address on purpose.
fn is_headless(object: &Value) -> bool {
    object["spec"]["clusterIP"] == "None" || object["spec"]["clusterIPs"][0] == "None"
}

/// Whether node ports are given to it.
fn has_node_ports(object: &Value) -> bool {
    match kind(object) {
        "NodePort" => true,
        "LoadBalancer" => object["spec"]["allocateLoadBalancerNodePorts"] != Value::Bool(false),
        _ => false,
    }
}

/// Fills in what follows from the type.
fn settle(object: &mut Value) {
    let kind = kind(object).to_owned();
    let headless = is_headless(object);
    let has_external = object["spec"]["externalIPs"].as_array().is_some_and(|l| !l.is_empty());
    let spec = metadata::object(object, "spec");
    let mut default = |field: &str, value: Value| {
        if spec[field].is_null() || spec[field] == "" {
            spec[field] = value;
        }
    };
    default("type", Value::from(kind.clone()));
    default("sessionAffinity", Value::from("None"));
    if kind == "ExternalName" {
        return remove_nulls(spec);
    }
    default("internalTrafficPolicy", Value::from("Cluster"));
    let published = matches!(kind.as_str(), "NodePort" | "LoadBalancer");
    if published || (has_external && !headless) {
        default("externalTrafficPolicy", Value::from("Cluster"));
    }
    if kind == "LoadBalancer" {
        default("allocateLoadBalancerNodePorts", Value::Bool(true));
    }
    for port in spec["ports"].as_array_mut().into_iter().flatten() {
        if port["protocol"].is_null() {
            port["protocol"] = Value::from("TCP");
        }
        let target = &port["targetPort"];
        if !headless && (target.is_null() || *target == 0 || *target == "") {
            port["targetPort"] = port["port"].clone();
        }
        remove_nulls(port);
    }
    remove_nulls(spec);
}

fn remove_nulls(value: &mut Value) {
    if let Some(map) = value.as_object_mut() {
        map.retain(|_, v| !v.is_null());
    }
}

/// What was given out stays when the update does not name it and still needs it.
fn carry_over(object: &mut Value, old: &Value) {
    let (now, before) = (kind(object).to_owned(), kind(old).to_owned());
    let spec = metadata::object(object, "spec");
    if now == "ExternalName" {
        // Only addresses that the update did not touch go without being asked.
        if before != "ExternalName" {
            for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                if spec[field] == old["spec"][field] {
                    spec[field] = Value::Null;
                }
            }
        }
        return remove_nulls(spec);
    }
    if before != "ExternalName" {
        let first = spec["clusterIP"].as_str().unwrap_or_default().to_owned();
        if first.is_empty() && spec["clusterIPs"].as_array().is_none_or(Vec::is_empty) {
            for field in ["clusterIP", "clusterIPs"] {
                spec[field] = old["spec"][field].clone();
            }
        } else if !first.is_empty() && spec["clusterIPs"].is_null() {
            spec["clusterIPs"] = if old["spec"]["clusterIP"] == first.as_str() {
                old["spec"]["clusterIPs"].clone()
            } else {
                json!([first])
            };
        }
        for field in ["ipFamilies", "ipFamilyPolicy"] {
            if spec[field].is_null() {
                spec[field] = old["spec"][field].clone();
            }
        }
    }
    if matches!(now.as_str(), "NodePort" | "LoadBalancer") {
        carry_ports(spec, &old["spec"]["ports"]);
        if spec["healthCheckNodePort"].is_null() {
            spec["healthCheckNodePort"] = old["spec"]["healthCheckNodePort"].clone();
        }
    } else if matches!(before.as_str(), "NodePort" | "LoadBalancer") {
        drop_ports(spec, &old["spec"]["ports"]);
    }
    remove_nulls(spec);
}

/// A port without a node port gets the one that the same port had.
fn carry_ports(spec: &mut Value, old: &Value) {
    let given: Vec<Value> =
        spec["ports"].as_array().into_iter().flatten().map(|p| p["nodePort"].clone()).collect();
    for port in spec["ports"].as_array_mut().into_iter().flatten() {
        if port["nodePort"].as_i64().unwrap_or(0) != 0 {
            continue;
        }
        let same = |p: &&Value| p["port"] == port["port"] && protocol(p) == protocol(port);
        let before = old.as_array().into_iter().flatten().find(same);
        if let Some(node_port) =
            before.map(|p| p["nodePort"].clone()).filter(|n| !n.is_null() && !given.contains(n))
        {
            port["nodePort"] = node_port;
        }
    }
}

/// A Service that is no longer published gives its node ports back, unless the update sets new ones.
fn drop_ports(spec: &mut Value, old: &Value) {
    let before: Vec<&Value> = old.as_array().into_iter().flatten().map(|p| &p["nodePort"]).collect();
    for port in spec["ports"].as_array_mut().into_iter().flatten() {
        if before.contains(&&port["nodePort"]) {
            port["nodePort"] = Value::Null;
        }
        remove_nulls(port);
    }
    for field in
        ["externalTrafficPolicy", "allocateLoadBalancerNodePorts", "healthCheckNodePort", "loadBalancerClass"]
    {
        spec[field] = Value::Null;
    }
}

/// The protocol of a port.
fn protocol(port: &Value) -> &str {
    port["protocol"].as_str().unwrap_or("TCP")
}

#[cfg(test)]
mod tests;
