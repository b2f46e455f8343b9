//! LimitRanges: what containers of a namespace get when they say nothing, and how much they may say. As `LimitRanger`
//! upstream.

use litek8s_store::GroupResource;
use serde_json::{Map, Value, json};

use super::amount::{self, Amounts, show};
use super::attributes::{Attributes, Operation};
use crate::endpoints::metadata;
use crate::response::Failure;

/// Says what was filled in.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// The limits of all LimitRanges of the namespace.
fn items(attributes: &Attributes<'_>) -> Vec<Value> {
    let cx = attributes.cx;
    if cx.namespace.is_empty() {
        return Vec::new();
    }
    let ranges = cx.view.list(&GroupResource::new("", "limitranges"), Some(cx.namespace));
    let items = ranges.flat_map(|range| {
        let value: Value = serde_json::from_slice(&range.json).unwrap_or_default();
        value["spec"]["limits"].as_array().cloned().unwrap_or_default()
    });
    items.collect()
}

fn is(attributes: &Attributes<'_>, plural: &str) -> bool {
    attributes.cx.resource.group.is_empty()
        && *attributes.cx.resource.plural == *plural
        && attributes.cx.subresource.is_empty()
}

/// Fills in what a new pod's containers do not say.
pub(super) fn fill(attributes: &Attributes<'_>, object: &mut Value) {
    if attributes.operation != Operation::Create || !is(attributes, "pods") {
        return;
    }
    let (mut requests, mut limits) = (Map::new(), Map::new());
    for item in items(attributes).iter().filter(|item| item["type"] == "Container") {
        for (target, fields) in [
            (&mut limits, &["default", "max"][..]),
            (&mut requests, &["defaultRequest", "default", "max", "min"]),
        ] {
            for field in fields {
                for (name, value) in item[*field].as_object().into_iter().flatten() {
                    target.entry(name.clone()).or_insert_with(|| value.clone());
                }
            }
        }
    }
    let mut said = Vec::new();
    for list in ["initContainers", "containers"] {
        let containers = object.get_mut("spec").and_then(|spec| spec.get_mut(list));
        for container in containers.and_then(Value::as_array_mut).into_iter().flatten() {
            let name = container["name"].as_str().unwrap_or_default().to_owned();
            for (field, word, defaults) in [("requests", "request", &requests), ("limits", "limit", &limits)]
            {
                let set = fill_one(container, field, defaults);
                if !set.is_empty() {
                    said.push(format!("{} {word} for container {name}", set.join(", ")));
                }
            }
        }
    }
    if !said.is_empty() {
        let annotations = metadata::object(metadata::object(object, "metadata"), "annotations");
        annotations[ANNOTATION] = json!(format!("LimitRanger plugin set: {}", said.join("; ")));
    }
}

fn fill_one(container: &mut Value, field: &str, defaults: &Map<String, Value>) -> Vec<String> {
    let given = container["resources"].get(field);
    let missing: Vec<_> = defaults
        .iter()
        .filter(|(name, _)| given.and_then(|given| given.get(name.as_str())).is_none())
        .collect();
    if missing.is_empty() {
        if let Some(map) = container.as_object_mut() {
            map.retain(|_, value| !value.is_null());
        }
        return Vec::new();
    }
    let slot = metadata::object(metadata::object(container, "resources"), field);
    for (name, value) in &missing {
        slot[name.as_str()] = (*value).clone();
    }
    missing.into_iter().map(|(name, _)| name.clone()).collect()
}

/// 403 for a pod or a claim outside the limits.
pub(super) fn check(attributes: &Attributes<'_>, object: &Value) -> Result<(), Failure> {
    let pod = is(attributes, "pods") && attributes.operation == Operation::Create;
    let claim = is(attributes, "persistentvolumeclaims");
    if !pod && !claim {
        return Ok(());
    }
    let mut errors = Vec::new();
    for item in &items(attributes) {
        let spec = &object["spec"];
        match item["type"].as_str() {
            Some("Container") if pod => {
                for (_, container) in amount::containers(spec) {
                    let resources = &container["resources"];
                    let of = |field: &str| amount::all(&resources[field]);
                    within(item, "Container", &of("requests"), &of("limits"), &mut errors);
                }
            }
            Some("Pod") if pod => {
                let of = |field: &str| amount::of_pod(spec, field);
                within(item, "Pod", &of("requests"), &of("limits"), &mut errors);
            }
            Some("PersistentVolumeClaim") if claim => {
                let requests = amount::all(&spec["resources"]["requests"]);
                within(item, "PersistentVolumeClaim", &requests, &requests, &mut errors);
            }
            _ => {}
        }
    }
    match errors.as_slice() {
        [] => Ok(()),
        [one] => Err(attributes.forbidden(one)),
        many => Err(attributes.forbidden(format!("[{}]", many.join(", ")))),
    }
}

fn within(item: &Value, kind: &str, requests: &Amounts, limits: &Amounts, errors: &mut Vec<String>) {
    let bounds = |field: &str| item[field].as_object().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    for (name, bound) in bounds("min") {
        let (least, like) = (amount::of(&bound).unwrap_or(0), text(&bound));
        let told = format!("minimum {name} usage per {kind} is {like}");
        match (requests.get(&name), limits.get(&name)) {
            (None, _) => errors.push(format!("{told}.  No request is specified")),
            (Some(given), _) if *given < least => {
                errors.push(format!("{told}, but request is {}", show(*given, &like)));
            }
            (_, Some(given)) if *given < least => {
                errors.push(format!("{told}, but limit is {}", show(*given, &like)));
            }
            _ => {}
        }
    }
    for (name, bound) in bounds("max") {
        let (most, like) = (amount::of(&bound).unwrap_or(0), text(&bound));
        let told = format!("maximum {name} usage per {kind} is {like}");
        match (limits.get(&name), requests.get(&name)) {
            (None, _) => errors.push(format!("{told}.  No limit is specified")),
            (Some(given), _) if *given > most => {
                errors.push(format!("{told}, but limit is {}", show(*given, &like)));
            }
            (_, Some(given)) if *given > most => {
                errors.push(format!("{told}, but request is {}", show(*given, &like)));
            }
            _ => {}
        }
    }
    for (name, bound) in bounds("maxLimitRequestRatio") {
        let told = format!("{name} max limit to request ratio per {kind} is {}", text(&bound));
        let most = amount::of(&bound).unwrap_or(0);
        match (requests.get(&name).filter(|r| **r != 0), limits.get(&name).filter(|l| **l != 0)) {
            (None, _) => errors.push(format!("{told}, but no request is specified or request is 0")),
            (_, None) => errors.push(format!("{told}, but no limit is specified or limit is 0")),
            (Some(request), Some(limit)) => {
                let ratio = limit.saturating_mul(amount::ONE) / request;
                if ratio > most {
                    #[expect(clippy::cast_precision_loss, reason = "only shown, with six digits")]
                    let ratio = ratio as f64 / amount::ONE as f64;
                    errors.push(format!("{told}, but provided ratio is {ratio:.6}"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
