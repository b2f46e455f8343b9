//! Defaults: what an absent field gets, from the schema and, for built-in types, from the rows of
//! `types/defaults.txt`; last the zero values that are always written. Applying twice is applying once.

mod rule;
mod special;

use serde_json::{Map, Value};

use crate::schema::{Property, Schema};

pub use rule::DefaultRule;

const ROWS: &str = include_str!("types/defaults.txt");

/// The rows of a type, in their order.
pub(crate) fn rules(ty: &str) -> Vec<DefaultRule> {
    let rows = ROWS.lines().filter_map(|line| line.strip_prefix(ty)?.strip_prefix(' '));
    rows.filter_map(DefaultRule::parse).collect()
}

/// Fills in what is absent: outer objects first, then what is in them.
pub fn apply(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(fields) => apply_object(schema, fields),
        Value::Array(items) => {
            let Some(of) = schema.item() else { return };
            for item in items {
                replace_null(of, item);
                apply(of, item);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn apply_object(schema: &Schema, fields: &mut Map<String, Value>) {
    for (name, property) in &schema.properties {
        let Some(default) = property.default() else { continue };
        let absent = match fields.get(&**name) {
            None => true,
            Some(value) => value.is_null() && !property.schema.get().nullable,
        };
        if absent {
            fields.insert(name.to_string(), default.clone());
        }
    }
    for rule in &schema.defaulting {
        rule.apply(fields);
    }
    for name in &schema.required {
        let Some(written) = schema.property(name).and_then(Property::written) else { continue };
        let place = fields.entry(&**name).or_insert(Value::Null);
        if place.is_null() {
            *place = written;
        }
    }
    for (name, value) in fields.iter_mut() {
        let Some(of) = schema.field(name) else { continue };
        if schema.property(name).is_none() {
            replace_null(of, value);
        }
        apply(of, value);
    }
}

/// The empty object of a built-in type as Go writes it: with the structs that are no pointers, and the fields that are
/// always written. Field managers own only what differs from it. Empty for custom resources.
pub fn zero(schema: &Schema) -> Value {
    let mut fields = Map::new();
    for (name, property) in &schema.properties {
        let value = match property.default() {
            Some(Value::Object(default)) if default.is_empty() && property.number > 0 => {
                zero(property.schema.get())
            }
            _ => match property.written() {
                Some(value) => value,
                None => continue,
            },
        };
        fields.insert(name.to_string(), value);
    }
    Value::Object(fields)
}

/// A `null` where none may be is the default, where there is one.
fn replace_null(schema: &Schema, value: &mut Value) {
    if value.is_null()
        && !schema.nullable
        && let Some(default) = &schema.default
    {
        *value = (**default).clone();
    }
}

/// Removes every `null` of a property that is not nullable and has a default left to fill it, and every other one that
/// is not nullable: what a custom resource's defaulting starts from.
pub fn drop_nulls(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| match schema.property(name) {
                Some(property) => !value.is_null() || property.schema.get().nullable,
                None => true,
            });
            for (name, value) in fields.iter_mut() {
                if let Some(of) = schema.field(name) {
                    drop_nulls(of, value);
                }
            }
        }
        Value::Array(items) => {
            if let Some(of) = schema.item() {
                items.iter_mut().for_each(|item| drop_nulls(of, item));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests;
