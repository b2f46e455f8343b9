//! Things that go on while a test does something else: background programs, and a client that never stops asking.

use std::io::Read;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use litek8s_lab::{Member, Request, request};

use crate::Cluster;

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

/// A client that asks one URL again and again and counts.
#[derive(Debug)]
pub struct Traffic {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    failed: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

/// Between two requests.
const PAUSE: Duration = Duration::from_millis(5);
/// When a request counts as failed.
const LIMIT: Duration = Duration::from_millis(1000);

impl Traffic {
    /// Starts asking from a member.
    ///
    /// # Errors
    /// When the member is not there or the URL is none.
    pub fn start(cluster: &Cluster, from: &Member, url: &str, source: Option<&str>) -> Result<Self> {
        let namespace = cluster.lab.namespace(from)?;
        let source = source.map(str::parse).transpose()?;
        let asked = Request { url: url.parse()?, source, timeout: LIMIT };
        let (stop, answered, failed) =
            (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counters = (stop.clone(), answered.clone(), failed.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let ask = move || {
            let (stop, answered, failed) = counters;
            // A thread of its own, which stays in the namespace until its end.
            if namespace.enter().is_err() {
                failed.fetch_add(1, Ordering::SeqCst);
                return;
            }
            while !stop.load(Ordering::SeqCst) {
                let outcome = runtime.block_on(request(&asked));
                let count = if outcome.is_ok() { &answered } else { &failed };
                count.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(PAUSE);
            }
        };
        Ok(Self { stop, answered, failed, thread: Some(std::thread::spawn(ask)) })
    }

    /// How many requests were answered so far.
    pub fn answered(&self) -> usize {
        self.answered.load(Ordering::SeqCst)
    }

    /// Waits until so many more were answered.
    ///
    /// # Errors
    /// When they are not.
    pub fn await_answers(&self, more: usize) -> Result<()> {
        let goal = self.answered() + more;
        crate::eventually("more answers", || match self.answered() {
            count if count >= goal => Ok(()),
            count => bail!("{count} of {goal}"),
        })
    }

    /// Stops asking; gives how many were answered and how many failed.
    pub fn stop(mut self) -> (usize, usize) {
        self.end();
        (self.answered(), self.failed.load(Ordering::SeqCst))
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.end();
    }
}
