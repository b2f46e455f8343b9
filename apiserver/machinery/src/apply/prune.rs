//! Removing what an applier named before, names no longer, and nobody else owns.

use serde_json::{Map, Value};

use super::compare::field_set;
use super::shape::{Shape, element, field, shape};
use crate::managed::{FieldSet, Managers, PathElement};
use crate::schema::{Schema, Type};

/// `merged` without what `last` named and no manager of `managers` owns.
pub(super) fn prune(schema: &Schema, merged: Value, managers: &Managers, last: &FieldSet) -> Value {
    let named = |set: &FieldSet| with_named_fields(Some(schema), set, true);
    let last = named(last);
    let all = named(&field_set(schema, &merged));
    let owned = managers.owners.values().fold(FieldSet::default(), |all, owned| all.union(&owned.fields));

    let pruned = without(schema, &merged, &last);
    let kept = named(&field_set(schema, &pruned)).union(&named(&owned));
    let pruned = without(schema, &merged, &all.difference(&kept));
    // Only what this applier had named may go: the rest dangles, and stays.
    let kept = named(&field_set(schema, &pruned));
    without(schema, &merged, &all.difference(&kept).intersection(&last))
}

fn without(schema: &Schema, object: &Value, items: &FieldSet) -> Value {
    remove(Some(schema), object, items, true)
}

/// The value without the fields of the set. What it empties stays, empty: its own removal would be in the set.
fn remove(schema: Option<&Schema>, value: &Value, items: &FieldSet, is_root: bool) -> Value {
    match (shape(schema, Some(value)), value) {
        (Shape::Map(schema), Value::Object(fields)) => {
            let mut left = Map::new();
            for (name, value) in fields {
                let step = PathElement::field(name);
                if items.members().contains(&step) {
                    continue;
                }
                let kept = match items.below(&step) {
                    Some(below) => remove(field(schema, name, is_root).0, value, below, false),
                    None => value.clone(),
                };
                left.insert(name.clone(), kept);
            }
            Value::Object(left)
        }
        (Shape::List(list), Value::Array(elements)) => {
            let kept = elements.iter().filter_map(|item| {
                let Ok(step) = element(list, item) else { return Some(item.clone()) };
                if items.members().contains(&step) {
                    return None;
                }
                Some(match items.below(&step) {
                    Some(below) => remove(list.item(), item, below, false),
                    None => item.clone(),
                })
            });
            Value::Array(kept.collect())
        }
        _ => value.clone(),
    }
}

/// The set with every declared field on the way to a member as a member too.
fn with_named_fields(schema: Option<&Schema>, set: &FieldSet, is_root: bool) -> FieldSet {
    let mut result = FieldSet::default();
    for member in set.members() {
        result.insert(std::slice::from_ref(member));
    }
    let known = schema.filter(|s| s.ty != Type::Any);
    for (step, below) in set.children() {
        let (child, declared) = match step {
            PathElement::Field(name) => field(known, name, is_root),
            PathElement::Key(_) => (known.and_then(Schema::item), false),
            PathElement::Value(_) | PathElement::Index(_) => (None, false),
        };
        if declared {
            result.insert(std::slice::from_ref(step));
        }
        result.adopt(step.clone(), with_named_fields(child, below, false));
    }
    result
}
