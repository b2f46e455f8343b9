//! What is due, what is being done, and what will be due by time alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use litek8s_store::{Revision, View};

use super::index::Index;
use super::subject::{self, Subject};

/// Changes read from the history at a time.
const CHANGES: usize = 1000;
/// How long after a first failure a subject is looked at again; doubled for each further one.
const FIRST_RETRY: SignedDuration = SignedDuration::from_millis(100);
/// How often that is doubled at most: after about a minute.
const DOUBLINGS: u32 = 9;
/// A timer that is so late was not looked at: this server was stopped, asleep, or its clock was set.
const LATE: SignedDuration = SignedDuration::from_secs(5);

/// The agenda.
#[derive(Default)]
pub(super) struct Agenda {
    /// The newest change that was looked at; none before everything was.
    cursor: Option<Revision>,
    /// Who selects what.
    pub(super) index: Index,
    due: BTreeSet<Subject>,
    busy: BTreeSet<Subject>,
    by_time: BTreeSet<(Timestamp, Subject)>,
    timers: BTreeMap<Subject, Timestamp>,
    failures: BTreeMap<Subject, u32>,
}

impl Agenda {
    /// Follows the history up to `view`.
    pub(super) fn follow(&mut self, view: &View, now: Timestamp) {
        if self.by_time.first().is_some_and(|(at, _)| now.duration_since(*at) > LATE) {
            self.index.listen_anew(now);
        }
        let Some(mut cursor) = self.cursor else { return self.look_at_everything(view, now) };
        loop {
            match view.events_after(cursor, CHANGES) {
                // The history does not reach back so far.
                Err(_) => return self.look_at_everything(view, now),
                Ok(events) => {
                    let Some(last) = events.last() else { break };
                    cursor = last.revision;
                    for event in &events {
                        if self.index.follow(event, now) {
                            subject::of_all_nodes(&self.index, &mut self.due);
                        }
                        subject::of_event(view, &self.index, event, &mut self.due);
                    }
                }
            }
        }
        self.cursor = Some(cursor);
    }

    fn look_at_everything(&mut self, view: &View, now: Timestamp) {
        self.cursor = Some(view.revision());
        self.index = Index::default();
        let resources: Vec<_> = view.resources().map(|(resource, _)| resource.clone()).collect();
        for object in resources.iter().flat_map(|resource| view.list(resource, None)) {
            self.index.note(object, now);
            subject::of_object(object, &mut self.due);
        }
    }

    /// The next subject that is due and not worked on; it is worked on until [`Agenda::done`].
    pub(super) fn take(&mut self, now: Timestamp) -> Option<Subject> {
        while let Some((at, _)) = self.by_time.first()
            && *at <= now
            && let Some((_, subject)) = self.by_time.pop_first()
        {
            self.timers.remove(&subject);
            self.due.insert(subject);
        }
        let next = self.due.iter().find(|subject| !self.busy.contains(*subject))?.clone();
        self.due.remove(&next);
        self.busy.insert(next.clone());
        Some(next)
    }

    /// A round of work on a subject is over; it is due again at `again`, and soon when the round failed.
    pub(super) fn done(&mut self, subject: Subject, again: Option<Timestamp>, failed: bool, now: Timestamp) {
        self.busy.remove(&subject);
        let mut wake = again;
        if failed {
            let failures = self.failures.entry(subject.clone()).or_default();
            let retry = now + FIRST_RETRY * 2_i32.pow((*failures).min(DOUBLINGS));
            *failures += 1;
            wake = Some(wake.map_or(retry, |at| at.min(retry)));
        } else {
            self.failures.remove(&subject);
        }
        if let Some(before) = self.timers.remove(&subject) {
            self.by_time.remove(&(before, subject.clone()));
        }
        if let Some(at) = wake {
            self.by_time.insert((at, subject.clone()));
            self.timers.insert(subject, at);
        }
    }

    /// How long until something is due without any change.
    pub(super) fn wait(&self, now: Timestamp) -> Option<Duration> {
        let (at, _) = self.by_time.first()?;
        Some(Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO))
    }
}
