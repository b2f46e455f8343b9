//! The way from client-side to server-side apply: the annotation `kubectl apply` leaves, and its taking over.

use serde_json::{Value, json};

use super::compare::{compare, field_set};
use crate::managed::FieldSet;
use crate::schema::Schema;

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// All annotations of an object together.
const MAX_ANNOTATION_BYTES: usize = 256 * 1024;

fn annotation(object: &Value) -> Option<&str> {
    object.get("metadata")?.get("annotations")?.get(ANNOTATION)?.as_str().filter(|text| !text.is_empty())
}

/// The fields that client-side apply set and that are still as it set them; server-side apply may take them.
pub(super) fn owned_by_client_side_apply(
    schema: &Schema,
    live: &Value,
    api_version: &str,
) -> Option<FieldSet> {
    let last: Value = serde_json::from_str(annotation(live)?).ok()?;
    if last.get("apiVersion").and_then(Value::as_str) != Some(api_version) {
        return None;
    }
    let comparison = compare(schema, &last, live);
    let changed = comparison.written().union(&comparison.removed);
    Some(field_set(schema, &last).difference(&changed))
}

/// Keeps the annotation in step, so that client-side apply can still be used afterwards.
pub(super) fn sync(object: &mut Value, applied: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut last = applied.clone();
    if let Some(annotations) = last.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(ANNOTATION);
    }
    let text = format!("{last}\n");
    let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) else {
        return;
    };
    annotations.insert(ANNOTATION.to_owned(), json!(text));
    let size: usize = annotations.iter().map(|(k, v)| k.len() + v.as_str().map_or(0, str::len)).sum();
    if size > MAX_ANNOTATION_BYTES {
        annotations.remove(ANNOTATION);
    }
}
