//! What is due: found from the history of the store, taken by whoever acts.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use litek8s_store::{Command, Revision, View};

use super::decide::{Facts, decide};
use super::expiry::Expiries;
use super::subject::{self, Subject};
use crate::registry::Table;

/// Changes read from the history at a time.
const CHANGES: usize = 1000;

/// Subjects that are due, and Events that will be.
#[derive(Default)]
pub(super) struct Agenda {
    /// The newest change that was looked at; none before everything was.
    cursor: Option<Revision>,
    due: BTreeSet<Subject>,
    expiries: Expiries,
}

impl Agenda {
    /// Follows the history up to `view`.
    pub(super) fn follow(&mut self, view: &View, table: &Table, now: Timestamp) {
        let Some(mut cursor) = self.cursor else { return self.look_at_everything(view, now) };
        loop {
            match view.events_after(cursor, CHANGES) {
                // The history does not reach back so far.
                Err(_) => return self.look_at_everything(view, now),
                Ok(events) => {
                    let Some(last) = events.last() else { break };
                    cursor = last.revision;
                    for event in &events {
                        subject::of_event(view, table, event, &mut self.due);
                        self.expiries.follow(event, now);
                    }
                }
            }
        }
        self.cursor = Some(cursor);
    }

    fn look_at_everything(&mut self, view: &View, now: Timestamp) {
        self.cursor = Some(view.revision());
        let resources: Vec<_> = view.resources().map(|(resource, _)| resource.clone()).collect();
        for object in resources.iter().flat_map(|resource| view.list(resource, None)) {
            subject::of_object(object, &mut self.due);
            self.expiries.note(object, now);
        }
    }

    /// What is to be done now; each command with the subject to come back to when it fails.
    pub(super) fn take(&mut self, facts: &Facts<'_>) -> Vec<(Subject, Command)> {
        self.due.extend(self.expiries.take_due(facts.now).into_iter().map(Subject::Ended));
        let mut work = Vec::new();
        for subject in std::mem::take(&mut self.due) {
            let commands = decide(facts, &subject);
            work.extend(commands.into_iter().map(|command| (subject.clone(), command)));
        }
        work
    }

    /// Comes back to subjects.
    pub(super) fn put_back(&mut self, subjects: BTreeSet<Subject>, now: Timestamp) {
        for subject in subjects {
            if let Subject::Ended(key) = subject {
                self.expiries.put_back(key, now);
            } else {
                self.due.insert(subject);
            }
        }
    }

    /// How long until something is due without any change.
    pub(super) fn wait(&self, now: Timestamp) -> Option<Duration> {
        self.expiries.wait(now)
    }
}
