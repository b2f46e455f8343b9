//! The conditions of a status.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::read::{list, text};
use crate::endpoints::metadata;

/// One condition as it is to be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Condition<'a> {
    /// `Progressing`, …
    pub(super) ty: &'a str,
    /// `True`, `False` or `Unknown`.
    pub(super) status: &'a str,
    /// In one word.
    pub(super) reason: &'a str,
    /// For people.
    pub(super) message: &'a str,
}

/// The condition of this type.
pub(super) fn find<'a>(status: &'a Value, ty: &str) -> Option<&'a Value> {
    list(&status["conditions"]).iter().find(|condition| condition["type"] == ty)
}

/// The condition as an object; its transition is now unless it had the status before.
pub(super) fn made(status: &Value, condition: &Condition<'_>, now: Timestamp) -> Value {
    let before = find(status, condition.ty).filter(|known| known["status"] == condition.status);
    let since =
        before.map_or_else(|| json!(metadata::time(now)), |known| known["lastTransitionTime"].clone());
    json!({
        "type": condition.ty, "status": condition.status, "reason": condition.reason,
        "message": condition.message, "lastTransitionTime": since,
    })
}

/// Sets a condition; the same status and reason again leaves it as it is.
pub(super) fn set(status: &mut Value, condition: &Condition<'_>, now: Timestamp) {
    let known = find(status, condition.ty);
    if known.is_some_and(|k| k["status"] == condition.status && k["reason"] == condition.reason) {
        return;
    }
    let made = made(status, condition, now);
    put(status, made);
}

/// Puts a condition in the place of the one of its type, or behind the others.
pub(super) fn put(status: &mut Value, condition: Value) {
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    match conditions.iter_mut().find(|known| known["type"] == condition["type"]) {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
    status["conditions"] = Value::Array(conditions);
}

/// Takes the condition of this type away.
pub(super) fn remove(status: &mut Value, ty: &str) {
    if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
        conditions.retain(|condition| text(&condition["type"]) != ty);
    }
}
