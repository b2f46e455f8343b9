//! Bodies as they stand in an event.

use bytes::Bytes;
use litek8s_machinery::decode;
use litek8s_machinery::resource::type_of;
use serde_json::Value;

use crate::endpoints::{MAX_BODY, from_yaml};

/// The value of a body in any of the API's encodings; `None` when it is none or cannot be read.
pub(super) fn read(content_type: &str, body: &[u8]) -> Option<Value> {
    let media = content_type.split(';').next().unwrap_or_default().trim();
    match media {
        _ if body.is_empty() => None,
        "application/vnd.kubernetes.protobuf" => {
            decode::from_protobuf(&Bytes::copy_from_slice(body), &type_of).ok()
        }
        "application/yaml" | "application/apply-patch+yaml" => {
            let limits = decode::Limits { bytes: MAX_BODY, ..decode::Limits::default() };
            from_yaml(body, &limits).ok().map(|decoded| decoded.value)
        }
        _ => serde_json::from_slice(body).ok(),
    }
}

/// Takes `managedFields` out of an object and of a list's items.
pub(super) fn drop_managed_fields(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    for item in object.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten() {
        drop_managed_fields(item);
    }
}
