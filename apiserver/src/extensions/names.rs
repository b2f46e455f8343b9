//! The names of a definition: which of them are accepted beside those of the other definitions of its group.

use std::collections::BTreeSet;

use litek8s_store::{GroupResource, View};
use serde_json::{Map, Value, json};

use super::{Condition, DEFINITIONS, is_condition_true, set_condition};
use crate::endpoints::metadata;

/// Names in use by other definitions of a group.
#[derive(Debug, Default)]
pub(super) struct Taken {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

impl Taken {
    /// Adds what another definition has been granted.
    pub(super) fn add(&mut self, definition: &Value) {
        let Some(accepted) = definition.pointer("/status/acceptedNames") else { return };
        let text = |name: &str| {
            accepted.get(name).and_then(Value::as_str).filter(|t| !t.is_empty()).map(str::to_owned)
        };
        self.resources.extend(text("plural").into_iter().chain(text("singular")));
        self.resources.extend(strings(accepted, "shortNames"));
        self.kinds.extend(text("kind").into_iter().chain(text("listKind")));
    }
}

fn strings(names: &Value, field: &str) -> Vec<String> {
    let list = names.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
    list.into_iter().filter_map(|v| v.as_str().map(str::to_owned)).collect()
}

/// Settles the names of a definition beside the others of its group in `view`.
pub(crate) fn settle_among(view: &View, definition: &mut Value, now: &str) {
    let group = definition.pointer("/spec/group").and_then(Value::as_str).unwrap_or_default().to_owned();
    let name = metadata::text(definition, "name").to_owned();
    let (api_group, _, plural) = DEFINITIONS;
    let mut taken = Taken::default();
    for other in view.list(&GroupResource::new(api_group, plural), None) {
        // The name of a definition ends with its group: only those of this one are parsed.
        let of_group = other.key.name.split_once('.').is_some_and(|(_, of)| of == group);
        if of_group
            && *other.key.name != *name
            && let Ok(other) = serde_json::from_slice(&other.json)
        {
            taken.add(&other);
        }
    }
    settle(definition, &taken, now);
}

/// Settles `status.acceptedNames`, `NamesAccepted` and `Established`.
///
/// A definition is served as soon as its write is answered, so names that are accepted establish it at once.
pub(super) fn settle(definition: &mut Value, taken: &Taken, now: &str) {
    let wanted = definition.pointer("/spec/names").cloned().unwrap_or_else(|| json!({}));
    let granted = definition.pointer("/status/acceptedNames").cloned().unwrap_or_else(|| json!({}));
    let mut accepted = granted.as_object().cloned().unwrap_or_default();
    let mut conflict = None;
    for (field, reason, used) in [
        ("plural", "PluralConflict", &taken.resources),
        ("singular", "SingularConflict", &taken.resources),
        ("kind", "KindConflict", &taken.kinds),
        ("listKind", "ListKindConflict", &taken.kinds),
    ] {
        let name = wanted.get(field).and_then(Value::as_str).unwrap_or_default();
        if granted.get(field).and_then(Value::as_str) != Some(name) && used.contains(name) {
            conflict = Some((reason, format!("{name:?} is already in use")));
        } else {
            set(&mut accepted, field, (!name.is_empty()).then(|| json!(name)));
        }
    }
    let (short, had) = (strings(&wanted, "shortNames"), strings(&granted, "shortNames"));
    let clashes: Vec<String> = short
        .iter()
        .filter(|name| !had.contains(name) && taken.resources.contains(*name))
        .map(|name| format!("{name:?} is already in use"))
        .collect();
    match clashes.as_slice() {
        [] => set(&mut accepted, "shortNames", (!short.is_empty()).then(|| json!(short))),
        [one] => conflict = Some(("ShortNamesConflict", one.clone())),
        many => conflict = Some(("ShortNamesConflict", format!("[{}]", many.join(", ")))),
    }
    let categories = strings(&wanted, "categories");
    set(&mut accepted, "categories", (!categories.is_empty()).then(|| json!(categories)));
    metadata::object(definition, "status")["acceptedNames"] = Value::Object(accepted);
    set_conditions(definition, conflict, now);
}

fn set(names: &mut Map<String, Value>, field: &str, value: Option<Value>) {
    match value {
        Some(value) => names.insert(field.to_owned(), value),
        None => names.remove(field),
    };
}

fn set_conditions(definition: &mut Value, conflict: Option<(&str, String)>, now: &str) {
    let holds = conflict.is_none();
    let (reason, message) = conflict.unwrap_or_else(|| ("NoConflicts", "no conflicts found".to_owned()));
    set_condition(definition, &Condition { ty: "NamesAccepted", holds, reason, message: &message }, now);
    if is_condition_true(definition, "Established") {
        return;
    }
    let established = if holds {
        Condition {
            ty: "Established",
            holds: true,
            reason: "InitialNamesAccepted",
            message: "the initial names have been accepted",
        }
    } else {
        Condition {
            ty: "Established",
            holds: false,
            reason: "NotAccepted",
            message: "not all names are accepted",
        }
    };
    set_condition(definition, &established, now);
}
