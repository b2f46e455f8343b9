//! Aggregated discovery, version 2: everything in one document.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::groups;
use crate::resource::{Resource, Subresource};

/// An `APIGroupDiscoveryList` of these resources.
pub fn aggregated(resources: &[Arc<Resource>]) -> Value {
    let items: Vec<Value> = groups(resources)
        .into_iter()
        .map(|(group, versions)| {
            let versions: Vec<Value> =
                versions.iter().map(|version| one_version(group, version, resources)).collect();
            let metadata = if group.is_empty() {
                json!({"creationTimestamp": null})
            } else {
                json!({"name": group, "creationTimestamp": null})
            };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    })
}

fn one_version(group: &str, version: &str, resources: &[Arc<Resource>]) -> Value {
    let rows: BTreeMap<&str, Value> = resources
        .iter()
        .filter(|one| &*one.group == group && &*one.version == version)
        .map(|resource| (&*resource.plural, row(resource)))
        .collect();
    json!({"version": version, "resources": rows.into_values().collect::<Vec<_>>(), "freshness": "Current"})
}

fn row(resource: &Resource) -> Value {
    let scope = if resource.namespaced { "Namespaced" } else { "Cluster" };
    let mut row = json!({
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "scope": scope, "singularResource": resource.singular, "verbs": resource.verbs,
    });
    for (field, names) in [("shortNames", &resource.short_names), ("categories", &resource.categories)] {
        if !names.is_empty() {
            row[field] = json!(names);
        }
    }
    if !resource.subresources.is_empty() {
        row["subresources"] = resource.subresources.iter().map(sub_row).collect();
    }
    row
}

fn sub_row(sub: &Subresource) -> Value {
    json!({
        "subresource": sub.name, "verbs": sub.verbs,
        "responseKind": {"group": sub.group, "version": sub.version, "kind": sub.kind},
    })
}
