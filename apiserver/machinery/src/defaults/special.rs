//! The few defaults of built-in types that walk more than one field.

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
}

impl Special {
    pub(super) fn find(name: &str) -> Option<Self> {
        match name {
            "namespace_label" => Some(Self::NamespaceLabel),
            "requests_from_limits" => Some(Self::RequestsFromLimits),
            "host_ports" => Some(Self::HostPorts),
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
