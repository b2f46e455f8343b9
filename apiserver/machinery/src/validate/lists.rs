//! Lists that are sets or maps hold every item or key once.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::full;
use crate::field::{FieldError, Path};
use crate::schema::{ListType, Schema};

/// Appends a duplicate for each value that stands more than once.
pub(super) fn check(schema: &Schema, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if full(errors) {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(of) = schema.field(name) {
                    let at = if schema.property(name).is_some() { path.child(name) } else { path.key(name) };
                    check(of, value, &at, errors);
                }
            }
        }
        Value::Array(items) => {
            match &schema.list {
                ListType::Unsaid | ListType::Atomic => {}
                ListType::Set => unique(items.iter().cloned(), path, errors),
                ListType::Map { keys } => {
                    let odd = items.iter().position(|item| !item.is_object() && !item.is_null());
                    if let Some(at) = odd {
                        let detail = "must be an object for an array of list-type map";
                        errors.push(FieldError::invalid(path.index(at), items[at].clone(), detail));
                        return;
                    }
                    unique(items.iter().map(|item| key(item, keys)), path, errors);
                }
            }
            if let Some(of) = schema.item() {
                for (at, item) in items.iter().enumerate() {
                    check(of, item, &path.index(at), errors);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn key(item: &Value, keys: &[std::sync::Arc<str>]) -> Value {
    let one = |name: &std::sync::Arc<str>| Some((name.to_string(), item.get(&**name)?.clone()));
    Value::Object(keys.iter().filter_map(one).collect::<Map<_, _>>())
}

/// The first repetition of each value is an error; further ones are not.
fn unique(values: impl Iterator<Item = Value>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for (at, value) in values.enumerate() {
        let times = seen.entry(value.to_string()).or_default();
        *times += 1;
        if *times == 2 && !full(errors) {
            errors.push(FieldError::duplicate(path.index(at), value));
        }
    }
}
