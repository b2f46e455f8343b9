//! The few defaults of built-in types that walk more than one field.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

/// A default that needs code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Special {
    /// A named namespace carries its name as a label.
    NamespaceLabel,
    /// The limits of a pod's containers are its requests where it says none.
    RequestsFromLimits,
    /// The container ports of a pod in the host's network are host ports.
    HostPorts,
    /// The claims of a StatefulSet say what they are.
    ClaimTemplates,
    /// What containers get by default is the most they may have, and what they request is what they get.
    ContainerLimits,
    /// `podCIDR` is the first of `podCIDRs`.
    PodCidrs,
    /// The plain text of a Secret becomes data.
    StringData,
}

impl Special {
    pub(super) fn find(name: &str) -> Option<Self> {
        match name {
            "namespace_label" => Some(Self::NamespaceLabel),
            "requests_from_limits" => Some(Self::RequestsFromLimits),
            "host_ports" => Some(Self::HostPorts),
            "claim_templates" => Some(Self::ClaimTemplates),
            "container_limits" => Some(Self::ContainerLimits),
            "pod_cidrs" => Some(Self::PodCidrs),
            "string_data" => Some(Self::StringData),
            _ => None,
        }
    }

    pub(super) fn apply(self, object: &mut Map<String, Value>) {
        match self {
            Self::NamespaceLabel => namespace_label(object),
            Self::RequestsFromLimits => containers(object, requests_from_limits),
            Self::HostPorts => {
                let host = object.get("spec").and_then(|spec| spec.get("hostNetwork")) == Some(&true.into());
                if host {
                    containers(object, host_ports);
                }
            }
            Self::ClaimTemplates => claim_templates(object),
            Self::ContainerLimits => container_limits(object),
            Self::PodCidrs => pod_cidrs(object),
            Self::StringData => string_data(object),
        }
    }
}

fn namespace_label(object: &mut Map<String, Value>) {
    let Some(Value::Object(meta)) = object.get_mut("metadata") else { return };
    let name = match meta.get("name").and_then(Value::as_str) {
        Some(name) if !name.is_empty() => name.to_owned(),
        _ => return,
    };
    let labels = meta.entry("labels").or_insert_with(|| Value::Object(Map::new()));
    if labels.is_null() {
        *labels = Value::Object(Map::new());
    }
    if let Value::Object(labels) = labels {
        labels.insert("kubernetes.io/metadata.name".to_owned(), Value::String(name));
    }
}

fn claim_templates(spec: &mut Map<String, Value>) {
    let Some(Value::Array(claims)) = spec.get_mut("volumeClaimTemplates") else { return };
    for claim in claims.iter_mut().filter_map(Value::as_object_mut) {
        claim.insert("apiVersion".to_owned(), "v1".into());
        claim.insert("kind".to_owned(), "PersistentVolumeClaim".into());
    }
}

fn container_limits(item: &mut Map<String, Value>) {
    if item.get("type").and_then(Value::as_str) != Some("Container") {
        return;
    }
    for (field, from) in [("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")] {
        let Some(Value::Object(amounts)) = item.get(from).cloned() else { continue };
        let place = item.entry(field).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(place) = place {
            for (name, amount) in amounts {
                place.entry(name).or_insert(amount);
            }
        }
    }
}

fn pod_cidrs(spec: &mut Map<String, Value>) {
    let first = |spec: &Map<String, Value>| spec.get("podCIDRs")?.get(0).cloned();
    match (spec.get("podCIDR").filter(|cidr| !cidr.is_null()).cloned(), first(spec)) {
        (Some(cidr), None) => spec.insert("podCIDRs".to_owned(), Value::Array(vec![cidr])),
        (None, Some(cidr)) => spec.insert("podCIDR".to_owned(), cidr),
        _ => None,
    };
}

fn string_data(secret: &mut Map<String, Value>) {
    let Some(Value::Object(plain)) = secret.remove("stringData") else { return };
    let data = secret.entry("data").or_insert(Value::Null);
    if data.is_null() {
        *data = Value::Object(Map::new());
    }
    if let Value::Object(data) = data {
        for (key, value) in plain {
            data.insert(key, STANDARD.encode(value.as_str().unwrap_or_default()).into());
        }
    }
}

fn containers(pod: &mut Map<String, Value>, each: fn(&mut Map<String, Value>)) {
    let Some(Value::Object(spec)) = pod.get_mut("spec") else { return };
    for list in ["containers", "initContainers"] {
        let Some(Value::Array(items)) = spec.get_mut(list) else { continue };
        items.iter_mut().filter_map(Value::as_object_mut).for_each(each);
    }
}

fn requests_from_limits(container: &mut Map<String, Value>) {
    let Some(Value::Object(resources)) = container.get_mut("resources") else { return };
    let Some(Value::Object(limits)) = resources.get("limits") else { return };
    let limits = limits.clone();
    if limits.is_empty() {
        return;
    }
    let requests = resources.entry("requests").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(requests) = requests {
        for (name, amount) in limits {
            requests.entry(name).or_insert(amount);
        }
    }
}

fn host_ports(container: &mut Map<String, Value>) {
    let Some(Value::Array(ports)) = container.get_mut("ports") else { return };
    for port in ports.iter_mut().filter_map(Value::as_object_mut) {
        if let Some(number) = port.get("containerPort").cloned()
            && port.get("hostPort").is_none_or(|host| host == &Value::from(0))
        {
            port.insert("hostPort".to_owned(), number);
        }
    }
}
