//! What evaluating the rules of one object may cost: steps of loops, memory and time.
//!
//! The CEL interpreter has no limit of its own. `program` therefore puts a call to [`step`] into the condition of every
//! loop and one to [`charge`] around everything that makes texts and lists; what makes much more than it is given is paid
//! for by [`reserve`] before. Once a limit is reached every further step fails, so that an evaluation ends soon.

use std::cell::Cell;
use std::time::Duration;

use kube_cel::cel::{ExecutionError, Value};
use nix::time::{ClockId, clock_gettime};

/// What is said when a limit is reached.
pub(crate) const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";
/// Iterations of all loops together.
const MAX_STEPS: u64 = 1_000_000;
/// Bytes of texts and elements of lists made on the way.
pub(super) const MAX_MADE: u64 = 64 * 1024 * 1024;
/// Processor time for all rules of one object: how busy the machine is changes no answer.
const MAX_TIME: Duration = Duration::from_secs(1);

thread_local! {
    static LEFT: Cell<Left> = const { Cell::new(Left { steps: 0, made: 0, until: None, exhausted: true }) };
}

#[derive(Clone, Copy)]
struct Left {
    steps: u64,
    made: u64,
    until: Option<Duration>,
    exhausted: bool,
}

/// Opens a budget for this thread; it holds until the next one.
pub(crate) fn open() {
    let until = used().and_then(|used| used.checked_add(MAX_TIME));
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

/// Something that is about to be made, in bytes, or as many comparisons.
pub(super) fn reserve(made: u64) -> Result<(), ExecutionError> {
    spend(0, made)
}

/// The processor time that this thread has used.
fn used() -> Option<Duration> {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).ok().map(Duration::from)
}

fn spend(steps: u64, made: u64) -> Result<(), ExecutionError> {
    let mut left = LEFT.get();
    let late = || left.until.zip(used()).is_none_or(|(until, used)| used > until);
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
