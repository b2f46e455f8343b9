//! Commands that change an object as it was read: nobody else's change is overwritten.

use bytes::Bytes;
use litek8s_store::{Command, Object, Precondition};
use serde_json::Value;

use crate::endpoints::metadata;

/// The object as JSON; `None` when it is none, which the store does not let happen.
pub(super) fn value(object: &Object) -> Option<Value> {
    serde_json::from_slice(&object.json).ok()
}

fn precondition(object: &Object) -> Precondition {
    Precondition { uid: Some(object.meta.uid.as_str().into()), revision: Some(object.revision) }
}

/// Replaces the object by `value`, if that is another one.
pub(super) fn update(object: &Object, value: &Value) -> Option<Command> {
    if self::value(object).is_some_and(|before| before == *value) {
        return None;
    }
    Some(Command::Update {
        key: object.key.clone(),
        object: Bytes::from(value.to_string()),
        precondition: precondition(object),
        claims: object.claims.to_vec(),
    })
}

/// Removes the object.
pub(super) fn delete(object: &Object) -> Command {
    Command::Delete { key: object.key.clone(), precondition: precondition(object) }
}

/// Replaces a terminating object by `value`; when that waits for nothing any more, it goes.
pub(super) fn finish(object: &Object, value: &Value, is_held: bool) -> Option<Command> {
    let grace = metadata::grace_period(value).unwrap_or(0);
    if metadata::is_deleting(value) && metadata::finalizers(value).is_empty() && !is_held && grace == 0 {
        return Some(delete(object));
    }
    update(object, value)
}

/// Sets `metadata.finalizers`, or removes the field when there are none.
pub(super) fn set_finalizers(value: &mut Value, finalizers: Vec<String>) {
    metadata::set(value, "finalizers", (!finalizers.is_empty()).then(|| Value::from(finalizers)));
}

/// Takes one finalizer away.
pub(super) fn drop_finalizer(value: &mut Value, finalizer: &str) {
    let left =
        metadata::finalizers(value).into_iter().filter(|f| *f != finalizer).map(str::to_owned).collect();
    set_finalizers(value, left);
}
