//! Who owns what after a write.

use super::Writer;
use super::compare::{Comparison, compare};
use super::conflict::Conflict;
use super::shape::field;
use crate::managed::{FieldSet, Managers, Operation, Owned, OwnerId, PathElement};
use crate::schema::{MapType, Schema, Type};
use serde_json::Value;

/// Fields of metadata that the server sets or that name the object: nobody owns them.
const UNOWNED: [&str; 9] = [
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
];

/// The managers after an update that turned `live` into `new`: the writer owns what it changed, nobody what is gone.
pub(super) fn after_update(
    schema: &Schema,
    live: &Value,
    new: &Value,
    mut managers: Managers,
    writer: &Writer<'_>,
) -> Managers {
    reconcile(schema, &mut managers);
    let comparison = compare(schema, live, new).filtered(writer);
    let written = comparison.written().difference(&unowned());
    for owned in managers.owners.values_mut() {
        owned.fields = owned.fields.difference(&comparison.written()).difference(&comparison.removed);
    }
    managers.drop_empty();
    if !written.is_empty() {
        let owner = writer.owner(Operation::Update);
        let before = managers.owners.get(&owner).map(|owned| written.union(&owned.fields));
        let fields = before.unwrap_or(written);
        let owned = Owned { fields, api_version: writer.api_version.to_owned(), time: Some(writer.time()) };
        managers.owners.insert(owner, owned);
    }
    managers
}

/// Fields that others own and that this write changes.
pub(super) fn conflicts(managers: &Managers, comparison: &Comparison, writer: &OwnerId) -> Vec<Conflict> {
    let written = comparison.written();
    let others = managers.owners.iter().filter(|(id, _)| *id != writer);
    others
        .flat_map(|(id, owned)| {
            let paths = owned.fields.intersection(&written).paths();
            paths.into_iter().map(|path| Conflict { owner: id.clone(), path })
        })
        .collect()
}

/// Takes from the others what this write changed or removed.
pub(super) fn take_over(managers: &mut Managers, comparison: &Comparison, writer: &OwnerId) {
    let written = comparison.written();
    for (_, owned) in managers.owners.iter_mut().filter(|(id, _)| *id != writer) {
        owned.fields = owned.fields.difference(&written).difference(&comparison.removed);
    }
    managers.drop_empty();
}

/// Takes the fields that nobody owns from the writer.
pub(super) fn strip_metadata(managers: &mut Managers, writer: &OwnerId) {
    if let Some(owned) = managers.owners.get_mut(writer) {
        owned.fields = owned.fields.difference(&unowned());
    }
    managers.drop_empty();
}

fn unowned() -> FieldSet {
    let metadata = PathElement::field("metadata");
    let mut set = FieldSet::of([
        &[PathElement::field("apiVersion")][..],
        &[PathElement::field("kind")][..],
        std::slice::from_ref(&metadata),
    ]);
    for name in UNOWNED {
        set.insert(&[metadata.clone(), PathElement::field(name)]);
    }
    set
}

/// Follows a schema that made a granular field atomic since the sets were written: the parts become the whole.
pub(super) fn reconcile(schema: &Schema, managers: &mut Managers) {
    for owned in managers.owners.values_mut() {
        let mut now_atomic = FieldSet::default();
        find_atomic(Some(schema), &owned.fields, &mut Vec::new(), &mut now_atomic);
        if !now_atomic.is_empty() {
            owned.fields = owned.fields.difference_with_children(&now_atomic).union(&now_atomic);
        }
    }
}

/// Atomic fields of the schema below which the set has members.
fn find_atomic(schema: Option<&Schema>, set: &FieldSet, path: &mut Vec<PathElement>, found: &mut FieldSet) {
    for (step, below) in set.children() {
        let child = match step {
            PathElement::Field(name) => field(schema, name, path.is_empty()).0,
            PathElement::Key(_) => schema.and_then(Schema::item),
            PathElement::Value(_) | PathElement::Index(_) => None,
        };
        let Some(child) = child else { continue };
        let atomic = (child.ty == Type::Object && child.map == MapType::Atomic)
            || (child.ty == Type::Array && child.list.is_atomic());
        path.push(step.clone());
        if atomic && !below.is_empty() {
            found.insert(path);
        } else {
            find_atomic(Some(child), below, path, found);
        }
        path.pop();
    }
}
