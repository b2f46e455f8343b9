//! ResourceQuotas: the status says what is used, whatever came or went. Writes enter what they add by themselves; what is
//! here is the rest: what was deleted, what ended, what was there before the quota.

use std::collections::BTreeSet;
use std::sync::Arc;

use litek8s_store::{Event, EventKind, Object, View};
use serde_json::Value;

use super::action::{Action, Decision};
use super::facts::Facts;
use super::kind::Kind;
use super::read;
use super::subject::{Duty, Subject};
use crate::admission::quota;

/// What is to be done about a quota.
pub(super) fn decide(facts: &Facts<'_>, object: &Arc<Object>) -> Decision {
    let Some(mut value) = read::value(object) else { return Decision::nothing() };
    let status = quota::status(facts.view, &object.key.namespace, &value);
    // "0" is said, and not the same as nothing.
    if value["status"]["used"] == status["used"] && is_same(&value["status"]["hard"], &status["hard"]) {
        return Decision::nothing();
    }
    value["status"] = status;
    vec![Action::status(Kind::ResourceQuota, value)].into()
}

fn is_same(a: &Value, b: &Value) -> bool {
    a == b || read::same(a, b)
}

/// The quotas that a change makes due.
pub(super) fn of_event(view: &View, event: &Event, due: &mut BTreeSet<Subject>) {
    let namespace = &event.object.key.namespace;
    if namespace.is_empty() {
        return;
    }
    let mut quotas = view.list(Kind::ResourceQuota.resource(), Some(namespace)).peekable();
    if quotas.peek().is_none() {
        return;
    }
    let counts = match (event.kind, &event.previous) {
        (EventKind::Modified, Some(before)) => quota::is_recounted(before, &event.object),
        (EventKind::Added | EventKind::Modified | EventKind::Deleted, _) => true,
    };
    if counts {
        due.extend(quotas.map(|quota| Subject::of(Duty::ResourceQuota, &quota.key)));
    }
}

#[cfg(test)]
mod tests;
