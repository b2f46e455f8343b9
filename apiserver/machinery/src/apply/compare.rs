//! The fields an object mentions, and the fields in which two objects differ.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::Writer;
use super::shape::{Shape, element, field, shape};
use crate::managed::{FieldSet, PathElement, same_value};
use crate::schema::Schema;

/// Every leaf, list element and map entry that `object` mentions.
pub(super) fn field_set(schema: &Schema, object: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    mention(Some(schema), object, &mut Vec::new(), &mut set);
    set
}

fn mention(schema: Option<&Schema>, value: &Value, path: &mut Vec<PathElement>, set: &mut FieldSet) {
    match (shape(schema, Some(value)), value) {
        (Shape::Map(schema), Value::Object(fields)) => {
            for (name, value) in fields {
                let (child, declared) = field(schema, name, path.is_empty());
                path.push(PathElement::field(name));
                mention(child, value, path, set);
                let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                if empty || !declared {
                    set.insert(path);
                }
                path.pop();
            }
        }
        (Shape::List(list), Value::Array(items)) => {
            let steps: Vec<(PathElement, &Value)> =
                items.iter().filter_map(|item| Some((element(list, item).ok()?, item))).collect();
            let mut count: BTreeMap<&PathElement, usize> = BTreeMap::new();
            for (step, _) in &steps {
                *count.entry(step).or_default() += 1;
            }
            for (step, item) in &steps {
                path.push(step.clone());
                // Elements of one key are owned together, without what is in them.
                if count.get(step) == Some(&1) {
                    mention(list.item(), item, path, set);
                }
                set.insert(path);
                path.pop();
            }
        }
        (Shape::Leaf, _) => set.insert(path),
        (Shape::Map(_) | Shape::List(_), _) => {}
    }
}

/// The fields in which two objects differ; no field is in two of the sets.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) removed: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) added: FieldSet,
}

impl Comparison {
    /// Leaves only fields that the writer's door can change.
    pub(super) fn filtered(self, writer: &Writer<'_>) -> Self {
        Comparison {
            removed: writer.visible(self.removed),
            modified: writer.visible(self.modified),
            added: writer.visible(self.added),
        }
    }

    /// Added or modified.
    pub(super) fn written(&self) -> FieldSet {
        self.modified.union(&self.added)
    }
}

/// What changes from `before` to `after`.
pub(super) fn compare(schema: &Schema, before: &Value, after: &Value) -> Comparison {
    let mut walk = Walk::default();
    walk.value(Some(schema), Some(before), Some(after));
    walk.found
}

#[derive(Default)]
struct Walk {
    path: Vec<PathElement>,
    found: Comparison,
}

impl Walk {
    fn value(&mut self, schema: Option<&Schema>, before: Option<&Value>, after: Option<&Value>) {
        let (old, new) = (shape(schema, before), shape(schema, after));
        let is_leaf = match (before, after) {
            (None, None) => return,
            (Some(_), None) => self.shaped(old, before, after),
            (None, Some(_)) => self.shaped(new, before, after),
            (Some(_), Some(_)) => {
                if !old.same_kind(&new) {
                    self.shaped(old, before, after);
                }
                self.shaped(new, before, after)
            }
        };
        if !is_leaf {
            self.note_presence(before, after);
        }
    }

    fn note_presence(&mut self, before: Option<&Value>, after: Option<&Value>) {
        if before.is_none() {
            self.found.added.insert(&self.path);
        } else if after.is_none() {
            self.found.removed.insert(&self.path);
        }
    }

    /// Compares as the shape says; true when the values count as one leaf.
    fn shaped(&mut self, shape: Shape<'_>, before: Option<&Value>, after: Option<&Value>) -> bool {
        match shape {
            Shape::Map(schema) => {
                let fields =
                    |v: Option<&Value>| v.and_then(Value::as_object).filter(|f| !f.is_empty()).cloned();
                let (old, new) = (fields(before), fields(after));
                if old.is_none() && new.is_none() {
                    return self.leaf(before, after);
                }
                self.fields(schema, &old.unwrap_or_default(), &new.unwrap_or_default());
            }
            Shape::List(list) => {
                let items = |v: Option<&Value>| v.and_then(Value::as_array).cloned().unwrap_or_default();
                let (old, new) = (items(before), items(after));
                if old.is_empty() && new.is_empty() {
                    return self.leaf(before, after);
                }
                self.items(list, &old, &new);
            }
            Shape::Leaf => return self.leaf(before, after),
        }
        false
    }

    fn leaf(&mut self, before: Option<&Value>, after: Option<&Value>) -> bool {
        match (before, after) {
            (Some(old), Some(new)) if !same_value(old, new) => self.found.modified.insert(&self.path),
            _ => self.note_presence(before, after),
        }
        true
    }

    fn fields(&mut self, schema: Option<&Schema>, before: &Map<String, Value>, after: &Map<String, Value>) {
        let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        for name in names {
            let (child, _) = field(schema, name, self.path.is_empty());
            self.path.push(PathElement::field(name));
            self.value(child, before.get(name), after.get(name));
            self.path.pop();
        }
    }

    fn items(&mut self, list: &Schema, before: &[Value], after: &[Value]) {
        let mut elements: BTreeMap<PathElement, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for item in before {
            if let Ok(step) = element(list, item) {
                elements.entry(step).or_default().0.push(item);
            }
        }
        for item in after {
            if let Ok(step) = element(list, item) {
                elements.entry(step).or_default().1.push(item);
            }
        }
        for (step, (old, new)) in elements {
            self.path.push(step);
            match (old.as_slice(), new.as_slice()) {
                ([] | [_], [] | [_]) => self.value(list.item(), old.first().copied(), new.first().copied()),
                ([_, _, ..], [_, _, ..]) => {
                    if old.len() != new.len() || old.iter().zip(&new).any(|(a, b)| !same_value(a, b)) {
                        self.found.modified.insert(&self.path);
                    }
                }
                ([_, _, ..], one) => {
                    if let Some(item) = one.first() {
                        self.value(list.item(), None, Some(item));
                    }
                    self.found.removed.insert(&self.path);
                }
                (one, [_, _, ..]) => {
                    if let Some(item) = one.first() {
                        self.value(list.item(), Some(item), None);
                    }
                    self.found.added.insert(&self.path);
                }
            }
            self.path.pop();
        }
    }
}
