//! What of a quota is used up, counted over all objects of its namespace.

use std::collections::BTreeSet;

use litek8s_store::{GroupResource, Object, View};
use serde_json::{Value, json};

use super::super::amount::{self, Amounts};
use super::{scope, usage};

/// Everything that the quota counts, as it is in `view`: its status.
pub(crate) fn status(view: &View, namespace: &str, quota: &Value) -> Value {
    let spec = &quota["spec"];
    let hard = spec["hard"].as_object();
    let mut used = Amounts::new();
    let counted: BTreeSet<GroupResource> =
        hard.into_iter().flatten().map(|(name, _)| counted(name)).collect();
    for resource in &counted {
        amount::add(&mut used, &of_resource(view, namespace, spec, resource));
    }
    let mut shown = json!({});
    for (name, limit) in hard.into_iter().flatten() {
        let amount = used.get(name).copied().unwrap_or(0);
        shown[name.as_str()] = json!(amount::show(amount, limit.as_str().unwrap_or_default()));
    }
    json!({"hard": spec["hard"], "used": shown})
}

/// What the objects of a resource use, those that the quota covers.
pub(super) fn of_resource(view: &View, namespace: &str, spec: &Value, resource: &GroupResource) -> Amounts {
    let mut used = Amounts::new();
    for object in view.list(resource, Some(namespace)) {
        // All others are only counted.
        let value = if is_measured(resource) { parsed(object) } else { Value::Null };
        if scope::covers(spec, resource, &value) {
            amount::add(&mut used, &usage::of(resource, &value));
        }
    }
    used
}

/// Whether a change of an object can be one of what it uses.
pub(crate) fn is_recounted(before: &Object, after: &Object) -> bool {
    let resource = &after.key.resource;
    if !is_measured(resource) {
        return false;
    }
    let (before, after) = (parsed(before), parsed(after));
    usage::of(resource, &before) != usage::of(resource, &after)
        || before["spec"]["activeDeadlineSeconds"] != after["spec"]["activeDeadlineSeconds"]
}

fn parsed(object: &Object) -> Value {
    serde_json::from_slice(&object.json).unwrap_or_default()
}

/// Whether what an object says decides how much it uses.
fn is_measured(resource: &GroupResource) -> bool {
    resource.group.is_empty() && matches!(&*resource.resource, "pods" | "services" | "persistentvolumeclaims")
}

/// The resource whose objects are counted under a name of a quota.
fn counted(name: &str) -> GroupResource {
    if let Some(name) = name.strip_prefix("count/") {
        let (resource, group) = name.split_once('.').unwrap_or((name, ""));
        return GroupResource::new(group, resource);
    }
    let resource = match name {
        "services" | "services.nodeports" | "services.loadbalancers" => "services",
        "requests.storage" => "persistentvolumeclaims",
        name if name.contains(".storageclass.storage.k8s.io/") => "persistentvolumeclaims",
        name if usage::COUNTED.contains(&name) => name,
        _ => "pods",
    };
    GroupResource::new("", resource)
}
