//! Programs that run while a test does something else.

use std::io::Read;
use std::process::{Child, Command};

use anyhow::{Context, Result, bail};

/// A program that runs until the handle is dropped.
#[derive(Debug)]
pub struct Background {
    child: Child,
}

impl Background {
    pub(crate) fn start(mut command: Command) -> Result<Self> {
        let child = command.spawn().with_context(|| format!("start {command:?}"))?;
        Ok(Self { child })
    }

    /// Asks it to end (SIGTERM) and waits until it has.
    ///
    /// # Errors
    /// When it is gone already, or ends with a failure.
    pub fn terminate(mut self) -> Result<()> {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id())?);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM)?;
        let status =
            crate::eventually("the end of a process", || self.child.try_wait()?.context("it goes on"))?;
        if !status.success() {
            bail!("it ended with {status}");
        }
        Ok(())
    }

    /// Ends it and gives what it printed.
    ///
    /// # Errors
    /// When its output cannot be read.
    pub fn stop(mut self) -> Result<String> {
        self.child.kill()?;
        let mut text = String::new();
        if let Some(mut stdout) = self.child.stdout.take() {
            stdout.read_to_string(&mut text)?;
        }
        Ok(text)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
