//! The live object with the applied configuration laid over it; nothing is removed here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::shape::{Shape, element, field, shape};
use crate::managed::PathElement;
use crate::schema::{Schema, Type};

/// `live` with every field of `applied`.
pub(super) fn merge(schema: &Schema, live: &Value, applied: &Value) -> Result<Value, String> {
    let merged = merge_value(Some(schema), Some(live), Some(applied), true)?;
    Ok(merged.unwrap_or_else(|| Value::Object(Map::new())))
}

fn merge_value(
    schema: Option<&Schema>,
    live: Option<&Value>,
    applied: Option<&Value>,
    is_root: bool,
) -> Result<Option<Value>, String> {
    match shape(schema, applied.or(live)) {
        Shape::Map(schema) => {
            let fields = |v: Option<&Value>| v.and_then(Value::as_object).filter(|f| !f.is_empty()).cloned();
            let (old, new) = (fields(live), fields(applied));
            if old.is_none() && new.is_none() {
                return Ok(applied.or(live).cloned());
            }
            merge_fields(schema, old.unwrap_or_default(), new.unwrap_or_default(), is_root)
        }
        Shape::List(list) => {
            let items = |v: Option<&Value>| v.and_then(Value::as_array).cloned().unwrap_or_default();
            let (old, new) = (items(live), items(applied));
            if old.is_empty() && new.is_empty() {
                return Ok(applied.or(live).cloned());
            }
            merge_items(list, &old, &new)
        }
        Shape::Leaf => Ok(applied.or(live).cloned()),
    }
}

fn merge_fields(
    schema: Option<&Schema>,
    live: Map<String, Value>,
    applied: Map<String, Value>,
    is_root: bool,
) -> Result<Option<Value>, String> {
    let mut merged = Map::new();
    let names: BTreeSet<&String> = live.keys().chain(applied.keys()).collect();
    for name in names {
        let (child, _) = field(schema, name, is_root);
        if let Some(value) = merge_value(child, live.get(name), applied.get(name), false)? {
            merged.insert(name.clone(), value);
        }
    }
    Ok((!merged.is_empty()).then_some(Value::Object(merged)))
}

/// Merges keyed elements: shared ones in the applied order, live-only ones at their places among them.
fn merge_items(list: &Schema, live: &[Value], applied: &[Value]) -> Result<Option<Value>, String> {
    let steps = |items: &[Value]| -> Result<Vec<PathElement>, String> {
        items
            .iter()
            .enumerate()
            .map(|(i, item)| element(list, item).map_err(|e| format!("element {i}: {e}")))
            .collect()
    };
    let (old_steps, new_steps) = (steps(live)?, steps(applied)?);
    let mut old: BTreeMap<&PathElement, Option<&Value>> = BTreeMap::new();
    for (step, item) in old_steps.iter().zip(live) {
        // Duplicates are not merged into: the applied element takes their place.
        old.entry(step).and_modify(|known| *known = None).or_insert(Some(item));
    }
    let mut new: BTreeMap<&PathElement, &Value> = BTreeMap::new();
    for (step, item) in new_steps.iter().zip(applied) {
        if new.insert(step, item).is_some() {
            return Err(format!("duplicate entries for key {}", step.text()));
        }
    }
    let mut shared: VecDeque<&PathElement> = new_steps.iter().filter(|s| old.contains_key(s)).collect();
    let mut next_shared = shared.pop_front();
    let mut merged_already: BTreeSet<&PathElement> = BTreeSet::new();
    let mut merged = Vec::with_capacity(live.len().max(applied.len()));
    let (mut l, mut r) = (0, 0);
    while l < old_steps.len() || r < new_steps.len() {
        if let (Some(step), Some(applied_step)) = (old_steps.get(l), new_steps.get(r)) {
            if step == applied_step {
                merged_already.insert(step);
                let item = merge_value(
                    list.item(),
                    old.get(step).copied().flatten(),
                    new.get(step).copied(),
                    false,
                )?;
                merged.extend(item);
                (l, r) = (l + 1, r + 1);
                next_shared = shared.pop_front();
                continue;
            }
            if new.contains_key(step) && next_shared.is_some_and(|next| next != step) {
                l += 1;
                continue;
            }
        }
        if let (Some(step), Some(item)) = (old_steps.get(l), live.get(l)) {
            if !new.contains_key(step) {
                merged.push(item.clone());
                l += 1;
                continue;
            }
            if merged_already.contains(step) {
                l += 1;
            }
        }
        if let Some(step) = new_steps.get(r) {
            merged_already.insert(step);
            let item =
                merge_value(list.item(), old.get(step).copied().flatten(), new.get(step).copied(), false)?;
            merged.extend(item);
            r += 1;
            if next_shared == Some(step) {
                next_shared = shared.pop_front();
            }
        }
    }
    Ok((!merged.is_empty()).then_some(Value::Array(merged)))
}

/// Takes away `null` where the schema gives it no meaning of its own: it says that the field is absent.
pub(super) fn drop_nulls(schema: Option<&Schema>, value: &mut Value, is_root: bool) {
    if let Value::Object(fields) = value {
        fields.retain(|name, value| {
            let (child, _) = field(schema, name, is_root);
            drop_nulls(child, value, false);
            !(value.is_null() && child.is_some_and(|c| c.ty != Type::Any && !c.nullable))
        });
    } else if let Value::Array(items) = value {
        let item = schema.and_then(Schema::item);
        for value in items {
            drop_nulls(item, value, false);
        }
    }
}
