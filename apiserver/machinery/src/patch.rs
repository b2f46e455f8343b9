//! The three patch formats as functions from the current object to the next one.
//!
//! All of them are bounded: a patch can neither nest an object deeper than it could have been sent whole, nor grow it
//! by copying.

mod json;
mod list;
mod merge;
mod strategic;

use serde_json::Value;

use crate::schema::Schema;
use crate::status::{Reason, Status};

/// A JSON patch with more operations than this is refused.
pub const MAX_OPERATIONS: usize = 10_000;
/// Bytes that all `copy` operations of one JSON patch may add.
pub const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;
/// Steps that the operations of one JSON patch may take together: values that they move and elements that make room.
pub const MAX_STEPS: usize = 20_000_000;
/// Deepest nesting of a patched object.
pub const MAX_DEPTH: usize = 100;

/// Applies a JSON patch (RFC 6902): a list of operations, all or none.
pub fn json(current: &Value, patch: &Value) -> Result<Value, Status> {
    json::apply(current, patch).map_err(status)
}

/// Applies a JSON merge patch (RFC 7386).
pub fn merge(current: &Value, patch: &Value) -> Result<Value, Status> {
    merge::apply(current, patch).map_err(status)
}

/// Applies a strategic merge patch: lists merge by the keys of `schema`, and directives say what a merge cannot.
pub fn strategic(schema: &Schema, current: &Value, patch: &Value) -> Result<Value, Status> {
    strategic::apply(schema, current, patch).map_err(status)
}

/// Why a patch was not applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum PatchError {
    /// The patch is not of its format.
    #[error("{0}")]
    Malformed(String),
    /// The patch does not fit the object.
    #[error("the server rejected our request due to an error in our request: {0}")]
    DoesNotApply(String),
    /// The patch asks for too much.
    #[error("{0}")]
    TooLarge(String),
}

fn status(error: PatchError) -> Status {
    let message = error.to_string();
    match error {
        PatchError::Malformed(_) => Status::bad_request(message),
        PatchError::DoesNotApply(_) => Status::new(422, Reason::Invalid, message),
        PatchError::TooLarge(_) => Status::request_entity_too_large(message),
    }
}

/// Nesting of a value: 0 for a scalar.
fn depth(value: &Value) -> usize {
    measure(value).0
}

/// Nesting of a value, and how many values it is made of.
fn measure(value: &Value) -> (usize, usize) {
    let (mut deepest, mut count) = (0, 0);
    let mut open = vec![(value, 0)];
    while let Some((value, level)) = open.pop() {
        (deepest, count) = (deepest.max(level), count + 1);
        if let Value::Object(fields) = value {
            open.extend(fields.values().map(|v| (v, level + 1)));
        } else if let Value::Array(items) = value {
            open.extend(items.iter().map(|v| (v, level + 1)));
        }
    }
    (deepest, count)
}

#[cfg(test)]
mod tests;
