//! Objects as rows of a table, as `kubectl get` prints them: columns of paths, ages and the printers of built-in kinds.

mod age;
mod event;
mod network;
mod pod;
mod printer;
mod workload;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::jsonpath;
use crate::resource::{Column, ColumnSource, Resource};

pub use age::{human_duration, since};

/// How much of an object stands beside its cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// Its metadata, as a `PartialObjectMetadata`.
    #[default]
    Metadata,
    /// The object.
    Object,
}

/// A `Table` of meta.k8s.io/v1. Its metadata is empty: a list's resource version is the caller's to set.
pub fn table(resource: &Resource, objects: &[&Value], include: IncludeObject, now: Timestamp) -> Value {
    let definitions: Vec<Value> = resource.columns.iter().map(definition).collect();
    let rows: Vec<Value> = objects.iter().map(|object| row(resource, object, include, now)).collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {},
        "columnDefinitions": definitions, "rows": rows,
    })
}

fn definition(column: &Column) -> Value {
    json!({
        "name": column.name, "type": column.ty, "format": column.format,
        "description": column.description, "priority": column.priority,
    })
}

fn row(resource: &Resource, object: &Value, include: IncludeObject, now: Timestamp) -> Value {
    let cells: Vec<Value> = resource.columns.iter().map(|column| cell(column, object, now)).collect();
    let mut row = json!({"cells": cells});
    if let Some(conditions) = pod::conditions(resource, object) {
        row["conditions"] = conditions;
    }
    match include {
        IncludeObject::None => {}
        IncludeObject::Object => row["object"] = object.clone(),
        IncludeObject::Metadata => {
            row["object"] = json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
            });
        }
    }
    row
}

fn cell(column: &Column, object: &Value, now: Timestamp) -> Value {
    match &column.source {
        ColumnSource::Age => Value::from(since(object.pointer("/metadata/creationTimestamp"), now)),
        ColumnSource::Printer(name) => printer::print(name, object, now),
        ColumnSource::Path { path, absent } => {
            let found = path.find(object);
            match found.as_slice() {
                [] | [Value::Null] => nothing(column, absent),
                [one] => typed(column, one, now),
                several => Value::from(jsonpath::joined(several)),
            }
        }
    }
}

/// The cell of a path that leads nowhere: what the column says, or nothing at all.
fn nothing(column: &Column, absent: &str) -> Value {
    match &*column.ty {
        "integer" => absent.parse::<i64>().map_or(Value::Null, Value::from),
        "boolean" => absent.parse::<bool>().map_or(Value::Null, Value::from),
        _ if absent.is_empty() => Value::Null,
        _ => Value::from(absent),
    }
}

fn typed(column: &Column, value: &Value, now: Timestamp) -> Value {
    match (&*column.ty, value) {
        ("integer", Value::Number(number)) => number
            .as_i64()
            .map(Value::from)
            .or_else(|| number.as_f64().map(|number| Value::from(number.trunc())))
            .unwrap_or(Value::Null),
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("integer" | "number" | "boolean", _) => Value::Null,
        // Creation times of roles and definitions stand as they are; other dates are ages.
        ("date", Value::String(text)) if &*column.name == "Created At" => Value::from(text.as_str()),
        ("date", value) => Value::from(since(Some(value), now)),
        (_, value) => Value::from(jsonpath::text(value)),
    }
}

#[cfg(test)]
mod tests;
