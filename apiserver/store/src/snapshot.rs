//! The whole store as bytes: objects, sessions and the newest part of the history.
//!
//! Versioned; framing and checksum belong to whoever keeps the bytes.

use std::io::{self, Write};
use std::sync::Arc;

use bytes::Bytes;

use crate::codec::{DecodeError, Reader, Writer, read_object, read_outcome, write_object, write_outcome};
use crate::event::{Event, EventKind};
use crate::history::{History, Limits};
use crate::session::{Session, Sessions};
use crate::store::Store;

const VERSION: u8 = 1;

/// Watchers that were at most this far behind go on after a restart.
const TAIL_EVENTS: usize = 1_000;
const TAIL_BYTES: usize = 4 << 20;

impl Store {
    /// Writes everything that a server needs to go on from here. `sink` should be buffered.
    pub fn encode(&self, sink: &mut dyn Write) -> io::Result<()> {
        let to = &mut Writer::new(sink);
        to.tag(VERSION)?;
        to.number(self.frame.revision)?;
        to.size(self.frame.tables.values().map(|table| table.len()).sum())?;
        for table in self.frame.tables.values() {
            for object in table.values() {
                write_object(to, object)?;
            }
        }
        write_sessions(to, &self.sessions)?;
        let tail = self.history.tail(TAIL_EVENTS, TAIL_BYTES);
        to.size(tail.len())?;
        tail.iter().try_for_each(|event| write_event(to, event))
    }

    /// The store that [`Store::encode`] wrote, keeping this much history from now on.
    pub fn decode(bytes: Bytes, limits: Limits) -> Result<Self, DecodeError> {
        let from = &mut Reader::new(bytes);
        let version = from.tag()?;
        if version != VERSION {
            return Err(from.error(format!("snapshot version {version}")));
        }
        let mut store = Self::new(limits);
        let revision = from.number()?;
        for _ in 0..from.size()? {
            let mut object = read_object(from)?;
            object.key.resource = store.frame.interned(&object.key.resource);
            store.frame.put(Arc::new(object));
        }
        store.frame.revision = revision;
        store.sessions = read_sessions(from)?;
        read_history(from, &mut store)?;
        from.finish()?;
        Ok(store)
    }
}

fn write_sessions(to: &mut Writer<'_>, sessions: &Sessions) -> io::Result<()> {
    to.number(sessions.clock)?;
    to.size(sessions.by_id.len())?;
    for (id, session) in &sessions.by_id {
        to.wide(*id)?;
        to.number(session.floor)?;
        to.number(session.used)?;
        to.size(session.outcomes.len())?;
        for (sequence, outcome) in &session.outcomes {
            to.number(*sequence)?;
            write_outcome(to, outcome)?;
        }
    }
    Ok(())
}

fn read_sessions(from: &mut Reader) -> Result<Sessions, DecodeError> {
    let mut sessions = Sessions { clock: from.number()?, ..Sessions::default() };
    for _ in 0..from.size()? {
        let id = from.wide()?;
        let mut session = Session { floor: from.number()?, used: from.number()?, ..Session::default() };
        for _ in 0..from.size()? {
            let sequence = from.number()?;
            session.outcomes.insert(sequence, read_outcome(from)?);
        }
        sessions.by_id.insert(id, session);
    }
    Ok(sessions)
}

const ADDED: u8 = 1;
const MODIFIED: u8 = 2;
const DELETED: u8 = 3;

fn write_event(to: &mut Writer<'_>, event: &Event) -> io::Result<()> {
    to.tag(match event.kind {
        EventKind::Added => ADDED,
        EventKind::Modified => MODIFIED,
        EventKind::Deleted => DELETED,
    })?;
    write_object(to, &event.object)?;
    match &event.previous {
        None => to.tag(0),
        Some(previous) => {
            to.tag(1)?;
            write_object(to, previous)
        }
    }
}

fn read_history(from: &mut Reader, store: &mut Store) -> Result<(), DecodeError> {
    let count = from.size()?;
    let since = store.frame.revision.saturating_sub(count as u64);
    let mut history = History::new(store.history.limits(), since);
    for left in (0..count).rev() {
        let kind = match from.tag()? {
            ADDED => EventKind::Added,
            MODIFIED => EventKind::Modified,
            DELETED => EventKind::Deleted,
            other => return Err(from.error(format!("event {other}"))),
        };
        let object = Arc::new(read_object(from)?);
        let previous = match from.tag()? {
            0 => None,
            1 => Some(Arc::new(read_object(from)?)),
            other => return Err(from.error(format!("presence {other}"))),
        };
        if object.revision + left as u64 != store.frame.revision {
            return Err(from.error("history that does not lead to the snapshot"));
        }
        history.push_past(Event { revision: object.revision, kind, object, previous });
    }
    store.history = history;
    Ok(())
}

#[cfg(test)]
mod tests;
