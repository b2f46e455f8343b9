//! Garbage: an object goes when the last of its owners is gone. As kube-apiserver's garbage collector decides it, from
//! one consistent view.
//!
//! Owners of a kind that is not served, and owners that exist in another namespace, are left alone: nothing is deleted
//! on their account.

use litek8s_store::{Command, Object, ObjectKey, OwnerReference, View};
use serde_json::Value;

use super::decide::Facts;
use super::edit;
use super::removal::{Propagation, remove};
use crate::endpoints::metadata;
use crate::registry::Table;

/// The finalizer that keeps an object until its dependents are orphans.
pub(super) const ORPHAN: &str = "orphan";
/// The finalizer that keeps an object until its dependents are gone.
pub(super) const FOREGROUND: &str = "foregroundDeletion";

/// Whether an object is kept by one of the collector's finalizers.
pub(super) fn waits_for_collector(object: &Object) -> bool {
    object.meta.is_terminating() && object.meta.finalizers.iter().any(|f| f == ORPHAN || f == FOREGROUND)
}

fn has_finalizer(object: &Object, finalizer: &str) -> bool {
    object.meta.is_terminating() && object.meta.finalizers.iter().any(|f| f == finalizer)
}

/// Where an owner is; `None` when its kind is not served, or cannot own an object there.
pub(super) fn owner_key(table: &Table, dependent: &ObjectKey, owner: &OwnerReference) -> Option<ObjectKey> {
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    let served = table.by_kind(group, "", &owner.kind)?;
    if served.resource.namespaced && dependent.namespace.is_empty() {
        return None;
    }
    Some(served.object_key(&dependent.namespace, &owner.name))
}

/// What an owner reference points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// It is there.
    Solid,
    /// It is being deleted and waits for this dependent.
    Waiting,
    /// It is gone, or another object has its name.
    Gone,
    /// It cannot be told.
    Unknown,
}

fn classify(facts: &Facts<'_>, dependent: &Object, owner: &OwnerReference) -> Owner {
    let Some(key) = owner_key(facts.table, &dependent.key, owner) else { return Owner::Unknown };
    match facts.view.get(&key) {
        Some(found) if found.meta.uid == owner.uid => {
            if owner.block_owner_deletion && has_finalizer(found, FOREGROUND) {
                Owner::Waiting
            } else {
                Owner::Solid
            }
        }
        _ if facts.view.list(&key.resource, None).any(|object| object.meta.uid == owner.uid) => {
            Owner::Unknown
        }
        _ => Owner::Gone,
    }
}

/// What is to be done about one object.
pub(super) fn decide(facts: &Facts<'_>, key: &ObjectKey) -> Vec<Command> {
    let Some(object) = facts.view.get(key) else { return Vec::new() };
    if has_finalizer(object, ORPHAN) {
        return orphan_dependents(facts, object);
    }
    if has_finalizer(object, FOREGROUND) {
        return await_dependents(facts, object);
    }
    if object.meta.is_terminating() || object.meta.owners.is_empty() {
        return Vec::new();
    }
    by_owners(facts, object).into_iter().collect()
}

fn by_owners(facts: &Facts<'_>, object: &Object) -> Option<Command> {
    let owners: Vec<(&OwnerReference, Owner)> =
        object.meta.owners.iter().map(|owner| (owner, classify(facts, object, owner))).collect();
    let any = |wanted: Owner| owners.iter().any(|(_, owner)| *owner == wanted);
    if any(Owner::Unknown) {
        return None;
    }
    if any(Owner::Solid) {
        let others: Vec<&str> =
            owners.iter().filter(|(_, o)| *o != Owner::Solid).map(|(owner, _)| owner.uid.as_str()).collect();
        return without_owners(object, &others);
    }
    let dependents: Vec<&ObjectKey> = facts.view.dependents(&object.meta.uid).collect();
    if any(Owner::Waiting) && !dependents.is_empty() {
        // An owner that waits for us while we wait for what waits for it: a circle, which nobody may block.
        let in_circle = |key: &&&ObjectKey| facts.view.get(key).is_some_and(|d| has_finalizer(d, FOREGROUND));
        if dependents.iter().any(|key| in_circle(&key)) {
            return unblocked(object);
        }
        return remove(facts, object, Propagation::Foreground);
    }
    let asked = |finalizer: &str| object.meta.finalizers.iter().any(|f| f == finalizer);
    let propagation = if asked(ORPHAN) {
        Propagation::Orphan
    } else if asked(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    remove(facts, object, propagation)
}

/// Takes references away; an owner that stays keeps the object.
fn without_owners(object: &Object, uids: &[&str]) -> Option<Command> {
    if uids.is_empty() {
        return None;
    }
    let mut value = edit::value(object)?;
    drop_owners(&mut value, uids);
    edit::update(object, &value)
}

fn drop_owners(value: &mut Value, uids: &[&str]) {
    let listed =
        metadata::field(value, "ownerReferences").and_then(Value::as_array).cloned().unwrap_or_default();
    let uid = |owner: &Value| owner.get("uid").and_then(Value::as_str).unwrap_or_default().to_owned();
    let left: Vec<Value> = listed.into_iter().filter(|owner| !uids.contains(&uid(owner).as_str())).collect();
    metadata::set(value, "ownerReferences", (!left.is_empty()).then_some(Value::Array(left)));
}

/// The object's references without their hold on the owners.
fn unblocked(object: &Object) -> Option<Command> {
    let mut value = edit::value(object)?;
    let owners = value.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut)?;
    for owner in owners.iter_mut().filter_map(Value::as_object_mut) {
        if owner.get("blockOwnerDeletion") == Some(&Value::Bool(true)) {
            owner.insert("blockOwnerDeletion".to_owned(), Value::Bool(false));
        }
    }
    edit::update(object, &value)
}

fn existing_dependents<'a>(view: &'a View, owner: &Object) -> Vec<&'a Object> {
    view.dependents(&owner.meta.uid).filter_map(|key| view.get(key)).map(|object| &**object).collect()
}

/// A deletion in the foreground: dependents that block it go first; without any, the owner may go.
fn await_dependents(facts: &Facts<'_>, owner: &Object) -> Vec<Command> {
    let blocks = |dependent: &&Object| {
        dependent.meta.owners.iter().any(|o| o.uid == owner.meta.uid && o.block_owner_deletion)
    };
    let blocking: Vec<&Object> = existing_dependents(facts.view, owner).into_iter().filter(blocks).collect();
    if blocking.is_empty() {
        return release(facts, owner, FOREGROUND);
    }
    let begun = blocking.into_iter().filter(|dependent| !dependent.meta.is_terminating());
    begun.filter_map(|dependent| by_owners(facts, dependent)).collect()
}

/// A deletion that leaves orphans: the dependents forget their owner, then it may go.
fn orphan_dependents(facts: &Facts<'_>, owner: &Object) -> Vec<Command> {
    let dependents = existing_dependents(facts.view, owner);
    if dependents.is_empty() {
        return release(facts, owner, ORPHAN);
    }
    dependents.into_iter().filter_map(|dependent| without_owners(dependent, &[&owner.meta.uid])).collect()
}

fn release(facts: &Facts<'_>, owner: &Object, finalizer: &str) -> Vec<Command> {
    let Some(mut value) = edit::value(owner) else { return Vec::new() };
    edit::drop_finalizer(&mut value, finalizer);
    let served = facts.table.resources().find(|served| served.key == owner.key.resource);
    let held = served.is_some_and(|served| served.strategy.held(&value));
    edit::finish(owner, &value, held).into_iter().collect()
}
