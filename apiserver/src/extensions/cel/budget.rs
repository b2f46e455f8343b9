//! What evaluating the rules of one object may cost: steps of loops, memory and time.
//!
//! The CEL interpreter has no limit of its own. `program` therefore puts a call to [`step`] into the condition of every
//! loop and one to [`charge`] around everything that makes texts and lists; once a limit is reached every further step
//! fails, so that an evaluation ends soon.

use std::cell::Cell;
use std::time::{Duration, Instant};

use kube_cel::cel::{ExecutionError, Value};

/// What is said when a limit is reached.
pub(crate) const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";
/// Iterations of all loops together.
const MAX_STEPS: u64 = 1_000_000;
/// Bytes of texts and elements of lists made on the way.
const MAX_MADE: u64 = 64 * 1024 * 1024;
/// Time for all rules of one object.
const MAX_TIME: Duration = Duration::from_secs(1);

thread_local! {
    static LEFT: Cell<Left> = const { Cell::new(Left { steps: 0, made: 0, until: None, exhausted: true }) };
}

#[derive(Clone, Copy)]
struct Left {
    steps: u64,
    made: u64,
    until: Option<Instant>,
    exhausted: bool,
}

/// Opens a budget for this thread; it holds until the next one.
pub(crate) fn open() {
    let until = Instant::now().checked_add(MAX_TIME);
    LEFT.set(Left { steps: MAX_STEPS, made: MAX_MADE, until, exhausted: false });
}

/// Whether a limit was reached since [`open`].
pub(crate) fn exhausted() -> bool {
    LEFT.get().exhausted
}

/// One iteration of a loop; gives its condition back.
pub(crate) fn step(condition: Value) -> Result<Value, ExecutionError> {
    spend(1, 0)?;
    Ok(condition)
}

/// A value just made; gives it back.
pub(crate) fn charge(value: Value) -> Result<Value, ExecutionError> {
    let size = if let Value::String(text) = &value {
        text.len()
    } else if let Value::List(items) = &value {
        items.len()
    } else if let Value::Bytes(bytes) = &value {
        bytes.len()
    } else {
        0
    };
    spend(0, u64::try_from(size).unwrap_or(u64::MAX))?;
    Ok(value)
}

fn spend(steps: u64, made: u64) -> Result<(), ExecutionError> {
    let mut left = LEFT.get();
    let late = || left.until.is_none_or(|until| Instant::now() > until);
    let within = left.steps >= steps && left.made >= made && !(left.steps.is_multiple_of(64) && late());
    if left.exhausted || !within {
        left.exhausted = true;
        LEFT.set(left);
        return Err(ExecutionError::function_error("budget", "cost limit exceeded"));
    }
    left.steps -= steps;
    left.made -= made;
    LEFT.set(left);
    Ok(())
}
