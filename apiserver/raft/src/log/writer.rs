//! Writes records into segments and makes them durable, one batch with one sync.
//!
//! The only one who writes segments. The first error is the last thing it does: after a
//! failed sync nobody knows what is on the disk.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use super::index::Place;
use super::record::{self, Kind, Position, Record};
use super::vote::{self, Ballot};
use super::{Shared, segment};
use crate::disk::DiskFile;

/// Called once, when an operation is durable or has failed.
pub(crate) type Done = Box<dyn FnOnce(io::Result<()>) + Send>;

/// What the log is asked to do, in order.
pub(crate) enum Operation {
    Append(Vec<Record>, Done),
    /// A truncation: a mark among the records.
    Mark(Record, Done),
    Purge(Position, Done),
    Vote(Ballot, Done),
}

/// The next segment is made ready in pieces of this size, between batches.
const INSTALMENT: usize = 1 << 20;
const SPARE: &str = "spare.tmp";

struct Spare {
    file: Box<dyn DiskFile>,
    filled: usize,
    size: usize,
    synced: bool,
}

/// A segment that is full.
pub(crate) struct Full {
    pub(crate) sequence: u64,
    /// The highest index among its entries.
    pub(crate) last: Option<u64>,
}

/// The segment that is written.
pub(crate) struct Active {
    pub(crate) file: Box<dyn DiskFile>,
    pub(crate) sequence: u64,
    pub(crate) size: usize,
    pub(crate) end: usize,
    pub(crate) last: Option<u64>,
}

pub(crate) struct Writer {
    shared: Arc<Shared>,
    segment_size: usize,
    full: VecDeque<Full>,
    active: Active,
    spare: Option<Spare>,
    buffer: Vec<u8>,
    placed: Vec<(Position, Place)>,
    waiting: Vec<Done>,
}

impl Writer {
    pub(crate) fn new(
        shared: Arc<Shared>,
        segment_size: usize,
        full: VecDeque<Full>,
        active: Active,
    ) -> Self {
        Self {
            shared,
            segment_size,
            full,
            active,
            spare: None,
            buffer: Vec::new(),
            placed: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// Does the operations in order and answers each.
    pub(crate) fn process(&mut self, operations: Vec<Operation>) {
        let mut result = self.shared.check();
        for operation in operations {
            result = match result {
                Ok(()) => self.start(operation),
                Err(error) => {
                    let (Operation::Append(_, done)
                    | Operation::Mark(_, done)
                    | Operation::Purge(_, done)
                    | Operation::Vote(_, done)) = operation;
                    self.waiting.push(done);
                    Err(error)
                }
            };
        }
        if let Err(error) = result.and_then(|()| self.flush()).and_then(|()| self.prepare()) {
            self.shared.fail(&error);
            for done in self.waiting.drain(..) {
                done(Err(io::Error::new(error.kind(), error.to_string())));
            }
        }
    }

    /// On an error the operation waits among the others, to be told.
    fn start(&mut self, operation: Operation) -> io::Result<()> {
        match operation {
            Operation::Append(records, done) => {
                let staged = records.iter().try_for_each(|record| self.stage(record));
                self.waiting.push(done);
                staged
            }
            Operation::Mark(mark, done) => {
                let staged = self.stage(&mark);
                self.waiting.push(done);
                staged
            }
            Operation::Purge(upto, done) => {
                let mark = Record { kind: Kind::Purge, position: upto, payload: bytes::Bytes::new() };
                // The mark has to be durable before what it stands for goes.
                let purged = self.stage(&mark).and_then(|()| self.flush());
                let purged = purged.and_then(|()| self.drop_segments(upto.index));
                self.finish(purged, done)
            }
            Operation::Vote(ballot, done) => {
                let saved = self.flush();
                let saved = saved.and_then(|()| self.shared.disk.replace(vote::FILE, &ballot.encode()));
                self.finish(saved, done)
            }
        }
    }

    fn finish(&mut self, result: io::Result<()>, done: Done) -> io::Result<()> {
        match result {
            Ok(()) => done(Ok(())),
            Err(_) => self.waiting.push(done),
        }
        result
    }

    /// Adds a record to the batch, in a new segment if this one is full.
    fn stage(&mut self, record: &Record) -> io::Result<()> {
        if record.payload.len() > record::MAX_PAYLOAD {
            return Err(io::Error::other("an entry larger than a gibibyte"));
        }
        let footprint = record::footprint(record.payload.len());
        if self.active.end + self.buffer.len() + footprint > self.active.size {
            self.flush()?;
            self.roll(segment::HEADER + footprint)?;
        }
        let start = self.active.end + self.buffer.len();
        let batch = u32::try_from(self.active.end).map_err(io::Error::other)?;
        record::encode(&mut self.buffer, record, self.active.sequence, batch);
        match record.kind {
            Kind::Blank | Kind::Command | Kind::Membership => {
                self.active.last = self.active.last.max(Some(record.position.index));
                let place = Place { sequence: self.active.sequence, offset: start + record::HEADER };
                self.placed.push((record.position, place));
            }
            Kind::Truncate | Kind::TruncateAll | Kind::Purge => {}
        }
        Ok(())
    }

    /// Makes the batch durable and tells those who wait.
    fn flush(&mut self) -> io::Result<()> {
        if !self.buffer.is_empty() {
            let begin = self.shared.clock.now();
            self.active.file.write_at(self.active.end as u64, &self.buffer)?;
            self.active.file.sync()?;
            self.shared.syncs.record(self.shared.clock.now().saturating_sub(begin));
            self.active.end += self.buffer.len();
            self.buffer.clear();
            self.buffer.shrink_to(INSTALMENT);
            let mut index = self.shared.index();
            for (position, place) in self.placed.drain(..) {
                index.place(position, place);
            }
        }
        for done in self.waiting.drain(..) {
            done(Ok(()));
        }
        Ok(())
    }

    /// Begins the next segment with room for at least `needed` bytes.
    fn roll(&mut self, needed: usize) -> io::Result<()> {
        let fits = self.spare.take().filter(|spare| spare.size >= needed);
        let spare = match fits {
            Some(spare) => spare,
            None => self.new_spare(needed)?,
        };
        let sequence = self.active.sequence + 1;
        let active = begin(&self.shared, spare, sequence)?;
        let full = std::mem::replace(&mut self.active, active);
        self.full.push_back(Full { sequence: full.sequence, last: full.last });
        Ok(())
    }

    fn new_spare(&self, needed: usize) -> io::Result<Spare> {
        Ok(Spare {
            file: self.shared.disk.create(SPARE)?,
            filled: 0,
            size: self.segment_size.max(needed),
            synced: false,
        })
    }

    /// Fills a piece of the next segment, so that beginning it costs nothing.
    fn prepare(&mut self) -> io::Result<()> {
        if self.active.end < self.active.size / 2 {
            return Ok(());
        }
        let mut spare = match self.spare.take() {
            Some(spare) => spare,
            None => self.new_spare(0)?,
        };
        spare.fill(INSTALMENT)?;
        if spare.filled == spare.size && !spare.synced {
            spare.file.sync()?;
            spare.synced = true;
        }
        self.spare = Some(spare);
        Ok(())
    }

    fn drop_segments(&mut self, upto: u64) -> io::Result<()> {
        let mut dropped = false;
        while self.full.front().is_some_and(|full| full.last.is_none_or(|last| last <= upto)) {
            if let Some(full) = self.full.pop_front() {
                self.shared.disk.remove(&segment::name(full.sequence))?;
                dropped = true;
            }
        }
        if dropped {
            self.shared.disk.sync_directory()?;
        }
        Ok(())
    }
}

impl Spare {
    fn fill(&mut self, most: usize) -> io::Result<()> {
        let piece = most.min(self.size - self.filled);
        if piece > 0 {
            self.file.write_at(self.filled as u64, &vec![0; piece])?;
            self.filled += piece;
        }
        Ok(())
    }
}

/// Gives a spare its header, then its name: a segment that can be seen has a durable header.
fn begin(shared: &Shared, mut spare: Spare, sequence: u64) -> io::Result<Active> {
    spare.fill(usize::MAX)?;
    spare.file.write_at(0, &segment::header(sequence))?;
    spare.file.sync()?;
    shared.disk.rename(SPARE, &segment::name(sequence))?;
    shared.disk.sync_directory()?;
    Ok(Active { file: spare.file, sequence, size: spare.size, end: segment::HEADER, last: None })
}

/// The first segment of a new log.
pub(crate) fn first(shared: &Shared, sequence: u64, size: usize) -> io::Result<Active> {
    let spare = Spare { file: shared.disk.create(SPARE)?, filled: 0, size, synced: false };
    begin(shared, spare, sequence)
}
