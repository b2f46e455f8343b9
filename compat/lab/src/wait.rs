//! Waiting for a condition: looked at often, with an end, and with its last failure in the error.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// How long a condition may take on a loaded machine. What is timed is timed in bench.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(25);

/// Looks until `condition` gives a value.
///
/// # Errors
/// With the condition's last error, after [`PATIENCE`].
pub fn eventually<T>(what: &str, condition: impl FnMut() -> Result<T>) -> Result<T> {
    within(PATIENCE, what, condition)
}

/// The same for what takes longer by design.
///
/// # Errors
/// With the condition's last error, after `patience`.
pub fn within<T>(patience: Duration, what: &str, mut condition: impl FnMut() -> Result<T>) -> Result<T> {
    let end = Instant::now() + patience;
    loop {
        match condition() {
            Ok(value) => return Ok(value),
            Err(error) if Instant::now() > end => {
                return Err(error).with_context(|| format!("waited {} s for {what}", patience.as_secs()));
            }
            Err(_) => std::thread::sleep(LOOK),
        }
    }
}
