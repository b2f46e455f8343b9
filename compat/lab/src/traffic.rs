//! A client that never stops asking, while a test does something else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::{Lab, Member, Request, eventually, request};

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
    pub fn start(lab: &Lab, from: &Member, url: &str, source: Option<&str>) -> Result<Self> {
        let namespace = lab.namespace(from)?;
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
        eventually("more answers", || match self.answered() {
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
