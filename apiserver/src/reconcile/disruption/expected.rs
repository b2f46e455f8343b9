//! How many pods there should be: what the scales of their owners say, or simply those that are there.

use std::collections::BTreeMap;
use std::sync::Arc;

use litek8s_store::{Object, OwnerReference};
use serde_json::Value;

use super::super::facts::Facts;
use super::super::kind::Kind;
use super::super::pod::Pod;
use super::super::read;
use crate::endpoints::scale;
use crate::registry::Served;

/// What a budget counts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Expected {
    /// The pods there should be.
    pub(super) pods: i64,
    /// How many of them have to be healthy.
    pub(super) healthy: i64,
}

/// What a budget counts on, or why that cannot be told.
pub(super) fn expected(facts: &Facts<'_>, spec: &Value, pods: &[Pod<'_>]) -> Result<Expected, String> {
    let (unavailable, available) = (&spec["maxUnavailable"], &spec["minAvailable"]);
    if !unavailable.is_null() {
        let pods = scales(facts, pods)?;
        let healthy = (pods - read::share(unavailable, pods, true, 0)).max(0);
        return Ok(Expected { pods, healthy });
    }
    if let Some(healthy) = available.as_i64() {
        return Ok(Expected { pods: i64::try_from(pods.len()).unwrap_or(i64::MAX), healthy });
    }
    if available.is_null() {
        return Ok(Expected { pods: 0, healthy: 0 });
    }
    let pods = scales(facts, pods)?;
    Ok(Expected { pods, healthy: read::share(available, pods, true, 0) })
}

/// What the owners of the pods are scaled to, together. Pods that nobody controls do not count.
fn scales(facts: &Facts<'_>, pods: &[Pod<'_>]) -> Result<i64, String> {
    let mut scales: BTreeMap<&str, i64> = BTreeMap::new();
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    for pod in pods {
        let Some(owner) = pod.object.meta.controller() else { continue };
        if seen.contains_key(owner.uid.as_str()) {
            continue;
        }
        let (top, replicas) = scale_of(facts, pod.object, owner)?;
        seen.insert(&owner.uid, top);
        scales.insert(top, replicas);
    }
    Ok(scales.values().sum())
}

/// Who decides how many pods like this one there are, and how many that is: of a Deployment's ReplicaSets, the Deployment.
fn scale_of<'a>(facts: &Facts<'a>, pod: &Object, owner: &OwnerReference) -> Result<(&'a str, i64), String> {
    let (served, set) = find(facts, pod, owner)?;
    let missing = || format!("found no controllers for pod {:?}", pod.key.name);
    let set = set.ok_or_else(missing)?;
    if Kind::of_owner(owner) == Some(Kind::ReplicaSet)
        && let Some(above) = set.meta.controller().filter(|o| Kind::of_owner(o) == Some(Kind::Deployment))
        && let Ok((served, Some(deployment))) = find(facts, set, above)
    {
        return Ok((&deployment.meta.uid, replicas(served, deployment)?));
    }
    Ok((&set.meta.uid, replicas(served, set)?))
}

/// The object that a reference is to, if it is still that one.
fn find<'a>(
    facts: &Facts<'a>,
    of: &Object,
    owner: &OwnerReference,
) -> Result<(&'a Served, Option<&'a Arc<Object>>), String> {
    let (group, version) = owner.api_version.split_once('/').unwrap_or(("", &owner.api_version));
    let served = facts
        .table
        .by_kind(group, version, &owner.kind)
        .or_else(|| facts.table.by_kind(group, "", &owner.kind));
    let Some(served) = served else {
        return Err(format!("no matches for kind {:?} in version {:?}", owner.kind, owner.api_version));
    };
    let object = facts.view.get(&served.object_key(&of.key.namespace, &owner.name));
    Ok((served, object.filter(|object| object.meta.uid == owner.uid)))
}

fn replicas(served: &Served, object: &Arc<Object>) -> Result<i64, String> {
    let value = read::value(object).unwrap_or_default();
    scale::replicas(&served.resource, &value).ok_or_else(|| {
        let resource = &served.resource;
        let dot = if resource.group.is_empty() { "" } else { "." };
        format!("{}{dot}{} does not implement the scale subresource", resource.plural, resource.group)
    })
}
