//! Reading and writing `metadata` of an object held as JSON; never validates it.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Map, Value};

/// A string of the metadata, empty when missing.
pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get("metadata").and_then(|m| m.get(field)).and_then(Value::as_str).unwrap_or_default()
}

/// A value of the metadata that is there and not null.
pub(crate) fn field<'a>(object: &'a Value, field: &str) -> Option<&'a Value> {
    object.get("metadata").and_then(|m| m.get(field)).filter(|v| !v.is_null())
}

/// The object under `name`, made one when it is missing or something else.
pub(crate) fn object<'a>(parent: &'a mut Value, name: &str) -> &'a mut Value {
    if !parent.is_object() {
        *parent = Value::Object(Map::new());
    }
    let slot = &mut parent[name];
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    slot
}

/// Sets a field, or removes it for `None`.
pub(crate) fn set(object: &mut Value, field: &str, value: Option<Value>) {
    let Some(metadata) = self::object(object, "metadata").as_object_mut() else { return };
    match value {
        Some(value) => metadata.insert(field.to_owned(), value),
        None => metadata.remove(field),
    };
}

/// The finalizers.
pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    let list = field(object, "finalizers").and_then(Value::as_array);
    list.map(|l| l.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

/// Whether deletion was asked for.
pub(crate) fn is_deleting(object: &Value) -> bool {
    field(object, "deletionTimestamp").is_some()
}

/// The seconds of grace a deleting object has left to it by its deletion.
pub(crate) fn grace_period(object: &Value) -> Option<i64> {
    field(object, "deletionGracePeriodSeconds").and_then(Value::as_i64)
}

/// A time as Kubernetes writes it: whole seconds, UTC.
pub(crate) fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Increases `generation`, if the object has one.
pub(crate) fn bump_generation(object: &mut Value) {
    let generation = field(object, "generation").and_then(Value::as_i64).unwrap_or(0);
    if generation > 0 {
        set(object, "generation", Some(Value::from(generation + 1)));
    }
}

/// Owner references that say the same twice are said once, with a warning.
pub(crate) fn drop_duplicate_owners(object: &mut Value, warnings: &crate::request::Warnings) {
    let Some(list) = field(object, "ownerReferences").and_then(Value::as_array) else { return };
    let mut seen = BTreeSet::new();
    let (kept, repeated): (Vec<&Value>, Vec<&Value>) =
        list.iter().partition(|owner| seen.insert(owner.to_string()));
    let kept: Vec<Value> = kept.into_iter().cloned().collect();
    let duplicates: Vec<&str> = repeated.iter().filter_map(|owner| owner["uid"].as_str()).collect();
    if duplicates.is_empty() {
        return;
    }
    warnings.add(format!(
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may \
         reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        duplicates.join(", ")
    ));
    set(object, "ownerReferences", Some(Value::Array(kept)));
}
