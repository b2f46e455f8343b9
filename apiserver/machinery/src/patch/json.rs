//! JSON patch (RFC 6902) with bounds on operations, copied bytes and nesting.

use json_patch::PatchOperation;
use serde_json::Value;

use super::{MAX_COPIED_BYTES, MAX_DEPTH, MAX_OPERATIONS, MAX_STEPS, PatchError, measure};

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
    let mut cost = Cost::default();
    for operation in listed {
        let operation: PatchOperation =
            serde_json::from_value(operation.clone()).map_err(|e| PatchError::Malformed(e.to_string()))?;
        cost.add(&next, &operation)?;
        if tests_absence(&next, &operation) {
            continue;
        }
        json_patch::patch(&mut next, std::slice::from_ref(&operation))
            .map_err(|e| PatchError::DoesNotApply(e.to_string()))?;
    }
    Ok(next)
}

/// What a patch has cost so far.
#[derive(Default)]
struct Cost {
    copied: usize,
    steps: usize,
}

impl Cost {
    /// Adds what an operation costs; refuses nesting, copies and work beyond the limits.
    fn add(&mut self, document: &Value, operation: &PatchOperation) -> Result<(), PatchError> {
        let from = match operation {
            PatchOperation::Move(moved) => Some(moved.from.as_str()),
            PatchOperation::Copy(copy) => Some(copy.from.as_str()),
            PatchOperation::Add(_)
            | PatchOperation::Replace(_)
            | PatchOperation::Remove(_)
            | PatchOperation::Test(_) => None,
        };
        let source = match operation {
            PatchOperation::Add(add) => Some(&add.value),
            PatchOperation::Replace(replace) => Some(&replace.value),
            PatchOperation::Move(_)
            | PatchOperation::Copy(_)
            | PatchOperation::Remove(_)
            | PatchOperation::Test(_) => from.and_then(|from| document.pointer(from)),
        };
        let (deepest, count) = source.map_or((0, 0), measure);
        if operation.path().count() + deepest > MAX_DEPTH {
            return Err(PatchError::DoesNotApply(format!(
                "the object would be nested deeper than {MAX_DEPTH} levels"
            )));
        }
        let shifted = from.into_iter().chain([operation.path().as_str()]).map(|at| neighbours(document, at));
        self.steps += count + shifted.sum::<usize>();
        if self.steps > MAX_STEPS {
            return Err(PatchError::TooLarge(format!("the operations take more than {MAX_STEPS} steps")));
        }
        if matches!(operation, PatchOperation::Copy(_)) {
            self.copied += source.map_or(0, |source| source.to_string().len());
        }
        if self.copied > MAX_COPIED_BYTES {
            return Err(PatchError::DoesNotApply(format!(
                "the copy operations add more than {MAX_COPIED_BYTES} bytes"
            )));
        }
        Ok(())
    }
}

/// How many elements the list around `path` has, which may all have to make room; 0 where there is no list.
fn neighbours(document: &Value, path: &str) -> usize {
    let list = path.rsplit_once('/').and_then(|(parent, _)| document.pointer(parent));
    list.and_then(Value::as_array).map_or(0, Vec::len)
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
