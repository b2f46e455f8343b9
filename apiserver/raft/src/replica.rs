//! A server's copy of the cluster's state, and the way to change it.

mod opening;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use litek8s_store::{Command, Entry, GroupResource, Outcome, Rejection, Revision, View};
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{ClientWriteError, RaftError};
use openraft::type_config::alias::WatchReceiverOf;
use openraft::{BasicNode, Raft, RaftMetrics, ReadPolicy, ServerState};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};

use crate::config::Config;
use crate::disk::Disk;
use crate::error::{OpenError, ProposeError, ReadError};
use crate::identity::Identity;
use crate::log::Log;
use crate::machine::{Machine, Published};
use crate::network::NoNetwork;
use crate::proposer::Proposer;
use crate::snapshot::{Snapshots, State};
use crate::status::{Leadership, ReplicaStatus};
use crate::storage::LogStorage;
use crate::types::{Proposal, TypeConfig};
use opening::{check_continuity, failed, log_options, open_disk, raft_config};

/// Between two tries to reach a leader.
const RETRY: Duration = Duration::from_millis(10);

/// A server's copy of the cluster's state. Clones share it.
#[derive(Clone)]
pub struct Replica {
    inner: Arc<Inner>,
}

struct Inner {
    raft: Raft<TypeConfig, Machine>,
    log: Log,
    disk: Arc<dyn Disk>,
    identity: Identity,
    published: Arc<Published>,
    leadership: watch::Receiver<Leadership>,
    sole_voter: Arc<AtomicBool>,
    proposer: Proposer,
    patience: Duration,
    snapshot_bytes: u64,
    observer: Mutex<Option<JoinHandle<()>>>,
}

impl Replica {
    /// Recovers the state from the disk and takes part in the cluster.
    ///
    /// A new directory begins a cluster of one. Returns once this server leads and has applied
    /// its whole log, if it is the only one that can.
    pub async fn open(config: Config) -> Result<Self, OpenError> {
        let disk = open_disk(&config)?;
        let identity = Identity::load_or_create(disk.as_ref(), (config.random)())?;
        let (snapshots, found) = Snapshots::open(disk.clone(), config.history)?;
        let state = found.unwrap_or_else(|| State::empty(config.history));
        let log = Log::open(disk.clone(), config.clock.clone(), &log_options(&config))?;
        check_continuity(&log, &state)?;
        let storage = LogStorage::new(log.clone(), identity.node);
        let machine = Machine::new(state, snapshots, config.history, config.flushing);
        let published = machine.published();
        let raft_config = raft_config(&config)?;
        let raft = Raft::new(identity.node, Arc::new(raft_config), NoNetwork, storage.clone(), machine)
            .await
            .map_err(failed)?;
        let (sender, leadership) = watch::channel(Leadership::default());
        let observer = tokio::spawn(observe(raft.metrics(), sender));
        let replica = Self {
            inner: Arc::new(Inner {
                raft,
                log,
                disk,
                identity,
                published,
                leadership,
                sole_voter: storage.sole_voter(),
                proposer: Proposer::new((config.random)()),
                patience: config.patience,
                snapshot_bytes: config.snapshot_bytes,
                observer: Mutex::new(Some(observer)),
            }),
        };
        replica.start(&config, &storage).await?;
        Ok(replica)
    }

    async fn start(&self, config: &Config, storage: &LogStorage) -> Result<(), OpenError> {
        let raft = &self.inner.raft;
        if !raft.is_initialized().await.map_err(failed)? {
            let addr = config.node_name.clone();
            let members = BTreeMap::from([(self.inner.identity.node, BasicNode { addr })]);
            raft.initialize(members).await.map_err(failed)?;
        }
        let members = raft
            .with_raft_state(|state| state.membership_state.effective().membership().clone())
            .await
            .map_err(failed)?;
        storage.note_membership(&members);
        if !self.inner.sole_voter.load(Ordering::SeqCst) {
            return Ok(());
        }
        // Does nothing where initialisation has begun the election.
        raft.trigger().elect(false).await.map_err(failed)?;
        let deadline = Instant::now() + config.patience;
        self.leader(deadline).await.map(|_| ()).ok_or_else(|| failed("no leader in time"))
    }

    /// Changes the state. The change is durable and visible here when this returns.
    ///
    /// With `bound_term` it is made in that term of leadership or not at all. If the future is
    /// dropped, the change may still be made.
    pub async fn propose(&self, command: Command, bound_term: Option<u64>) -> Result<Outcome, ProposeError> {
        let ticket = self.inner.proposer.ticket();
        let proposal = Proposal(Arc::new(Entry {
            session: self.inner.proposer.session,
            sequence: ticket.sequence,
            acknowledged: ticket.acknowledged,
            bound_term,
            command,
        }));
        let deadline = Instant::now() + self.inner.patience;
        let mut possible = false;
        loop {
            let Some(leadership) = self.leader(deadline).await else {
                let reason = self.reason();
                return Err(if possible {
                    ProposeError::Unknown(reason)
                } else {
                    ProposeError::NotApplied(reason)
                });
            };
            if !possible && bound_term.is_some_and(|bound| bound != leadership.term) {
                return Ok(Outcome::Rejected(Rejection::Fenced));
            }
            let write = self.inner.raft.client_write(proposal.clone());
            match timeout_at(deadline, write).await {
                Ok(Ok(response)) => {
                    self.bound_log().await;
                    let missing = || ProposeError::Unknown("an entry without outcome".to_owned());
                    return response.data.0.ok_or_else(missing);
                }
                // The same session and sequence: trying again applies it once.
                Ok(Err(RaftError::APIError(ClientWriteError::ForwardToLeader(_)))) => {}
                Ok(Err(RaftError::APIError(ClientWriteError::LogEntryDiscarded(_)))) => {
                    possible = true;
                }
                Ok(Err(RaftError::APIError(error))) => {
                    return Err(ProposeError::NotApplied(error.to_string()));
                }
                Ok(Err(RaftError::Fatal(error))) => {
                    return Err(ProposeError::Unknown(error.to_string()));
                }
                Err(_) => {
                    return Err(ProposeError::Unknown("no quorum answered in time".to_owned()));
                }
            }
            sleep(RETRY).await;
        }
    }

    /// Waits until this server has applied everything that was acknowledged anywhere before
    /// this call, and returns the revision it is at then.
    pub async fn read_barrier(&self) -> Result<Revision, ReadError> {
        let deadline = Instant::now() + self.inner.patience;
        loop {
            if self.leader(deadline).await.is_none() {
                return Err(ReadError::NoLeader(self.reason()));
            }
            // Nobody else can have acknowledged anything, and what this server acknowledges
            // it has published before.
            if self.inner.sole_voter.load(Ordering::SeqCst) {
                return Ok(self.inner.published.view().revision());
            }
            // Each call begins a heartbeat round of its own, behind its arrival.
            let confirmed = self.inner.raft.ensure_linearizable(ReadPolicy::ReadIndex);
            match timeout_at(deadline, confirmed).await {
                Ok(Ok(_)) => return Ok(self.inner.published.view().revision()),
                Ok(Err(RaftError::Fatal(error))) => {
                    return Err(ReadError::NoLeader(error.to_string()));
                }
                Ok(Err(RaftError::APIError(_))) | Err(_) => sleep(RETRY).await,
            }
        }
    }

    /// The state as this server has applied it, in constant time.
    pub fn view(&self) -> View {
        self.inner.published.view()
    }

    /// The revision of [`Replica::view`], whenever it changes.
    pub fn applied(&self) -> watch::Receiver<Revision> {
        self.inner.published.revision()
    }

    /// A revision of [`Replica::view`], whenever objects of one resource changed.
    pub fn changes(&self, resource: &GroupResource) -> watch::Receiver<Revision> {
        self.inner.published.changes(resource)
    }

    /// Whether this server leads, whenever that changes.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.inner.leadership.clone()
    }

    /// The state of the replica, for health checks and metrics.
    pub fn status(&self) -> ReplicaStatus {
        let metrics = self.inner.raft.metrics().borrow_watched().clone();
        let syncs = &self.inner.log.shared().syncs;
        let broken = metrics.running_state.as_ref().err().map(ToString::to_string);
        ReplicaStatus {
            node: self.inner.identity.node,
            cluster: self.inner.identity.cluster,
            leadership: *self.inner.leadership.borrow(),
            leader: metrics.current_leader,
            voters: metrics.membership_config.voter_ids().collect(),
            last_log: metrics.last_log_index,
            applied: self.inner.published.applied(),
            snapshot: metrics.snapshot.map(|id| id.index),
            revision: self.inner.published.view().revision(),
            syncs: syncs.count(),
            sync_p50: syncs.percentile(50),
            sync_p99: syncs.percentile(99),
            failure: self.inner.log.failure().map(str::to_owned).or(broken),
        }
    }

    /// Writes a snapshot soon, whatever the number of entries since the last.
    pub async fn snapshot(&self) -> Result<(), ProposeError> {
        let asked = self.inner.raft.trigger().snapshot().await;
        asked.map_err(|error| ProposeError::NotApplied(error.to_string()))
    }

    /// Ends the replica: what was acknowledged is on the disk, and the directory is free.
    pub async fn stop(&self) {
        if self.inner.raft.shutdown().await.is_err() {
            tracing::error!("the task of raft panicked");
        }
        let observer = self.inner.observer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(observer) = observer {
            // It ends with raft; an error is its panic, which was logged.
            let _ = observer.await;
        }
        let log = self.inner.log.clone();
        if tokio::task::spawn_blocking(move || log.stop()).await.is_err() {
            tracing::error!("the log did not stop");
        }
        self.inner.disk.release();
    }

    /// Waits until this server leads; nothing if it does not by then or cannot any more.
    async fn leader(&self, deadline: Instant) -> Option<Leadership> {
        let mut leadership = self.inner.leadership.clone();
        let now = *leadership.borrow();
        if now.leader {
            return Some(now);
        }
        let led = leadership.wait_for(|leadership| leadership.leader);
        let led = timeout_at(deadline, led).await;
        led.ok()?.ok().map(|leadership| *leadership)
    }

    /// Large entries fill the disk long before there are many of them.
    async fn bound_log(&self) {
        if self.inner.log.take_grown(self.inner.snapshot_bytes) {
            // It fails only when raft has ended, which the next proposal reports.
            let _ = self.inner.raft.trigger().snapshot().await;
        }
    }

    fn reason(&self) -> String {
        self.status().failure.unwrap_or_else(|| "there is no leader".to_owned())
    }
}

/// Tells who leads: a leader that has applied an entry of its term has applied all before it.
async fn observe(
    mut metrics: WatchReceiverOf<TypeConfig, RaftMetrics<TypeConfig>>,
    leadership: watch::Sender<Leadership>,
) {
    loop {
        let now = {
            let seen = metrics.borrow_watched();
            let applied = seen.last_applied.map(|id| id.leader_id.term);
            Leadership {
                term: seen.current_term,
                leader: seen.running_state.is_ok()
                    && seen.state == ServerState::Leader
                    && applied == Some(seen.current_term),
            }
        };
        leadership.send_if_modified(|present| {
            let changed = *present != now;
            *present = now;
            changed
        });
        if metrics.changed().await.is_err() {
            break;
        }
    }
    leadership.send_modify(|present| present.leader = false);
}

#[cfg(test)]
mod tests;
