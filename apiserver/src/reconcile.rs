//! The controllers of built-in kinds, as far as objects go: pods are created, owned, counted and deleted; nobody here
//! runs one.
//!
//! Changes in the store's history make subjects due. A `decide` function looks at one subject in one view and says which
//! writes it needs; the loop here carries them out through the API's own verbs, bound to the leader's term. Because a
//! write is visible in the next view, nobody has to remember what was asked for. Nothing is polled: the only timers are
//! times that decisions name.

mod act;
mod action;
mod agenda;
mod claim;
mod condition;
mod cron_job;
mod daemon_set;
mod deployment;
mod disruption;
mod endpoint_slice;
mod endpoints;
mod facts;
mod hash;
mod index;
mod job;
mod kind;
mod mirroring;
mod node;
mod nodes;
mod placement;
mod pod;
mod pod_garbage;
mod read;
mod record;
mod related;
mod replica_set;
mod resource_quota;
mod revision;
pub(crate) mod schedule;
mod secret;
mod service;
mod stateful_set;
mod subject;
mod taint_eviction;
mod template;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use litek8s_store::{Object, View};
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::registry::Table;
use act::{Actor, Ending};
use action::Failed;
use agenda::Agenda;
use facts::{Facts, decide};
use record::Recorder;
use subject::Subject;

/// Subjects worked on side by side.
const AT_ONCE: usize = 32;
/// Decisions made before other tasks get their turn.
const IN_A_ROW: usize = 64;

/// What came of a round of work on a subject.
struct Round {
    subject: Subject,
    again: Option<Timestamp>,
    ending: Ending,
}

/// Runs all controllers until `over`; every write is bound to `term`.
pub(crate) async fn run(api: Arc<Api>, term: u64, over: CancellationToken) {
    let mut applied = api.replica.applied();
    let mut controllers = Controllers {
        api,
        term,
        agenda: Agenda::default(),
        rounds: FuturesUnordered::new(),
        recorder: Arc::default(),
    };
    loop {
        applied.borrow_and_update();
        let more = controllers.begin();
        let wake = if more { Some(Duration::ZERO) } else { controllers.wait() };
        tokio::select! {
            () = over.cancelled() => return,
            changed = applied.changed() => if changed.is_err() { return },
            Some(round) = controllers.rounds.next() => controllers.end(round),
            () = async { match wake {
                Some(Duration::ZERO) => tokio::task::yield_now().await,
                Some(wake) => tokio::time::sleep(wake).await,
                None => std::future::pending().await,
            } } => {}
        }
    }
}

struct Controllers {
    api: Arc<Api>,
    term: u64,
    agenda: Agenda,
    rounds: FuturesUnordered<BoxFuture<'static, Round>>,
    recorder: Arc<Mutex<Recorder>>,
}

impl Controllers {
    /// Begins the work that is due; whether some is left for now.
    fn begin(&mut self) -> bool {
        let (view, table) = (self.api.replica.view(), self.api.registry.table());
        let now = self.api.clock.now();
        self.agenda.follow(&view, now);
        for _ in 0..IN_A_ROW {
            if self.rounds.len() >= AT_ONCE {
                return false;
            }
            let Some(subject) = self.agenda.take(now) else { return false };
            let facts = self.facts((&view, &table), now, None);
            let decision = decide(&facts, &subject);
            if decision.actions.is_empty() {
                self.agenda.done(subject, decision.again, false, now);
                continue;
            }
            let object = view.get(&subject.key()).cloned();
            let actor = self.actor(&subject, object);
            self.rounds.push(Box::pin(async move {
                let ending = actor.act(decision.actions).await;
                Round { subject, again: decision.again, ending }
            }));
        }
        true
    }

    fn actor(&self, subject: &Subject, object: Option<Arc<Object>>) -> Actor {
        Actor::new(self.api.clone(), self.term, subject, object, self.recorder.clone())
    }

    fn facts<'a>(
        &'a self,
        (view, table): (&'a View, &'a Table),
        now: Timestamp,
        failed: Option<&'a Failed>,
    ) -> Facts<'a> {
        let Api { ca, issuer, .. } = &*self.api;
        Facts { view, table, ca, issuer, index: &self.agenda.index, now, failed }
    }

    /// Ends a round; one that was refused leaves its reason in the status.
    fn end(&mut self, round: Round) {
        let Round { subject, again, ending } = round;
        let now = self.api.clock.now();
        let failed = match ending {
            Ending::Done => return self.agenda.done(subject, again, false, now),
            Ending::Again => return self.agenda.done(subject, again, true, now),
            Ending::Refused(failed) => failed,
        };
        let (view, table) = (self.api.replica.view(), self.api.registry.table());
        self.agenda.follow(&view, now);
        let facts = self.facts((&view, &table), now, Some(&failed));
        let mut decision = decide(&facts, &subject);
        decision.actions.retain(action::Action::is_status);
        let object = view.get(&subject.key()).cloned();
        let actor = self.actor(&subject, object);
        self.rounds.push(Box::pin(async move {
            actor.act(decision.actions).await;
            Round { subject, again, ending: Ending::Again }
        }));
    }

    /// How long until something is due without any change.
    fn wait(&self) -> Option<Duration> {
        if self.rounds.len() >= AT_ONCE {
            return None;
        }
        self.agenda.wait(self.api.clock.now())
    }
}

#[cfg(test)]
mod tests;
