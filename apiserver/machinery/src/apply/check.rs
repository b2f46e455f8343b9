//! What an applied configuration must be before it is merged: of the right version, and of the schema's types.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::Writer;
use super::shape::{element, field};
use crate::managed::{PathElement, path_text};
use crate::schema::{MapType, Schema, Type, Wire};
use crate::status::Status;

pub(super) fn body(schema: &Schema, applied: &Value, writer: &Writer<'_>) -> Result<(), Status> {
    if !applied.is_object() {
        return Err(Status::bad_request("the applied configuration must be an object"));
    }
    let version = applied.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    if version != writer.api_version {
        return Err(Status::bad_request(format!(
            "Incorrect version specified in apply patch. Specified patch version: {version}, expected: {}",
            writer.api_version
        )));
    }
    if applied.pointer("/metadata/managedFields").is_some_and(|m| !m.is_null()) {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    fields(schema, applied).map_err(Status::bad_request)
}

/// Whether all of it is of the schema's types.
pub(super) fn fields(schema: &Schema, applied: &Value) -> Result<(), String> {
    let mut found = Vec::new();
    check(Some(schema), applied, &mut Vec::new(), &mut found);
    let text = match found.len() {
        0 => return Ok(()),
        1 => found.remove(0),
        _ => format!("errors:\n  {}", found.join("\n  ")),
    };
    Err(format!("failed to create typed patch object ({}): {text}", named(applied)))
}

/// The paths of lists and maps in `applied` that are merged as one.
pub(super) fn wholes(schema: &Schema, applied: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect_wholes(Some(schema), applied, &mut Vec::new(), &mut found);
    found
}

fn collect_wholes(
    schema: Option<&Schema>,
    value: &Value,
    path: &mut Vec<PathElement>,
    found: &mut Vec<String>,
) {
    let Some(known) = schema.filter(|schema| schema.ty != Type::Any) else { return };
    if let Value::Object(fields) = value {
        if known.ty == Type::Object && known.map == MapType::Atomic {
            found.push(path_text(path));
        }
        for (name, value) in fields {
            let (child, _) = field(Some(known), name, path.is_empty());
            path.push(PathElement::field(name));
            collect_wholes(child, value, path, found);
            path.pop();
        }
    } else if let Value::Array(items) = value {
        if known.ty == Type::Array && known.list.is_atomic() {
            found.push(path_text(path));
        }
        for (index, item) in items.iter().enumerate() {
            path.push(PathElement::Index(i64::try_from(index).unwrap_or(i64::MAX)));
            collect_wholes(known.item(), item, path, found);
            path.pop();
        }
    }
}

fn named(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    format!("{namespace}/{name}; {}, Kind={}", text("/apiVersion"), text("/kind"))
}

fn check(schema: Option<&Schema>, value: &Value, path: &mut Vec<PathElement>, found: &mut Vec<String>) {
    let Some(known) = schema.filter(|s| s.ty != Type::Any) else { return };
    if value.is_null() {
        return;
    }
    let (fits, expected) = match known.ty {
        Type::Any => (true, ""),
        Type::Boolean => (value.is_boolean(), "boolean"),
        Type::Integer | Type::Number => (value.is_number(), "numeric (int or float)"),
        Type::String => (value.is_string() || (known.wire == Wire::Quantity && value.is_number()), "string"),
        Type::IntOrString => (value.is_string() || value.is_number(), "any scalar"),
        Type::Object => (value.is_object(), "map"),
        Type::Array => (value.is_array(), "list"),
    };
    if !fits {
        found.push(format!("{}: expected {expected}, got {}", path_text(path), go_type(value)));
        return;
    }
    if let Value::Object(fields) = value {
        check_fields(known, fields, path, found);
    } else if let Value::Array(items) = value {
        check_items(known, items, path, found);
    }
}

fn check_fields(
    schema: &Schema,
    fields: &Map<String, Value>,
    path: &mut Vec<PathElement>,
    found: &mut Vec<String>,
) {
    let open = schema.additional.is_some() || schema.preserve_unknown;
    for (name, value) in fields {
        let (child, declared) = field(Some(schema), name, path.is_empty());
        path.push(PathElement::field(name));
        if declared || open {
            check(child, value, path, found);
        } else {
            found.push(format!("{}: field not declared in schema", path_text(path)));
        }
        path.pop();
    }
}

fn check_items(schema: &Schema, items: &[Value], path: &mut Vec<PathElement>, found: &mut Vec<String>) {
    let keyed = !schema.list.is_atomic();
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let step = if keyed {
            match element(schema, item) {
                Ok(step) => step,
                Err(text) => {
                    found.push(format!("{}: element {index}: {text}", path_text(path)));
                    return;
                }
            }
        } else {
            PathElement::Index(i64::try_from(index).unwrap_or(i64::MAX))
        };
        if keyed && !seen.insert(step.clone()) {
            found.push(format!("{}: duplicate entries for key {}", path_text(path), step.text()));
        }
        path.push(step);
        check(schema.item(), item, path, found);
        path.pop();
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
