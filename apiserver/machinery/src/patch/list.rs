//! Lists of a strategic merge patch: merging by key, deleting, and the order of the result.
//!
//! The order is the patch's; items that only the server knows keep their places between, by their order before.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::PatchError;
use super::strategic::{DIRECTIVE, Fields, Rule, merge_map, printed, unknown_directive};

/// Where each element stands in a list, by its merge key or, for scalars, its value. The first of equals counts.
pub(super) struct Order<'a> {
    places: BTreeMap<String, usize>,
    merge_key: Option<&'a str>,
}

impl<'a> Order<'a> {
    pub(super) fn of(items: &[Value], merge_key: Option<&'a str>) -> Result<Self, PatchError> {
        let mut places = BTreeMap::new();
        for (index, item) in items.iter().enumerate() {
            places.entry(identity(item, merge_key)?).or_insert(index);
        }
        Ok(Order { places, merge_key })
    }

    fn place(&self, item: &Value) -> Result<Option<usize>, PatchError> {
        Ok(self.places.get(&identity(item, self.merge_key)?).copied())
    }
}

/// What makes two elements the same one.
fn identity(item: &Value, merge_key: Option<&str>) -> Result<String, PatchError> {
    let Some(key) = merge_key else { return Ok(item.to_string()) };
    let Value::Object(fields) = item else {
        return Err(PatchError::Malformed(format!(
            "expected a map[string]interface {{}}, but received {}",
            printed(item)
        )));
    };
    fields.get(key).map(Value::to_string).ok_or_else(|| no_merge_key(fields, key))
}

fn no_merge_key(fields: &Fields, key: &str) -> PatchError {
    PatchError::Malformed(format!(
        "map: {} does not contain declared merge key: {key}",
        printed(&Value::Object(fields.clone()))
    ))
}

/// Merges `patch` into `original`; with `deletes`, removes its scalars instead.
pub(super) fn merge(
    original: Vec<Value>,
    patch: Vec<Value>,
    rule: Rule<'_>,
    deletes: bool,
) -> Result<Vec<Value>, PatchError> {
    let Some(first) = original.first().or(patch.first()) else { return Ok(original) };
    if original.iter().chain(&patch).any(Value::is_array) {
        return Err(PatchError::DoesNotApply("lists of lists are not supported".to_owned()));
    }
    let of_maps = first.is_object();
    if original.iter().chain(&patch).any(|item| std::mem::discriminant(item) != std::mem::discriminant(first))
    {
        let both = [Value::Array(original), Value::Array(patch)];
        return Err(PatchError::Malformed(format!(
            "list element types are not identical: {}",
            printed(&Value::Array(both.to_vec()))
        )));
    }
    if of_maps {
        return merge_maps(original, patch, rule);
    }
    let patched = Order::of(&patch, None)?;
    if deletes {
        return Ok(original
            .into_iter()
            .filter(|item| !patched.places.contains_key(&item.to_string()))
            .collect());
    }
    let before = Order::of(&original, None)?;
    let mut merged = BTreeMap::new();
    let mut unique = Vec::new();
    for item in original.into_iter().chain(patch) {
        if merged.insert(item.to_string(), ()).is_none() {
            unique.push(item);
        }
    }
    ordered(unique, &patched, &before)
}

fn merge_maps(original: Vec<Value>, patch: Vec<Value>, rule: Rule<'_>) -> Result<Vec<Value>, PatchError> {
    let Some(key) = rule.merge_key else {
        return Err(PatchError::Malformed("cannot merge lists without merge key".to_owned()));
    };
    let (mut merged, changes) = split_directives(original, patch, key)?;
    let before = Order { places: places(&merged, key), merge_key: Some(key) };
    let mut known = before.places.clone();
    let order = Order::of(&changes, Some(key))?;
    for change in changes {
        let Value::Object(change) = change else { continue };
        let id = change.get(key).map(Value::to_string).ok_or_else(|| no_merge_key(&change, key))?;
        match known.get(&id).and_then(|&at| merged.get_mut(at)) {
            Some(slot) => {
                if let Value::Object(current) = slot.take() {
                    *slot = Value::Object(merge_map(current, change, rule.schema)?);
                }
            }
            None => {
                known.insert(id, merged.len());
                merged.push(Value::Object(change));
            }
        }
    }
    ordered(merged, &order, &before)
}

/// Elements of the live list by key; one without the key is nobody's.
fn places(items: &[Value], key: &str) -> BTreeMap<String, usize> {
    let mut places = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        if let Some(value) = item.get(key) {
            places.entry(value.to_string()).or_insert(index);
        }
    }
    places
}

/// Carries out the `$patch` elements of a list: what is left to merge, and into what.
fn split_directives(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let mut changes = Vec::new();
    let mut deleted = BTreeSet::new();
    let mut replaces = false;
    for item in patch {
        let Value::Object(fields) = &item else { continue };
        match fields.get(DIRECTIVE).map(Value::as_str) {
            None => changes.push(item),
            Some(Some("delete")) => {
                let value = fields.get(key).ok_or_else(|| no_merge_key(fields, key))?;
                deleted.insert(value.to_string());
            }
            Some(Some("replace")) => replaces = true,
            Some(Some("merge")) => {
                return Err(PatchError::Malformed(
                    "merging lists cannot yet be specified in the patch".to_owned(),
                ));
            }
            Some(_) => {
                let directive = fields.get(DIRECTIVE).cloned().unwrap_or_default();
                return Err(unknown_directive(&directive, fields));
            }
        }
    }
    if replaces {
        return Ok((changes, Vec::new()));
    }
    if !deleted.is_empty() {
        original.retain(|item| item.get(key).is_none_or(|value| !deleted.contains(&value.to_string())));
    }
    Ok((original, changes))
}

/// Puts `items` into the order of the patch, the others between by their order before.
pub(super) fn ordered(
    items: Vec<Value>,
    patch: &Order<'_>,
    before: &Order<'_>,
) -> Result<Vec<Value>, PatchError> {
    let mut patched = Vec::new();
    let mut server_only = Vec::new();
    for item in items {
        match patch.place(&item)? {
            Some(place) => patched.push((place, before.place(&item)?, item)),
            None => server_only.push((before.place(&item)?, item)),
        }
    }
    patched.sort_by_key(|(place, _, _)| *place);
    server_only.sort_by_key(|(place, _)| place.unwrap_or(usize::MAX));
    let mut result = Vec::with_capacity(patched.len() + server_only.len());
    let mut patched = patched.into_iter().peekable();
    let mut server_only = server_only.into_iter().peekable();
    loop {
        let server_first = match (server_only.peek(), patched.peek()) {
            (None, None) => return Ok(result),
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some((left, _)), Some((_, right, _))) => matches!((left, right), (Some(l), Some(r)) if l < r),
        };
        let next = if server_first { server_only.next().map(|n| n.1) } else { patched.next().map(|n| n.2) };
        result.extend(next);
    }
}

/// The items of the patch must stand in the order that the directive names.
pub(super) fn check_order(
    patch: &[Value],
    order: &[Value],
    merge_key: Option<&str>,
    directive: &str,
) -> Result<(), PatchError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut wanted = order.iter();
    for item in patch.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        let id = identity(item, merge_key)?;
        loop {
            let Some(next) = wanted.next() else {
                return Err(PatchError::Malformed(format!(
                    "The order in patch list:\n{}\n doesn't match {} list:\n{}\n",
                    printed(&Value::Array(patch.to_vec())),
                    directive.split('/').next().unwrap_or_default(),
                    printed(&Value::Array(order.to_vec()))
                )));
            };
            if identity(next, merge_key)? == id {
                break;
            }
        }
    }
    Ok(())
}
