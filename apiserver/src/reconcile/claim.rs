//! What belongs to an object: what it made, without what its selector let go, and what nobody else controls.

use std::sync::Arc;

use litek8s_store::Object;
use serde_json::{Value, json};

use super::action::Action;
use super::facts::Facts;
use super::job;
use super::kind::Kind;
use super::pod::Pod;
use super::read;
use crate::endpoints::metadata;

/// What an object has, and what is to be written so that it is so.
pub(super) struct Claimed<'a> {
    /// What it controls and selects.
    pub(super) owned: Vec<&'a Arc<Object>>,
    /// References to be added or taken away.
    pub(super) actions: Vec<Action>,
}

/// Looks for the objects of kind `of` that belong to `owner`.
pub(super) fn claim<'a>(
    facts: &Facts<'a>,
    (kind, owner): (Kind, &Arc<Object>),
    of: Kind,
    selects: impl Fn(&Object) -> bool,
) -> Claimed<'a> {
    let mut claimed = Claimed { owned: Vec::new(), actions: Vec::new() };
    for object in controlled(facts, owner, of) {
        if selects(object) {
            claimed.owned.push(object);
        } else if !owner.meta.is_terminating() {
            claimed.actions.extend(release((kind, owner), of, object));
        }
    }
    if owner.meta.is_terminating() {
        return claimed;
    }
    for name in facts.index.orphans(of, &owner.key.namespace) {
        let Some(object) = facts.view.get(&of.key(&owner.key.namespace, name)) else { continue };
        // A set that counts only pods that run or will has no use for one that ended.
        let counts = matches!(kind, Kind::ReplicaSet | Kind::ReplicationController) && of == Kind::Pod;
        if object.meta.is_terminating() || (counts && Pod::read(object).is_finished()) {
            continue;
        }
        if selects(object) && object.meta.controller().is_none() {
            claimed.actions.extend(adopt((kind, owner), of, object));
        }
    }
    claimed
}

/// The objects of kind `of` that `owner` controls.
pub(super) fn controlled<'a>(facts: &Facts<'a>, owner: &Object, of: Kind) -> Vec<&'a Arc<Object>> {
    let uid = owner.meta.uid.as_str();
    let keys = facts.view.dependents(uid).filter(|key| key.resource == *of.resource());
    let objects = keys.filter_map(|key| facts.view.get(key));
    objects.filter(|object| object.meta.controller().is_some_and(|owner| owner.uid == uid)).collect()
}

fn adopt((kind, owner): (Kind, &Arc<Object>), of: Kind, object: &Object) -> Option<Action> {
    let mut value = read::value(object)?;
    let mut owners = read::list(&value["metadata"]["ownerReferences"]).to_vec();
    owners.push(kind.controls(owner));
    metadata::set(&mut value, "ownerReferences", Some(Value::Array(owners)));
    if kind == Kind::Job {
        job::track(&mut value);
    }
    Some(Action::update(of, value))
}

fn release((kind, owner): (Kind, &Arc<Object>), of: Kind, object: &Object) -> Option<Action> {
    let mut value = read::value(object)?;
    let mut owners = read::list(&value["metadata"]["ownerReferences"]).to_vec();
    owners.retain(|other| other["uid"] != owner.meta.uid.as_str());
    metadata::set(&mut value, "ownerReferences", (!owners.is_empty()).then(|| json!(owners)));
    if kind == Kind::Job {
        job::untrack(&mut value);
    }
    Some(Action::update(of, value))
}
