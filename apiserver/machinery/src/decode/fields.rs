//! What a schema makes of the fields of a value: which are unknown, which are pruned, which mean nothing.

use serde_json::{Map, Value};

use super::scalars;
use crate::field::Path;
use crate::schema::{Property, Schema, SchemaRef, Type, Zero};

/// Unknown fields beyond this many are not listed, as kube-apiserver has it.
const MAX_UNKNOWN: usize = 100;

/// The paths of the first fields that the schema does not know, in order.
pub fn unknown_fields(schema: &Schema, value: &Value) -> Vec<String> {
    let mut out = Vec::new();
    unknown(schema, value, &Path::root(), &mut out);
    out
}

fn unknown(schema: &Schema, value: &Value, path: &Path<'_>, out: &mut Vec<String>) {
    if out.len() >= MAX_UNKNOWN {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let here = path.child(name);
                match known(schema, name) {
                    Known::As(schema) => unknown(schema, value, &here, out),
                    Known::Kept => {}
                    Known::Not if out.len() < MAX_UNKNOWN => out.push(here.to_string()),
                    Known::Not => return,
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.item() {
                for (at, item) in items.iter().enumerate() {
                    unknown(schema, item, &path.index(at), out);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// What a schema says of a field's name.
enum Known<'a> {
    As(&'a Schema),
    Kept,
    Not,
}

fn known<'a>(schema: &'a Schema, name: &str) -> Known<'a> {
    if let Some(schema) = schema.field(name) {
        return Known::As(schema);
    }
    if schema.embedded_resource {
        match name {
            "apiVersion" | "kind" => return Known::Kept,
            "metadata" => return object_meta().map_or(Known::Kept, Known::As),
            _ => {}
        }
    }
    if schema.preserve_unknown { Known::Kept } else { Known::Not }
}

fn object_meta() -> Option<&'static Schema> {
    crate::schema::TypeName::find("meta/v1.ObjectMeta").map(crate::schema::TypeName::schema)
}

/// Removes every field that the schema does not know. Idempotent.
pub fn prune(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(fields) => fields.retain(|name, value| match known(schema, name) {
            Known::As(schema) => {
                prune(schema, value);
                true
            }
            Known::Kept => true,
            Known::Not => false,
        }),
        Value::Array(items) => {
            if let Some(schema) = schema.item() {
                items.iter_mut().for_each(|item| prune(schema, item));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Brings an object of a built-in type into the form that upstream's structs would give back: quantities and times in
/// their one notation, no `null`, and no zero values of fields in which they mean the same as absent. Idempotent. Not for custom resources, where zero values are values.
pub fn normalize(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(fields) => normalize_object(schema, fields),
        Value::Array(items) => {
            if let Some(schema) = schema.item() {
                items.iter_mut().for_each(|item| normalize(schema, item));
            }
        }
        Value::Number(_) | Value::String(_) => scalars::normalize(schema.wire, value),
        Value::Null | Value::Bool(_) => {}
    }
}

fn normalize_object(schema: &Schema, fields: &mut Map<String, Value>) {
    if schema.properties.is_empty() {
        if let Some(of) = schema.additional.as_ref().map(SchemaRef::get) {
            for value in fields.values_mut() {
                if value.is_null() && of.ty == Type::String {
                    *value = Value::from("");
                }
                normalize(of, value);
            }
        }
        return;
    }
    fields.retain(|name, value| match schema.property(name) {
        Some(property) => {
            normalize(property.schema.get(), value);
            !means_absent(property, value)
        }
        None => true,
    });
}

fn means_absent(property: &Property, value: &Value) -> bool {
    if value.is_null() {
        return true;
    }
    property.zero == Zero::Absent
        && match value {
            Value::Null => true,
            Value::Bool(value) => !value,
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
        }
}
