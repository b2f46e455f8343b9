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

/// The resources of an `APIResourceList` as aggregated discovery has them; `None` when it is no such list.
///
/// A subresource of a resource that is not listed has one made for it, with no verbs.
pub fn aggregated_resources(list: &Value, group: &str, version: &str) -> Option<Vec<Value>> {
    let rows = list["resources"].as_array()?;
    let mut all: BTreeMap<&str, Value> = BTreeMap::new();
    let or = |value: &Value, default: &str| {
        let text = value.as_str().filter(|text| !text.is_empty()).unwrap_or(default);
        json!(text)
    };
    let kind = |row: &Value| json!({"group": or(&row["group"], group), "version": or(&row["version"], version), "kind": row["kind"]});
    let verbs = |row: &Value| if row["verbs"].is_array() { row["verbs"].clone() } else { json!([]) };
    let scope = |row: &Value| if row["namespaced"] == true { "Namespaced" } else { "Cluster" };
    for row in rows {
        let name = row["name"].as_str()?;
        if name.contains('/') {
            continue;
        }
        let mut shown = json!({
            "resource": name, "responseKind": kind(row), "scope": scope(row),
            "singularResource": or(&row["singularName"], ""), "verbs": verbs(row),
        });
        for field in ["shortNames", "categories"] {
            if row[field].as_array().is_some_and(|names| !names.is_empty()) {
                shown[field] = row[field].clone();
            }
        }
        all.insert(name, shown);
    }
    for row in rows {
        let Some((parent, name)) = row["name"].as_str().and_then(|name| name.split_once('/')) else {
            continue;
        };
        let shown = all.entry(parent).or_insert_with(
            || json!({"resource": parent, "scope": scope(row), "singularResource": "", "verbs": []}),
        );
        if !shown["subresources"].is_array() {
            shown["subresources"] = json!([]);
        }
        let sub = json!({"subresource": name, "responseKind": kind(row), "verbs": verbs(row)});
        shown["subresources"].as_array_mut()?.push(sub);
    }
    Some(all.into_values().collect())
}
