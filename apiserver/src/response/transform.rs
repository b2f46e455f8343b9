//! Objects to the forms a client can ask for: themselves, their metadata, or rows of a table; never a media type.

use bytes::Bytes;
use litek8s_machinery::resource::Resource;
use litek8s_machinery::status::Status;
use litek8s_machinery::table::IncludeObject;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Failure;

/// The metadata of an object, read without building the rest of it.
#[derive(Deserialize)]
struct OnlyMetadata {
    #[serde(default)]
    metadata: Value,
}

/// The object as `PartialObjectMetadata`.
pub(crate) fn partial_object(json: &[u8]) -> Result<Bytes, Failure> {
    let read: OnlyMetadata = serde_json::from_slice(json)
        .map_err(|error| Status::internal(format!("the stored object cannot be read: {error}")))?;
    Ok(Bytes::from(partial(read.metadata).to_string()))
}

/// The object as `PartialObjectMetadata`, of a value at hand.
pub(crate) fn partial_value(mut object: Value) -> Value {
    partial(object["metadata"].take())
}

fn partial(metadata: Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}

/// The objects as a `Table`; `metadata` is the list's, or the object's own for one row.
pub(crate) fn table(
    resource: &Resource,
    objects: &[Value],
    include: IncludeObject,
    now: jiff::Timestamp,
    metadata: Value,
) -> Value {
    let references: Vec<&Value> = objects.iter().collect();
    let mut table = litek8s_machinery::table::table(resource, &references, include, now);
    if let Some(map) = table.as_object_mut() {
        map.insert("metadata".to_owned(), metadata);
    }
    table
}
