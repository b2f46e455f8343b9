//! Deleting an object as a client's `DELETE` would: at once, or marked and waiting for its finalizers or its grace.

use litek8s_store::{Command, Object};
use serde_json::Value;

use super::decide::Facts;
use super::edit;
use super::garbage::{FOREGROUND, ORPHAN};
use crate::endpoints::metadata;
use crate::time::seconds_after;

/// What becomes of the dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Propagation {
    /// They go afterwards.
    Background,
    /// They go first.
    Foreground,
    /// They stay.
    Orphan,
}

/// The command that begins or completes a deletion; `None` when it is under way already.
pub(super) fn remove(facts: &Facts<'_>, object: &Object, propagation: Propagation) -> Option<Command> {
    if object.meta.is_terminating() {
        return None;
    }
    let served = facts.table.resources().find(|served| served.key == object.key.resource);
    let Some(served) = served else { return remove_unserved(facts, object) };
    let strategy = &served.strategy;
    let mut value = edit::value(object)?;
    let kept = metadata::finalizers(&value).into_iter().filter(|f| !matches!(*f, ORPHAN | FOREGROUND));
    let mut finalizers: Vec<String> = kept.map(str::to_owned).collect();
    match propagation {
        Propagation::Background => {}
        Propagation::Foreground => finalizers.push(FOREGROUND.to_owned()),
        Propagation::Orphan => finalizers.push(ORPHAN.to_owned()),
    }
    let grace = strategy.grace_period(&value, None).unwrap_or(0);
    let waits = !finalizers.is_empty() || strategy.held(&value);
    edit::set_finalizers(&mut value, finalizers);
    if grace == 0 && !waits {
        return Some(edit::delete(object));
    }
    mark(facts, &mut value, grace);
    strategy.mark_deleting(&mut value);
    edit::update(object, &value)
}

/// Nothing is known about the kind but its metadata.
fn remove_unserved(facts: &Facts<'_>, object: &Object) -> Option<Command> {
    if object.meta.finalizers.is_empty() {
        return Some(edit::delete(object));
    }
    let mut value = edit::value(object)?;
    mark(facts, &mut value, 0);
    edit::update(object, &value)
}

fn mark(facts: &Facts<'_>, value: &mut Value, grace: i64) {
    let at = seconds_after(facts.now, grace);
    metadata::bump_generation(value);
    metadata::set(value, "deletionTimestamp", Some(Value::from(metadata::time(at))));
    metadata::set(value, "deletionGracePeriodSeconds", Some(Value::from(grace)));
}
