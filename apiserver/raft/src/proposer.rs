//! Numbers for proposals, so that each is applied once however often it is repeated.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The session of one start of a server.
pub(crate) struct Proposer {
    pub(crate) session: u128,
    outstanding: Arc<Mutex<Outstanding>>,
}

#[derive(Default)]
struct Outstanding {
    last: u64,
    open: BTreeSet<u64>,
}

/// One proposal, until its proposer has the answer or gives up.
pub(crate) struct Ticket {
    pub(crate) sequence: u64,
    /// All proposals up to this one are answered or given up.
    pub(crate) acknowledged: u64,
    outstanding: Arc<Mutex<Outstanding>>,
}

impl Proposer {
    pub(crate) fn new(session: u128) -> Self {
        Self {
            // Zero would ask not to be remembered.
            session: session.max(1),
            outstanding: Arc::default(),
        }
    }

    pub(crate) fn ticket(&self) -> Ticket {
        let mut outstanding = lock(&self.outstanding);
        outstanding.last += 1;
        let sequence = outstanding.last;
        outstanding.open.insert(sequence);
        let oldest = outstanding.open.first().copied().unwrap_or(sequence);
        Ticket { sequence, acknowledged: oldest - 1, outstanding: self.outstanding.clone() }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        lock(&self.outstanding).open.remove(&self.sequence);
    }
}

fn lock(outstanding: &Mutex<Outstanding>) -> MutexGuard<'_, Outstanding> {
    outstanding.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_no_open_proposal_precedes_is_acknowledged() {
        let proposer = Proposer::new(7);
        let first = proposer.ticket();
        let second = proposer.ticket();
        drop(second);
        assert_eq!(proposer.ticket().acknowledged, 0);
        drop(first);
        let last = proposer.ticket();
        assert_eq!((last.sequence, last.acknowledged), (4, 3));
    }
}
