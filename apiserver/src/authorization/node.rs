//! What a node may do: read what its agent needs, write only what is its own.

mod graph;

use litek8s_daemon::streams;
use litek8s_machinery::gvk::GroupResource;
use litek8s_machinery::status::Status;
use litek8s_store::{ObjectKey, View};
use serde_json::Value;

use super::{Attributes, Authorizer, Decision};
use crate::request::UserInfo;

/// The namespace of the nodes' Leases.
const LEASE_NAMESPACE: &str = "kube-node-lease";
/// The namespace of the VIP agents' Leases, and what their names begin with before the node's.
const AGENT_LEASE: (&str, &str) = ("kube-system", "netwrangler-agent.");
/// The group of the VIP kinds.
const VIP_GROUP: &str = "netwrangler.dev";
/// Labels that say what a node may carry traffic or workloads for: only an administrator sets them.
const PROTECTED_LABELS: [&str; 1] = ["litek8s.dev/relay"];
/// The prefixes of labels that have a meaning in Kubernetes, with their subdomains.
const KUBERNETES: [&str; 2] = ["kubernetes.io", "k8s.io"];
/// Those that a node may set all the same, with their subdomains (`kubeletLabelNamespaces`).
const KUBELET: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];
/// Single labels that a node may set (`kubeletLabels`).
const KUBELET_LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];

/// Whether the node `node` may do this; a denial says why.
pub(super) fn authorize(node: &str, wanted: &Attributes<'_>, view: &View) -> Decision {
    if !wanted.is_resource {
        return match streams::node_of(wanted.path) {
            Some(own) if own == node && wanted.verb == "get" => Decision::Allow(format!("node {node:?}")),
            Some(_) => Decision::Deny(format!("node {node:?} can only offer streams of its own")),
            None => Decision::Deny(String::new()),
        };
    }
    let allow = || Decision::Allow(format!("node {node:?}"));
    let read = matches!(wanted.verb, "get" | "list" | "watch");
    let write = matches!(wanted.verb, "update" | "patch");
    match (wanted.group, wanted.resource, wanted.subresource) {
        (VIP_GROUP, _, "") | ("", "nodes", "") if read => allow(),
        (VIP_GROUP, "vipaddresses", "status") if write => {
            if holds_vip(node, wanted, view) {
                allow()
            } else {
                Decision::Deny(format!(
                    "node {node:?} can only update the status of VIPs that are placed on it"
                ))
            }
        }
        // The name of a new object is not in the request: `check_node` sees the object itself.
        ("", "nodes", "") if wanted.verb == "create" => allow(),
        ("", "nodes", "" | "status") if write => {
            if wanted.name == node {
                allow()
            } else {
                Decision::Deny(format!("node {node:?} is not allowed to modify node {:?}", wanted.name))
            }
        }
        ("coordination.k8s.io", "leases", "") => lease(node, wanted),
        ("", "secrets" | "configmaps" | "persistentvolumeclaims", "") => referred(node, wanted, view),
        ("" | "events.k8s.io", "events", "") if matches!(wanted.verb, "create" | "update" | "patch") => {
            allow()
        }
        _ => Decision::Deny(String::new()),
    }
}

/// A node reads what its pods refer to, one object by its name at a time.
fn referred(node: &str, wanted: &Attributes<'_>, view: &View) -> Decision {
    if !matches!(wanted.verb, "get" | "list" | "watch") {
        return Decision::Deny("can only read resources of this type".to_owned());
    }
    if wanted.name.is_empty() || wanted.namespace.is_empty() {
        return Decision::Deny("can only read namespaced object of this type".to_owned());
    }
    if graph::is_referred_to(node, wanted, view) {
        return Decision::Allow(format!("node {node:?}"));
    }
    Decision::Deny(format!("no relationship found between node {node:?} and this object"))
}

fn lease(node: &str, wanted: &Attributes<'_>) -> Decision {
    let named = wanted.verb == "create" || is_lease_of(node, wanted.namespace, wanted.name);
    let own = named && [LEASE_NAMESPACE, AGENT_LEASE.0].contains(&wanted.namespace);
    if own && matches!(wanted.verb, "get" | "create" | "update" | "patch" | "delete") {
        return Decision::Allow(format!("node {node:?}"));
    }
    Decision::Deny(format!(
        "can only access node lease with the same name as the requesting node in the {LEASE_NAMESPACE:?} namespace"
    ))
}

/// Whether a Lease is the node's own or its VIP agent's.
fn is_lease_of(node: &str, namespace: &str, name: &str) -> bool {
    match namespace {
        LEASE_NAMESPACE => name == node,
        namespace if namespace == AGENT_LEASE.0 => name.strip_prefix(AGENT_LEASE.1) == Some(node),
        _ => false,
    }
}

/// Whether the VipAddress of the request is placed on the node.
fn holds_vip(node: &str, wanted: &Attributes<'_>, view: &View) -> bool {
    let resource = litek8s_store::GroupResource::new(VIP_GROUP, "vipaddresses");
    let key = ObjectKey::new(resource, wanted.namespace, wanted.name);
    let Some(object) = view.get(&key) else { return false };
    serde_json::from_slice::<Value>(&object.json).is_ok_and(|value| value["spec"]["node"] == node)
}

impl Authorizer {
    /// What a node may put into an object that it writes; users that are no nodes pass.
    ///
    /// `old` is the stored object, absent for a create; `new` the object to store.
    ///
    /// # Errors
    /// 403 when the object belongs to another node, or when it is the own Node and what is written of it is not the
    /// node's to say: which pods it repels, what it is chosen by, and with what it is deleted (CVE-2025-5187).
    pub fn check_node(
        &self,
        user: &UserInfo,
        group: &str,
        resource: &str,
        old: Option<&Value>,
        new: &Value,
    ) -> Result<(), Status> {
        let Some(node) = user.node_name() else { return Ok(()) };
        let name = new["metadata"]["name"].as_str().unwrap_or_default();
        let refuse = |why: String| Err(Status::forbidden(&GroupResource::new(group, resource), name, why));
        let own = match (group, resource) {
            ("", "nodes") => name == node,
            ("coordination.k8s.io", "leases") => {
                is_lease_of(node, new["metadata"]["namespace"].as_str().unwrap_or_default(), name)
            }
            _ => true,
        };
        if !own {
            return refuse(format!("node {node:?} is not allowed to write an object of another node"));
        }
        if (group, resource) != ("", "nodes") {
            return Ok(());
        }
        if let Some(label) = changed_protected_label(old, new) {
            return refuse(format!("node {node:?} is not allowed to set or change its label {label:?}"));
        }
        // A new node may repel pods: it is the only one who can do so in time.
        if old.is_some_and(|old| differs(old, new, "/spec/taints")) {
            return refuse(format!("node {node:?} is not allowed to modify taints"));
        }
        if differs(old.unwrap_or(&Value::Null), new, "/metadata/ownerReferences") {
            return refuse(format!("node {node:?} is not allowed to modify ownerReferences"));
        }
        Ok(())
    }
}

/// Whether the lists at a place differ; none is an empty one.
fn differs(old: &Value, new: &Value, pointer: &str) -> bool {
    let list = |object: &'_ Value| {
        object.pointer(pointer).and_then(Value::as_array).filter(|list| !list.is_empty()).cloned()
    };
    list(old) != list(new)
}

/// Whether a label is for administrators only.
fn is_protected(label: &str) -> bool {
    let prefix = label.split_once('/').map_or("", |(prefix, _)| prefix);
    let under = |domains: &[&str]| {
        domains.iter().any(|domain| {
            prefix.strip_suffix(domain).is_some_and(|front| front.is_empty() || front.ends_with('.'))
        })
    };
    let of_kubelet = under(&KUBELET) || KUBELET_LABELS.contains(&label);
    PROTECTED_LABELS.contains(&label) || (under(&KUBERNETES) && !of_kubelet)
}

fn changed_protected_label<'a>(old: Option<&'a Value>, new: &'a Value) -> Option<&'a str> {
    let labels = |object: &'a Value| object["metadata"]["labels"].as_object();
    let before = old.and_then(labels);
    let after = labels(new);
    let names = before.into_iter().chain(after).flat_map(|labels| labels.keys());
    names.map(String::as_str).find(|name| {
        is_protected(name) && before.and_then(|l| l.get(*name)) != after.and_then(|l| l.get(*name))
    })
}
