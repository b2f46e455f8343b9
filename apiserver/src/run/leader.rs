//! What runs on the leader and nowhere else, bound to its term: the first objects, lifecycles, aggregation, controllers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use litek8s_daemon::pki::Authority;
use litek8s_raft::Leadership;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::Api;
use crate::authentication::InProcess;
use crate::health::Health;
use crate::{aggregation, authorization, bootstrap, certificates, lifecycle};

/// How long to wait before the first objects are tried again.
const RETRY: Duration = Duration::from_millis(200);

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
        tasks.spawn(authorization::aggregate_cluster_roles(self.api.replica.clone(), term, over.clone()));
        tasks.spawn(lifecycle::run(self.api.clone(), term, over.clone()));
        tasks.spawn(certificates::run(self.api.clone(), self.authority.clone(), term, over.clone()));
        tasks.spawn(aggregation::look_after(self.api.clone(), term, over.clone()));
        tasks.spawn(aggregation::empty_namespaces(self.api.clone(), over.clone()));
        let token = self.in_process.for_term(term);
        if let Some(on_leader) = &self.on_leader {
            let access = Access {
                url: self.access_url.clone(),
                ca_pem: self.api.ca.to_string(),
                token: token.token().to_owned(),
            };
            tasks.spawn(supervised(on_leader.clone(), access, over.clone()));
        }
        tasks.close();
        tasks.wait().await;
        drop(token);
    }
}

/// Runs it again when it fails: the API goes on without its controllers.
async fn supervised(on_leader: OnLeader, access: Access, over: CancellationToken) {
    while !over.is_cancelled() {
        match on_leader(access.clone(), over.clone()).await {
            Ok(()) if over.is_cancelled() => return,
            Ok(()) => tracing::warn!("the controllers ended, starting them again"),
            Err(error) => {
                tracing::error!(error = format!("{error:#}"), "the controllers failed, starting them again")
            }
        }
        tokio::select! {
            () = over.cancelled() => {}
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
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
