//! Shows the store to openraft: applies what is committed, and publishes views of it.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use futures::{FutureExt, Stream, StreamExt};
use litek8s_store::{GroupResource, Limits, Outcome, Revision, View};
use openraft::storage::{ApplyResponder, EntryResponder, RaftSnapshotBuilder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend};
use tokio::sync::watch;

use crate::config::Flushing;
use crate::snapshot::{SnapshotFile, Snapshots, State};
use crate::types::{Answer, LogId, Payload, Snapshot, SnapshotMeta, StoredMembership, TypeConfig};

/// Entries applied between two views at most, so that their proposers do not wait for more.
const BATCH: usize = 256;

/// What readers see of the machine.
pub(crate) struct Published {
    view: RwLock<View>,
    revision: watch::Sender<Revision>,
    /// The resources that somebody waits for.
    resources: RwLock<BTreeMap<GroupResource, watch::Sender<Revision>>>,
    /// One more than the index of the last entry applied.
    applied: AtomicU64,
}

impl Published {
    fn new(view: View, applied: Option<LogId>) -> Self {
        Self {
            revision: watch::Sender::new(view.revision()),
            resources: RwLock::default(),
            view: RwLock::new(view),
            applied: AtomicU64::new(count(applied)),
        }
    }

    pub(crate) fn applied(&self) -> Option<u64> {
        self.applied.load(Ordering::Relaxed).checked_sub(1)
    }

    pub(crate) fn view(&self) -> View {
        self.view.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn revision(&self) -> watch::Receiver<Revision> {
        self.revision.subscribe()
    }

    /// A revision that moves whenever objects of the resource changed.
    pub(crate) fn changes(&self, resource: &GroupResource) -> watch::Receiver<Revision> {
        let mut resources = self.resources.write().unwrap_or_else(PoisonError::into_inner);
        let sender = resources.entry(resource.clone());
        sender.or_insert_with(|| watch::Sender::new(self.view().revision())).subscribe()
    }

    fn publish(&self, view: View, applied: Option<LogId>) {
        self.applied.store(count(applied), Ordering::Relaxed);
        let before = {
            let mut present = self.view.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *present, view.clone()).revision()
        };
        raise(&self.revision, view.revision());
        let resources = self.resources.read().unwrap_or_else(PoisonError::into_inner);
        match view.events_after(before, usize::MAX) {
            Ok(events) => {
                let changed = events.iter().filter_map(|event| resources.get(&event.object.key.resource));
                changed.for_each(|sender| raise(sender, view.revision()));
            }
            // A snapshot of another server: anything may have changed.
            Err(_) => resources.values().for_each(|sender| raise(sender, view.revision())),
        }
    }
}

/// Wakes those who wait, once for each revision.
fn raise(sender: &watch::Sender<Revision>, revision: Revision) {
    sender.send_if_modified(|present| std::mem::replace(present, revision) != revision);
}

fn count(applied: Option<LogId>) -> u64 {
    applied.map_or(0, |id| id.index + 1)
}

/// The state machine of openraft.
pub(crate) struct Machine {
    state: State,
    published: Arc<Published>,
    snapshots: Arc<Snapshots>,
    limits: Limits,
    flushing: Flushing,
}

impl Machine {
    pub(crate) fn new(state: State, snapshots: Snapshots, limits: Limits, flushing: Flushing) -> Self {
        Self {
            published: Arc::new(Published::new(state.store.view(), state.applied)),
            state,
            snapshots: Arc::new(snapshots),
            limits,
            flushing,
        }
    }

    pub(crate) fn published(&self) -> Arc<Published> {
        self.published.clone()
    }

    fn apply_entry(&mut self, id: LogId, payload: Payload) -> Option<Outcome> {
        self.state.applied = Some(id);
        match payload {
            EntryPayload::Blank => None,
            EntryPayload::Normal(proposal) => {
                let entry = Arc::unwrap_or_clone(proposal.0);
                Some(self.state.store.apply(id.leader_id.term, entry))
            }
            EntryPayload::Membership(membership) => {
                self.state.membership = StoredMembership::new(Some(id), membership);
                None
            }
        }
    }

    /// Shows what was applied, then answers: whoever has an answer sees it.
    fn publish(&self, answers: &mut Vec<(ApplyResponder<TypeConfig>, Option<Outcome>)>) {
        self.published.publish(self.state.store.view(), self.state.applied);
        for (responder, outcome) in answers.drain(..) {
            responder.send(Answer(outcome));
        }
    }
}

impl RaftStateMachine<TypeConfig> for Machine {
    type SnapshotData = SnapshotFile;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        Ok((self.state.applied, self.state.membership.clone()))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> io::Result<()>
    where
        Strm: Stream<Item = io::Result<EntryResponder<TypeConfig>>> + Unpin + OptionalSend,
    {
        let mut answers = Vec::new();
        let mut unseen = 0;
        loop {
            let next = match Pin::new(&mut entries).next().now_or_never() {
                Some(next) => next,
                None => {
                    self.publish(&mut answers);
                    entries.next().await
                }
            };
            let Some(next) = next else { break };
            let (entry, responder) = next?;
            let outcome = self.apply_entry(entry.log_id, entry.payload);
            if let Some(responder) = responder {
                answers.push((responder, outcome));
            }
            unseen += 1;
            if unseen == BATCH {
                unseen = 0;
                self.publish(&mut answers);
                // A long replay must not hold the thread.
                tokio::task::yield_now().await;
            }
        }
        self.publish(&mut answers);
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        Builder { state: self.state.clone(), snapshots: self.snapshots.clone(), flushing: self.flushing }
    }

    async fn install_snapshot(&mut self, _meta: &SnapshotMeta, snapshot: SnapshotFile) -> io::Result<()> {
        let snapshots = self.snapshots.clone();
        let limits = self.limits;
        let state = blocking(self.flushing, move || {
            let state = snapshot.read(limits)?;
            snapshots.save(&state)?;
            Ok(state)
        })
        .await?;
        self.state = state;
        self.publish(&mut Vec::new());
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        Ok(self.snapshots.current().map(|(meta, snapshot)| Snapshot { meta, snapshot }))
    }
}

/// Writes a snapshot of a state that nobody changes any more.
pub(crate) struct Builder {
    state: State,
    snapshots: Arc<Snapshots>,
    flushing: Flushing,
}

impl RaftSnapshotBuilder<TypeConfig> for Builder {
    type SnapshotData = SnapshotFile;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let (state, snapshots) = (self.state.clone(), self.snapshots.clone());
        let (meta, snapshot) = blocking(self.flushing, move || snapshots.save(&state)).await?;
        Ok(Snapshot { meta, snapshot })
    }
}

/// Waits for the disk without holding a thread of the runtime, where there are threads.
async fn blocking<T: Send + 'static>(
    flushing: Flushing,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match flushing {
        Flushing::Inline => work(),
        Flushing::Thread => tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?,
    }
}
