//! What one object uses up, by the names that quotas have for it.

use litek8s_store::GroupResource;
use serde_json::{Map, Value};

use super::super::amount::{self, Amounts, ONE};

/// Counted under their own name besides `count/…`.
pub(super) const COUNTED: [&str; 5] =
    ["configmaps", "secrets", "replicationcontrollers", "resourcequotas", "persistentvolumeclaims"];

/// Everything the object uses.
pub(super) fn of(resource: &GroupResource, object: &Value) -> Amounts {
    let mut used = Amounts::new();
    let plural = &*resource.resource;
    let name = if resource.group.is_empty() {
        format!("count/{plural}")
    } else {
        format!("count/{plural}.{}", resource.group)
    };
    used.insert(name, ONE);
    if !resource.group.is_empty() {
        return used;
    }
    let spec = &object["spec"];
    if COUNTED.contains(&plural) {
        used.insert(plural.to_owned(), ONE);
    }
    match plural {
        "pods" => pod(object, &mut used),
        "services" => service(spec, &mut used),
        "persistentvolumeclaims" => claim(spec, &mut used),
        _ => {}
    }
    used
}

fn pod(object: &Value, used: &mut Amounts) {
    if matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
        return;
    }
    used.insert("pods".to_owned(), ONE);
    let spec = &object["spec"];
    for (name, amount) in amount::of_pod(spec, "requests") {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-") {
            used.insert(name.clone(), amount);
        }
        used.insert(format!("requests.{name}"), amount);
    }
    for (name, amount) in amount::of_pod(spec, "limits") {
        used.insert(format!("limits.{name}"), amount);
    }
}

fn service(spec: &Value, used: &mut Amounts) {
    used.insert("services".to_owned(), ONE);
    let ports = spec["ports"].as_array().into_iter().flatten();
    let count = |ports: usize| i128::try_from(ports).unwrap_or(i128::MAX).saturating_mul(ONE);
    let node_ports = match spec["type"].as_str() {
        Some("NodePort") => ports.count(),
        Some("LoadBalancer") => {
            used.insert("services.loadbalancers".to_owned(), ONE);
            let all = spec["allocateLoadBalancerNodePorts"] != false;
            ports.filter(|port| all || port["nodePort"].as_i64().unwrap_or(0) != 0).count()
        }
        _ => return,
    };
    used.insert("services.nodeports".to_owned(), count(node_ports));
}

fn claim(spec: &Value, used: &mut Amounts) {
    let storage = amount::of(&spec["resources"]["requests"]["storage"]).unwrap_or(0);
    used.insert("requests.storage".to_owned(), storage);
    if let Some(class) = spec["storageClassName"].as_str().filter(|class| !class.is_empty()) {
        let of_class = |what: &str| format!("{class}.storageclass.storage.k8s.io/{what}");
        used.insert(of_class("requests.storage"), storage);
        used.insert(of_class("persistentvolumeclaims"), ONE);
    }
}

/// What a pod must say because a quota counts it, and does not.
pub(super) fn missing(resource: &GroupResource, object: &Value, hard: &Map<String, Value>) -> Option<String> {
    if !resource.group.is_empty() || *resource.resource != *"pods" {
        return None;
    }
    let required = ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];
    let mut texts = Vec::new();
    for name in required.into_iter().filter(|name| hard.contains_key(*name)) {
        let (field, amount) = name.split_once('.').unwrap_or(("requests", name));
        let without = amount::containers(&object["spec"])
            .filter(|(_, container)| container["resources"][field].get(amount).is_none())
            .map(|(container, _)| container)
            .collect::<Vec<_>>();
        if !without.is_empty() {
            texts.push(format!("{name} for: {}", without.join(",")));
        }
    }
    (!texts.is_empty()).then(|| format!("must specify {}", texts.join("; ")))
}
