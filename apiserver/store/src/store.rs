//! The state machine itself.

use std::sync::Arc;

use crate::command::{Command, Entry, Precondition};
use crate::event::{Event, EventKind};
use crate::frame::Frame;
use crate::history::{History, Limits};
use crate::key::{ObjectKey, Revision};
use crate::object::Object;
use crate::outcome::{Outcome, Rejection};
use crate::session::{Recall, Sessions};
use crate::view::View;

/// All objects, their history and the sessions. A clone is cheap and independent.
#[derive(Clone)]
pub struct Store {
    pub(crate) frame: Frame,
    pub(crate) history: History,
    pub(crate) sessions: Sessions,
}

impl Default for Store {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Store {
    /// An empty store that keeps this much history.
    pub fn new(limits: Limits) -> Self {
        Self { frame: Frame::default(), history: History::new(limits, 0), sessions: Sessions::default() }
    }

    /// The number of mutations applied.
    pub fn revision(&self) -> Revision {
        self.frame.revision
    }

    /// A picture of the present, in constant time.
    pub fn view(&self) -> View {
        View::new(self.frame.clone(), self.history.clone())
    }

    /// Applies one entry of the log, which its leader appended in `term`.
    ///
    /// A proposal that was applied before is answered as it was then, and changes nothing.
    pub fn apply(&mut self, term: u64, entry: Entry) -> Outcome {
        match self.sessions.recall(entry.session, entry.sequence) {
            Recall::New => {}
            Recall::Known(outcome) => return outcome,
            Recall::Forgotten => return Outcome::Rejected(Rejection::Fenced),
        }
        let outcome = if entry.bound_term.is_some_and(|bound| bound != term) {
            Outcome::Rejected(Rejection::Fenced)
        } else {
            self.execute(entry.command)
        };
        self.sessions.remember(entry.session, entry.sequence, entry.acknowledged, &outcome);
        outcome
    }

    fn execute(&mut self, command: Command) -> Outcome {
        let done = match command {
            Command::Batch(commands) => self.batch(commands),
            Command::Create { .. } | Command::Update { .. } | Command::Delete { .. } => self.change(command),
        };
        done.unwrap_or_else(Outcome::Rejected)
    }

    fn batch(&mut self, commands: Vec<Command>) -> Result<Outcome, Rejection> {
        let before = (self.frame.clone(), self.history.clone());
        let outcomes: Result<Vec<_>, _> = commands.into_iter().map(|command| self.change(command)).collect();
        if outcomes.is_err() {
            (self.frame, self.history) = before;
        }
        outcomes.map(Outcome::Batch)
    }

    fn change(&mut self, command: Command) -> Result<Outcome, Rejection> {
        let next = self.frame.revision + 1;
        match command {
            Command::Create { key, object, claims } => {
                if self.frame.get(&key).is_some() {
                    return Err(Rejection::AlreadyExists);
                }
                let object = self.build(key, next, &object, claims)?;
                Ok(Outcome::Created(self.commit(EventKind::Added, object)))
            }
            Command::Update { key, object, precondition, claims } => {
                self.current(&key, &precondition)?;
                let object = self.build(key, next, &object, claims)?;
                Ok(Outcome::Updated(self.commit(EventKind::Modified, object)))
            }
            Command::Delete { key, precondition } => {
                let last = self.current(&key, &precondition)?.at_revision(next);
                Ok(Outcome::Deleted(self.commit(EventKind::Deleted, last)))
            }
            Command::Batch(_) => Err(Rejection::Malformed("a batch holds no batch".to_owned())),
        }
    }

    fn current(&self, key: &ObjectKey, must: &Precondition) -> Result<&Arc<Object>, Rejection> {
        let current = self.frame.get(key).ok_or(Rejection::NotFound)?;
        if let Some(uid) = &must.uid
            && **uid != *current.meta.uid
        {
            return Err(Rejection::UidMismatch { current: current.meta.uid.as_str().into() });
        }
        if must.revision.is_some_and(|revision| revision != current.revision) {
            return Err(Rejection::RevisionMismatch { current: current.revision });
        }
        Ok(current)
    }

    fn build(
        &self,
        mut key: ObjectKey,
        revision: Revision,
        json: &[u8],
        claims: Vec<crate::command::Claim>,
    ) -> Result<Object, Rejection> {
        if let Some((claim, by)) = self.frame.conflict(&key, &claims) {
            return Err(Rejection::Claimed { claim, by });
        }
        key.resource = self.frame.interned(&key.resource);
        Object::build(key, revision, json, claims).map_err(Rejection::Malformed)
    }

    fn commit(&mut self, kind: EventKind, object: Object) -> Arc<Object> {
        let object = Arc::new(object);
        let revision = object.revision;
        let previous = match kind {
            EventKind::Added | EventKind::Modified => self.frame.put(object.clone()),
            EventKind::Deleted => self.frame.remove(&object.key),
        };
        self.frame.revision = revision;
        let event = Event { revision, kind, object: object.clone(), previous };
        self.history.push(event, &self.frame);
        object
    }
}

#[cfg(test)]
mod tests;
