//! Strategic merge patch: merging maps, and the directives `$patch`, `$retainKeys`, `$deleteFromPrimitiveList/…` and
//! `$setElementOrder/…`. Lists are in `list`.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::list::{self, Order};
use super::{MAX_DEPTH, PatchError, depth};
use crate::schema::Schema;

pub(super) const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const SET_ORDER: &str = "$setElementOrder/";

pub(super) type Fields = Map<String, Value>;

/// What the schema says about patching one field.
#[derive(Clone, Copy, Default)]
pub(super) struct Rule<'a> {
    /// Schema of the field, or of a list's elements.
    pub(super) schema: Option<&'a Schema>,
    pub(super) merge_key: Option<&'a str>,
    pub(super) merge: bool,
    pub(super) replace: bool,
}

pub(super) fn apply(schema: &Schema, current: &Value, patch: &Value) -> Result<Value, PatchError> {
    let (Value::Object(current), Value::Object(patch)) = (current, patch) else {
        return Err(PatchError::Malformed("invalid JSON document".to_owned()));
    };
    if patch.values().map(depth).max().unwrap_or(0) >= MAX_DEPTH {
        return Err(PatchError::Malformed(format!("the patch is nested deeper than {MAX_DEPTH} levels")));
    }
    merge_map(current.clone(), patch.clone(), Some(schema)).map(Value::Object)
}

/// The rule for the field `name` of an object of this schema.
fn rule<'a>(schema: Option<&'a Schema>, name: &str, is_list: bool) -> Rule<'a> {
    let Some(schema) = schema else { return Rule::default() };
    let Some(field) = schema.field(name) else { return Rule::default() };
    let mut rule = Rule { schema: if is_list { field.item() } else { Some(field) }, ..Rule::default() };
    if let Some(patch) = schema.property(name).and_then(|p| p.patch.as_deref()) {
        rule.merge_key = patch.merge_key.as_deref();
        rule.merge = patch.merge;
        rule.replace = patch.replace;
    }
    rule
}

/// Merges `patch` into `original`.
pub(super) fn merge_map(
    mut original: Fields,
    mut patch: Fields,
    schema: Option<&Schema>,
) -> Result<Fields, PatchError> {
    if let Some(directive) = patch.remove(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => Ok(patch),
            Some("delete") => Ok(Fields::new()),
            _ => Err(unknown_directive(&directive, &patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    set_element_orders(&mut original, &mut patch, schema)?;
    for (name, change) in patch {
        merge_field(&mut original, &name, change, schema)?;
    }
    Ok(original)
}

fn merge_field(
    original: &mut Fields,
    name: &str,
    change: Value,
    schema: Option<&Schema>,
) -> Result<(), PatchError> {
    let (name, deletes) = match name.strip_prefix(DELETE_FROM) {
        Some(field) => (field, true),
        None if name == DELETE_FROM.trim_end_matches('/') => {
            return Err(PatchError::Malformed("invalid patch format of primitive list".to_owned()));
        }
        None => (name, false),
    };
    if change.is_null() {
        original.remove(name);
        return Ok(());
    }
    let next = match (original.remove(name), change) {
        (Some(Value::Object(current)), Value::Object(change)) => {
            let rule = rule(schema, name, false);
            if rule.replace {
                Some(Value::Object(change))
            } else {
                Some(Value::Object(merge_map(current, change, rule.schema)?))
            }
        }
        (Some(Value::Array(current)), Value::Array(change)) => {
            let rule = rule(schema, name, true);
            if rule.merge || deletes {
                Some(Value::Array(list::merge(current, change, rule, deletes)?))
            } else {
                Some(Value::Array(change))
            }
        }
        (current, _) if deletes => current,
        (_, change) => without_directives(without_nulls(change)),
    };
    if let Some(next) = next {
        original.insert(name.to_owned(), next);
    }
    Ok(())
}

/// `$retainKeys`: fields of the original that the list does not name go; the patch may set only what it names.
fn retain_keys(original: &mut Fields, patch: &mut Fields) -> Result<(), PatchError> {
    let Some(directive) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let malformed = || PatchError::Malformed("invalid patch format of retainKeys".to_owned());
    let Value::Array(names) = directive else { return Err(malformed()) };
    let names: BTreeSet<&str> = names.iter().filter_map(Value::as_str).collect();
    let retained = |name: &str| names.contains(name);
    let foreign = patch.iter().any(|(name, value)| {
        !value.is_null() && !name.starts_with(DELETE_FROM) && !name.starts_with(SET_ORDER) && !retained(name)
    });
    if foreign {
        return Err(malformed());
    }
    original.retain(|name, _| retained(name));
    Ok(())
}

/// `$setElementOrder/field`: merges the field's list and puts it into that order, the server's own items between.
fn set_element_orders(
    original: &mut Fields,
    patch: &mut Fields,
    schema: Option<&Schema>,
) -> Result<(), PatchError> {
    let directives: Vec<String> = patch.keys().filter(|k| k.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let malformed = || PatchError::Malformed("invalid patch format of setElementOrder list".to_owned());
        let name = &directive[SET_ORDER.len()..];
        let Some(Value::Array(order)) = patch.remove(&directive) else { return Err(malformed()) };
        let as_list = |value: Option<Value>| match value {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(_) => Err(malformed()),
        };
        let change = as_list(patch.remove(name))?;
        let current = as_list(original.get(name).cloned())?;
        let rule = rule(schema, name, true);
        list::check_order(change.as_deref().unwrap_or_default(), &order, rule.merge_key, &directive)?;
        let server_order = current.clone().unwrap_or_default();
        let merged = match (current, change) {
            (None, None) => continue,
            (Some(current), None) => current,
            (None, Some(change)) => change.into_iter().filter_map(without_directives).collect(),
            (Some(current), Some(change)) if rule.merge => list::merge(current, change, rule, false)?,
            (Some(_), Some(change)) => change,
        };
        let wanted = Order::of(&order, rule.merge_key)?;
        let ordered = list::ordered(merged, &wanted, &Order::of(&server_order, rule.merge_key)?)?;
        original.insert(name.to_owned(), Value::Array(ordered));
    }
    Ok(())
}

/// The value to store for something new: directives mean nothing there, and a `$patch` item is no item.
pub(super) fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(DIRECTIVE) => None,
        Value::Object(fields) => {
            let directive = |name: &str| {
                name == RETAIN_KEYS || name.starts_with(SET_ORDER) || name.starts_with(DELETE_FROM)
            };
            let kept = fields
                .into_iter()
                .filter(|(name, _)| !directive(name))
                .filter_map(|(name, value)| Some((name, without_directives(value)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(without_directives).collect())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(value),
    }
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k, without_nulls(v))).collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

pub(super) fn unknown_directive(directive: &Value, map: &Fields) -> PatchError {
    let mut map = map.clone();
    map.insert(DIRECTIVE.to_owned(), directive.clone());
    PatchError::Malformed(format!(
        "unknown patch type: {} in map: {}",
        printed(directive),
        printed(&Value::Object(map))
    ))
}

/// A value the way Go prints it, for texts that clients know.
pub(super) fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(items) => format!("[{}]", items.iter().map(printed).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let fields: Vec<String> = fields.iter().map(|(k, v)| format!("{k}:{}", printed(v))).collect();
            format!("map[{}]", fields.join(" "))
        }
    }
}
