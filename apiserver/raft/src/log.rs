//! The log on the disk: segments of our own format, written by one flusher with group
//! commit, and the vote. It knows records, not what openraft or the store make of them.

mod flusher;
mod index;
mod record;
mod recovery;
mod segment;
mod vote;
mod writer;

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

pub(crate) use record::{Kind, Position, Record};
pub(crate) use vote::Ballot;
pub(crate) use writer::Done;

use crate::config::{Clock, Flushing};
use crate::disk::Disk;
use crate::latency::Latency;
use flusher::Flusher;
use index::{Index, Located};
use writer::{Operation, Writer};

/// Why the log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The disk failed.
    #[error("{file}")]
    Io {
        /// The file.
        file: String,
        /// The disk's error.
        #[source]
        source: io::Error,
    },
    /// Something that was durable is not what it was. Nothing was changed.
    #[error("{what} at byte {offset} of {file}: the log is damaged and nothing was changed")]
    Corrupt {
        /// The file.
        file: String,
        /// Where in it, in bytes.
        offset: usize,
        /// What is wrong.
        what: String,
    },
}

/// How a log is kept.
pub(crate) struct LogOptions {
    pub(crate) segment_size: usize,
    /// Bytes of payloads held in memory.
    pub(crate) cache: usize,
    pub(crate) flushing: Flushing,
}

/// What the log, its readers and its writer have in common.
pub(crate) struct Shared {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) syncs: Latency,
    index: Mutex<Index>,
    vote: Mutex<Option<Ballot>>,
    failure: OnceLock<String>,
    /// Bytes of entries appended since a snapshot was asked for.
    grown: AtomicU64,
}

impl Shared {
    pub(crate) fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing is written any more after this.
    pub(crate) fn fail(&self, error: &io::Error) {
        if self.failure.set(error.to_string()).is_ok() {
            tracing::error!(%error, "the raft log cannot be written; this server stops writing");
        }
    }

    pub(crate) fn check(&self) -> io::Result<()> {
        match self.failure.get() {
            None => Ok(()),
            Some(failure) => Err(io::Error::other(failure.clone())),
        }
    }
}

/// The log. Clones share it.
#[derive(Clone)]
pub(crate) struct Log {
    shared: Arc<Shared>,
    flusher: Arc<Flusher>,
}

impl Log {
    /// Recovers the log on `disk`, or begins one.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        options: &LogOptions,
    ) -> Result<Self, LogError> {
        let vote = Ballot::load(disk.as_ref())?;
        let shared = Arc::new(Shared {
            disk,
            clock,
            syncs: Latency::default(),
            index: Mutex::default(),
            vote: Mutex::new(vote),
            failure: OnceLock::new(),
            grown: AtomicU64::new(0),
        });
        let found = recovery::recover(&shared, options.cache, options.segment_size)?;
        *shared.index() = found.index;
        let writer = Writer::new(shared.clone(), options.segment_size, found.full, found.active);
        let flusher = match options.flushing {
            Flushing::Inline => Flusher::inline(writer),
            Flushing::Thread => Flusher::thread(writer)
                .map_err(|source| LogError::Io { file: "thread of the log".to_owned(), source })?,
        };
        Ok(Self { shared, flusher: Arc::new(flusher) })
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The purged position and the last one.
    pub(crate) fn bounds(&self) -> (Option<Position>, Option<Position>) {
        let index = self.shared.index();
        (index.purged(), index.last())
    }

    /// Why the log can no longer be written.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.shared.failure.get().map(String::as_str)
    }

    /// Adds entries: readable at once, durable when `done` says so.
    pub(crate) fn append(&self, entries: Vec<Record>, done: Done) -> io::Result<()> {
        let mut index = self.shared.index();
        for entry in &entries {
            if !index.push(entry, None) {
                let last = index.last();
                let message = format!("entry {:?} cannot follow {last:?}", entry.position);
                return Err(io::Error::other(message));
            }
        }
        drop(index);
        let bytes: usize = entries.iter().map(|entry| record::footprint(entry.payload.len())).sum();
        self.shared.grown.fetch_add(bytes as u64, Ordering::Relaxed);
        self.flusher.submit(Operation::Append(entries, done));
        Ok(())
    }

    /// Makes the entries behind `last`, or all, void.
    pub(crate) fn truncate_after(&self, last: Option<Position>, done: Done) {
        self.shared.index().truncate_after(last.map(|last| last.index));
        let mark = Record {
            kind: last.map_or(Kind::TruncateAll, |_| Kind::Truncate),
            position: last.unwrap_or(Position { term: 0, index: 0 }),
            payload: bytes::Bytes::new(),
        };
        self.flusher.submit(Operation::Mark(mark, done));
    }

    /// Forgets the entries up to `upto`, which a durable snapshot holds.
    pub(crate) fn purge(&self, upto: Position, done: Done) {
        self.shared.index().purge(upto);
        self.flusher.submit(Operation::Purge(upto, done));
    }

    /// Whether the log grew by more than `limit` since this was last true.
    pub(crate) fn take_grown(&self, limit: u64) -> bool {
        let grown = &self.shared.grown;
        let more = |bytes| (bytes > limit).then_some(0);
        grown.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    pub(crate) fn vote(&self) -> Option<Ballot> {
        *self.shared.vote.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn save_vote(&self, vote: Ballot, done: Done) {
        *self.shared.vote.lock().unwrap_or_else(PoisonError::into_inner) = Some(vote);
        self.flusher.submit(Operation::Vote(vote, done));
    }

    /// The entries of `range` that are in the log, from memory or from the disk.
    pub(crate) fn read(&self, range: Range<u64>) -> io::Result<Vec<Record>> {
        let located = self.shared.index().locate(range);
        let mut open = None;
        located
            .into_iter()
            .map(|entry| match entry {
                Located::Here(record) => Ok(record),
                Located::OnDisk { kind, position, place, length } => {
                    let file = match open.take() {
                        Some((sequence, file)) if sequence == place.sequence => file,
                        _ => self.shared.disk.open(&segment::name(place.sequence))?,
                    };
                    let mut payload = vec![0; length];
                    file.read_at(place.offset as u64, &mut payload)?;
                    open = Some((place.sequence, file));
                    Ok(Record { kind, position, payload: payload.into() })
                }
            })
            .collect()
    }

    /// Finishes what was asked for; the log cannot be written afterwards.
    pub(crate) fn stop(&self) {
        self.flusher.stop();
    }
}

#[cfg(test)]
mod tests;
