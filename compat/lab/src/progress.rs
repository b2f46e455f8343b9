//! Progress lines with the time since the start.

use std::time::Instant;

/// Prints what is being done, for a person who waits.
#[derive(Debug)]
pub(crate) struct Progress {
    started: Instant,
    quiet: bool,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now(), quiet: false }
    }

    /// Prints nothing: for tests that start clusters by the dozen.
    pub(crate) fn quiet() -> Self {
        Self { started: Instant::now(), quiet: true }
    }

    pub(crate) fn say(&self, text: impl AsRef<str>) {
        if !self.quiet {
            println!("[{:5.1}s] {}", self.started.elapsed().as_secs_f64(), text.as_ref());
        }
    }
}
