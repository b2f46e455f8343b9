//! JSON patch (RFC 6902) with bounds on operations, copied bytes and nesting.

use json_patch::PatchOperation;
use serde_json::Value;

use super::{MAX_COPIED_BYTES, MAX_DEPTH, MAX_OPERATIONS, PatchError, depth};

pub(super) fn apply(current: &Value, patch: &Value) -> Result<Value, PatchError> {
    let Value::Array(listed) = patch else {
        return Err(PatchError::Malformed("a JSON patch must be a list of operations".to_owned()));
    };
    if listed.len() > MAX_OPERATIONS {
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            listed.len()
        )));
    }
    let mut next = current.clone();
    let mut copied = 0;
    for operation in listed {
        let operation: PatchOperation =
            serde_json::from_value(operation.clone()).map_err(|e| PatchError::Malformed(e.to_string()))?;
        copied += check_bounds(&next, &operation)?;
        if copied > MAX_COPIED_BYTES {
            return Err(PatchError::DoesNotApply(format!(
                "the copy operations add more than {MAX_COPIED_BYTES} bytes"
            )));
        }
        if tests_absence(&next, &operation) {
            continue;
        }
        json_patch::patch(&mut next, std::slice::from_ref(&operation))
            .map_err(|e| PatchError::DoesNotApply(e.to_string()))?;
    }
    Ok(next)
}

/// Refuses nesting beyond the limit, and says how many bytes a copy adds.
fn check_bounds(document: &Value, operation: &PatchOperation) -> Result<usize, PatchError> {
    let (source, is_copy) = match operation {
        PatchOperation::Add(add) => (Some(&add.value), false),
        PatchOperation::Replace(replace) => (Some(&replace.value), false),
        PatchOperation::Move(moved) => (document.pointer(moved.from.as_str()), false),
        PatchOperation::Copy(copy) => (document.pointer(copy.from.as_str()), true),
        PatchOperation::Remove(_) | PatchOperation::Test(_) => (None, false),
    };
    let Some(source) = source else { return Ok(0) };
    if operation.path().count() + depth(source) > MAX_DEPTH {
        return Err(PatchError::DoesNotApply(format!(
            "the object would be nested deeper than {MAX_DEPTH} levels"
        )));
    }
    Ok(if is_copy { source.to_string().len() } else { 0 })
}

/// `test` with a null value passes where there is no value, as kube-apiserver has it.
fn tests_absence(document: &Value, operation: &PatchOperation) -> bool {
    match operation {
        PatchOperation::Test(test) => test.value.is_null() && document.pointer(test.path.as_str()).is_none(),
        PatchOperation::Add(_)
        | PatchOperation::Remove(_)
        | PatchOperation::Replace(_)
        | PatchOperation::Move(_)
        | PatchOperation::Copy(_) => false,
    }
}
