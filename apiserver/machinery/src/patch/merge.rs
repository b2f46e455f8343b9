//! JSON merge patch (RFC 7386): objects merge, `null` deletes, everything else replaces.

use serde_json::{Map, Value};

use super::{MAX_DEPTH, PatchError, depth};

pub(super) fn apply(current: &Value, patch: &Value) -> Result<Value, PatchError> {
    if !patch.is_object() {
        return Err(PatchError::Malformed("Invalid JSON Patch".to_owned()));
    }
    if depth(patch) > MAX_DEPTH {
        return Err(PatchError::Malformed(format!("the patch is nested deeper than {MAX_DEPTH} levels")));
    }
    Ok(merged(Some(current), patch))
}

fn merged(current: Option<&Value>, patch: &Value) -> Value {
    let Value::Object(changes) = patch else {
        return patch.clone();
    };
    let mut fields = match current {
        Some(Value::Object(fields)) => fields.clone(),
        _ => Map::new(),
    };
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
        } else {
            let next = merged(fields.get(name), change);
            fields.insert(name.clone(), next);
        }
    }
    Value::Object(fields)
}
