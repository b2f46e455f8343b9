//! What the leader does to objects on its own: emptying namespaces, collecting garbage, default objects of namespaces,
//! the end of Events and of CustomResourceDefinitions.
//!
//! `decide` functions look at one subject in a view and say which commands it needs; the loop here turns changes into
//! subjects, and commands into proposals bound to the term. Nothing is polled: the only timer is the end of an Event.

mod address;
mod agenda;
mod decide;
mod definition;
mod edit;
mod expiry;
mod garbage;
mod namespace;
mod namespace_defaults;
mod removal;
mod service_cidr;
mod subject;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use litek8s_store::{Command, Outcome, Rejection};
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use agenda::Agenda;
use decide::Facts;
use subject::Subject;

/// Proposals in flight at a time; they share the disk's syncs.
const IN_FLIGHT: usize = 32;
/// How long after a proposal that failed its subject is looked at again.
const RETRY: Duration = Duration::from_millis(500);

/// Looks after all objects until `over`; every write is bound to `term`.
pub(crate) async fn run(api: Arc<Api>, term: u64, over: CancellationToken) {
    let mut applied = api.replica.applied();
    let mut contents = api.aggregation.contents();
    let mut lifecycle = Lifecycle { api, term, agenda: Agenda::default() };
    loop {
        applied.borrow_and_update();
        let failed = lifecycle.settle().await;
        let now = lifecycle.api.clock.now();
        let retry = failed.then_some(RETRY);
        let wake = lifecycle.agenda.wait(now).into_iter().chain(retry).min();
        tokio::select! {
            () = over.cancelled() => return,
            changed = applied.changed() => if changed.is_err() { return },
            changed = contents.changed() => match changed {
                Ok(()) => lifecycle.agenda.put_back(subject::terminating(&lifecycle.api.replica.view()), now),
                Err(_) => return,
            },
            () = sleep(wake) => {}
        }
    }
}

async fn sleep(wake: Option<Duration>) {
    match wake {
        Some(wake) => tokio::time::sleep(wake).await,
        None => std::future::pending().await,
    }
}

struct Lifecycle {
    api: Arc<Api>,
    term: u64,
    agenda: Agenda,
}

impl Lifecycle {
    /// Decides and acts until nothing is due; true when something must be tried again.
    async fn settle(&mut self) -> bool {
        let mut failed = BTreeSet::new();
        loop {
            let (view, table) = (self.api.replica.view(), self.api.registry.table());
            let now = self.api.clock.now();
            self.agenda.follow(&view, &table, now);
            let contents = self.api.aggregation.contents().borrow().clone();
            let aggregated = !self.api.aggregation.backends(&self.api.replica).is_empty();
            let facts = Facts {
                view: &view,
                table: &table,
                ca: &self.api.ca,
                service_cidrs: &self.api.service_cidrs,
                now,
                aggregated: aggregated.then_some(&contents),
            };
            let work = self.agenda.take(&facts);
            if work.is_empty() {
                break;
            }
            failed.extend(self.act(work).await);
        }
        let again = !failed.is_empty();
        self.agenda.put_back(failed, self.api.clock.now());
        again
    }

    /// Proposes the commands; the subjects of those that were not applied.
    async fn act(&self, work: Vec<(Subject, Command)>) -> BTreeSet<Subject> {
        let proposals = work.into_iter().map(|(subject, command)| async move {
            let failed = match self.api.replica.propose(command, Some(self.term)).await {
                Ok(Outcome::Rejected(rejection @ (Rejection::Claimed { .. } | Rejection::Malformed(_)))) => {
                    tracing::warn!(%rejection, ?subject, "a lifecycle change was refused");
                    false
                }
                // Whoever came between made a change of its own, and that is looked at.
                Ok(_) => false,
                Err(error) => {
                    tracing::warn!(%error, ?subject, "a lifecycle change will be tried again");
                    true
                }
            };
            failed.then_some(subject)
        });
        futures::stream::iter(proposals)
            .buffer_unordered(IN_FLIGHT)
            .filter_map(std::future::ready)
            .collect()
            .await
    }
}

#[cfg(test)]
mod tests;
