//! What runs on the leader and nowhere else, bound to its term: the first objects, lifecycles, aggregation, controllers.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use litek8s_daemon::pki::Authority;
use litek8s_raft::Leadership;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::Api;
use crate::authentication::InProcess;
use crate::health::Health;
use crate::{aggregation, authorization, bootstrap, certificates, flow_control, lifecycle, reconcile};

/// How long to wait before the first objects are tried again.
const RETRY: Duration = Duration::from_millis(200);
/// How long a task that ended before its term rests.
const AGAIN: Duration = Duration::from_secs(1);

/// How a controller in this process reaches the API; the token is good until the term ends.
#[derive(Clone)]
pub struct Access {
    /// The server's URL.
    pub url: String,
    /// The cluster's CA, PEM.
    pub ca_pem: String,
    /// The bearer token.
    pub token: String,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Runs beside the leader until its token is cancelled.
pub type OnLeader =
    Arc<dyn Fn(Access, CancellationToken) -> BoxFuture<'static, anyhow::Result<()>> + Send + Sync>;

/// Follows the leadership of this server.
pub(super) struct Leader {
    pub(super) api: Arc<Api>,
    pub(super) in_process: InProcess,
    pub(super) authority: Arc<Authority>,
    pub(super) health: Arc<Health>,
    pub(super) advertised: SocketAddr,
    pub(super) access_url: String,
    pub(super) on_leader: Option<OnLeader>,
}

impl Leader {
    /// Runs a term's work whenever this server leads, until `stop`.
    pub(super) async fn run(self, stop: CancellationToken) {
        let mut leadership = self.api.replica.leadership();
        loop {
            let now: Leadership = *leadership.borrow_and_update();
            if now.leader {
                tracing::info!(term = now.term, "leading");
                let over = stop.child_token();
                let working = self.term(now.term, over.clone());
                tokio::pin!(working);
                tokio::select! {
                    () = &mut working => {}
                    () = ended(&mut leadership, now.term) => {
                        over.cancel();
                        working.await;
                    }
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                changed = leadership.changed() => if changed.is_err() { return },
            }
        }
    }

    async fn term(&self, term: u64, over: CancellationToken) {
        while let Err(error) = bootstrap::ensure(&self.api, self.advertised, term).await {
            tracing::warn!(%error, "will try again");
            tokio::select! {
                () = over.cancelled() => return,
                () = tokio::time::sleep(RETRY) => {}
            }
        }
        self.health.set_bootstrapped();
        let tasks = TaskTracker::new();
        let work =
            Term { api: self.api.clone(), authority: self.authority.clone(), term, over: over.clone() };
        for (name, part) in PARTS {
            let work = work.clone();
            tasks.spawn(supervised(name, over.clone(), move || part(work.clone()).map(Ok)));
        }
        let token = self.in_process.for_term(term);
        if let Some(on_leader) = self.on_leader.clone() {
            let access = Access {
                url: self.access_url.clone(),
                ca_pem: self.api.ca.to_string(),
                token: token.token().to_owned(),
            };
            let until = over.clone();
            tasks.spawn(supervised("controllers", over, move || on_leader(access.clone(), until.clone())));
        }
        tasks.close();
        tasks.wait().await;
        drop(token);
    }
}

/// What the parts of a term's work need.
#[derive(Clone)]
struct Term {
    api: Arc<Api>,
    authority: Arc<Authority>,
    term: u64,
    over: CancellationToken,
}

/// A part of a term's work, which ends with the term.
type Part = fn(Term) -> BoxFuture<'static, ()>;

/// The work of every term, with the names that the log has for it. No part ends because of another one.
const PARTS: [(&str, Part); 7] = [
    ("cluster-role-aggregation", |t| {
        Box::pin(authorization::aggregate_cluster_roles(t.api.replica.clone(), t.term, t.over))
    }),
    ("lifecycle", |t| Box::pin(lifecycle::run(t.api, t.term, t.over))),
    ("reconcile", |t| Box::pin(reconcile::run(t.api, t.term, t.over))),
    ("flow-control", |t| Box::pin(flow_control::keep(t.api, t.term, t.over))),
    ("certificates", |t| Box::pin(certificates::run(t.api, t.authority, t.term, t.over))),
    ("aggregation", |t| Box::pin(aggregation::look_after(t.api, t.term, t.over))),
    ("aggregated-namespaces", |t| Box::pin(aggregation::empty_namespaces(t.api, t.over))),
];

/// Runs it again when it fails, panics or ends before the term does: the API goes on without it.
async fn supervised<F>(name: &'static str, over: CancellationToken, begin: impl Fn() -> F)
where
    F: Future<Output = anyhow::Result<()>>,
{
    while !over.is_cancelled() {
        match AssertUnwindSafe(begin()).catch_unwind().await {
            Ok(Ok(())) if over.is_cancelled() => return,
            Ok(Ok(())) => tracing::warn!(name, "a task of the leader ended, starting it again"),
            Ok(Err(error)) => {
                tracing::error!(
                    name,
                    error = format!("{error:#}"),
                    "a task of the leader failed, starting it again"
                )
            }
            // The panic hook has written the message and the place.
            Err(_) => tracing::error!(name, "a task of the leader panicked, starting it again"),
        }
        tokio::select! {
            () = over.cancelled() => {}
            () = tokio::time::sleep(AGAIN) => {}
        }
    }
}

/// Returns when the term is over.
async fn ended(leadership: &mut tokio::sync::watch::Receiver<Leadership>, term: u64) {
    loop {
        if leadership.changed().await.is_err() {
            return;
        }
        let now = *leadership.borrow_and_update();
        if !now.leader || now.term != term {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_or_fails_is_started_again() {
        let (over, begun) = (CancellationToken::new(), AtomicUsize::new(0));
        let task = || async {
            match begun.fetch_add(1, Ordering::Relaxed) {
                0 => panic!("an object it cannot deal with"),
                1 => anyhow::bail!("the disk is full"),
                _ => over.cancel(),
            }
            Ok(())
        };
        supervised("test", over.clone(), task).await;
        assert_eq!(begun.load(Ordering::Relaxed), 3);
    }
}
