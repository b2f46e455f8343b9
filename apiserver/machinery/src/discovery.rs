//! Discovery: the documents that tell clients which groups, versions and resources there are. Deterministic: the same
//! resources give the same bytes.

mod aggregated;
mod version;

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use serde_json::{Value, json};

use crate::gvk::GroupVersion;
use crate::resource::{Resource, Subresource};

pub use aggregated::{aggregated, aggregated_resources};
pub use version::{compare as compare_versions, group_priority, priorities};

/// `/api`: the versions of the core group. `server` is the address clients see, as in `192.0.2.1:6443`.
pub fn core_versions(server: &str) -> Value {
    json!({
        "kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server}],
    })
}

/// `/apis`: all groups but the core one, most important first.
pub fn group_list(resources: &[Arc<Resource>]) -> Value {
    let groups: Vec<Value> = groups(resources)
        .into_iter()
        .filter(|(group, _)| !group.is_empty())
        .map(|(group, versions)| {
            let version =
                |version: &&str| json!({"groupVersion": format!("{group}/{version}"), "version": version});
            let all: Vec<Value> = versions.iter().map(version).collect();
            json!({"name": group, "preferredVersion": all.first(), "versions": all})
        })
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/GROUP`: one group; `None` when there is none.
pub fn group(name: &str, resources: &[Arc<Resource>]) -> Option<Value> {
    let list = group_list(resources);
    let mut found = list["groups"].as_array()?.iter().find(|group| group["name"] == name)?.clone();
    found["kind"] = json!("APIGroup");
    found["apiVersion"] = json!("v1");
    Some(found)
}

/// `/api/v1` or `/apis/GROUP/VERSION`: the resources of one version, subresources after theirs.
pub fn resource_list(version: &GroupVersion, resources: &[Arc<Resource>]) -> Value {
    let mut rows: BTreeMap<String, Value> = BTreeMap::new();
    for resource in of_version(version, resources) {
        rows.insert(resource.plural.to_string(), row(resource));
        for sub in &resource.subresources {
            rows.insert(format!("{}/{}", resource.plural, sub.name), sub_row(resource, sub));
        }
    }
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version.to_string(),
        "resources": rows.into_values().collect::<Vec<_>>(),
    })
}

fn of_version<'a>(
    version: &GroupVersion,
    resources: &'a [Arc<Resource>],
) -> impl Iterator<Item = &'a Arc<Resource>> {
    let version = version.clone();
    resources.iter().filter(move |one| one.group == version.group && one.version == version.version)
}

/// Groups in the order of their importance, each with its versions, the preferred one first.
fn groups(resources: &[Arc<Resource>]) -> Vec<(&str, Vec<&str>)> {
    let mut all: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for resource in resources {
        let versions = all.entry(&*resource.group).or_default();
        if !versions.contains(&&*resource.version) {
            versions.push(&*resource.version);
        }
    }
    let mut all: Vec<(&str, Vec<&str>)> = all.into_iter().collect();
    all.sort_by_key(|(group, _)| (std::cmp::Reverse(group_priority(group)), *group));
    for (_, versions) in &mut all {
        versions.sort_by(|a, b| version::compare(b, a));
    }
    all
}

fn row(resource: &Resource) -> Value {
    let mut row = json!({
        "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
        "kind": resource.kind, "verbs": resource.verbs,
    });
    if !resource.short_names.is_empty() {
        row["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        row["categories"] = json!(resource.categories);
    }
    if resource.has_verb("list") {
        row["storageVersionHash"] = json!(storage_version_hash(resource));
    }
    row
}

fn sub_row(resource: &Resource, sub: &Subresource) -> Value {
    let mut row = json!({
        "name": format!("{}/{}", resource.plural, sub.name), "singularName": "",
        "namespaced": resource.namespaced, "kind": sub.kind, "verbs": sub.verbs,
    });
    if sub.group != resource.group || sub.version != resource.version {
        row["group"] = json!(sub.group);
        row["version"] = json!(sub.version);
    }
    row
}

/// Eight bytes that change with the version objects are kept in; opaque to clients.
fn storage_version_hash(resource: &Resource) -> String {
    let kind = resource.stored.as_ref().map_or_else(|| resource.gvk(), |stored| stored.kind.clone());
    // FNV-1a: stable across builds and machines, and nothing secret is hashed.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in format!("{}/{}/{}", kind.group, kind.version, kind.kind).bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    base64::engine::general_purpose::STANDARD.encode(hash.to_be_bytes())
}

#[cfg(test)]
mod tests;
