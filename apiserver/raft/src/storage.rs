//! Shows the log to openraft, in openraft's types.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures::{Stream, stream};
use litek8s_store::Entry;
use openraft::entry::RaftEntry as _;
use openraft::storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage};
use openraft::vote::{RaftLeaderId, RaftVote as _};
use openraft::{EntryPayload, OptionalSend};
use tokio::sync::oneshot;

use crate::log::{Ballot, Done, Kind, Log, Record};
use crate::membership;
use crate::types::{LeaderId, LogId, Membership, Proposal, RaftEntry, RaftVote, TypeConfig};

/// Entries read from the log at a time while they are applied.
const CHUNK: u64 = 256;

/// The log as openraft wants it. Clones share it.
#[derive(Clone)]
pub(crate) struct LogStorage {
    log: Log,
    node: u64,
    sole_voter: Arc<AtomicBool>,
}

impl LogStorage {
    pub(crate) fn new(log: Log, node: u64) -> Self {
        Self { log, node, sole_voter: Arc::default() }
    }

    /// Whether nobody else can vote or lead. Exact: a membership counts as soon as it is
    /// appended, before another server can have it.
    pub(crate) fn sole_voter(&self) -> Arc<AtomicBool> {
        self.sole_voter.clone()
    }

    pub(crate) fn note_membership(&self, membership: &Membership) {
        let alone = is_alone(self.node, membership);
        self.sole_voter.store(alone, Ordering::SeqCst);
    }
}

fn is_alone(node: u64, membership: &Membership) -> bool {
    let configs = membership.get_joint_config();
    !configs.is_empty() && configs.iter().all(|config| config.iter().eq([&node]))
}

fn to_record(entry: &RaftEntry) -> Record {
    let (kind, payload) = match &entry.payload {
        EntryPayload::Blank => (Kind::Blank, Bytes::new()),
        EntryPayload::Normal(proposal) => (Kind::Command, proposal.0.encode().into()),
        EntryPayload::Membership(members) => (Kind::Membership, membership::encode(members).into()),
    };
    Record { kind, position: entry.log_id.into(), payload }
}

fn to_entry(record: Record) -> io::Result<RaftEntry> {
    let payload = match record.kind {
        Kind::Command => {
            let entry = Entry::decode(record.payload).map_err(io::Error::other)?;
            EntryPayload::Normal(Proposal(Arc::new(entry)))
        }
        Kind::Membership => {
            let members = membership::decode(record.payload).map_err(io::Error::other)?;
            EntryPayload::Membership(members)
        }
        Kind::Blank | Kind::Truncate | Kind::TruncateAll | Kind::Purge => EntryPayload::Blank,
    };
    Ok(RaftEntry::new(record.position.into(), payload))
}

fn to_range(range: &impl RangeBounds<u64>) -> std::ops::Range<u64> {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(last) => last.saturating_add(1),
        Bound::Excluded(end) => *end,
        Bound::Unbounded => u64::MAX,
    };
    start..end
}

/// Does something with the log and waits until it is durable.
async fn durably(start: impl FnOnce(Done)) -> io::Result<()> {
    let (sender, receiver) = oneshot::channel();
    start(Box::new(move |result| {
        // The receiver is gone only when openraft is.
        let _ = sender.send(result);
    }));
    receiver.await.map_err(io::Error::other)?
}

impl RaftLogReader<TypeConfig> for LogStorage {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<RaftEntry>> {
        let records = self.log.read(to_range(&range))?;
        records.into_iter().map(to_entry).collect()
    }

    async fn entries_stream<RB>(
        &mut self,
        range: RB,
    ) -> impl Stream<Item = io::Result<RaftEntry>> + OptionalSend
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        let range = to_range(&range);
        let log = self.log.clone();
        let chunks = stream::unfold(range.start, move |start| {
            let end = range.end.min(start.saturating_add(CHUNK));
            let records = (start < end).then(|| log.read(start..end));
            async move {
                let entries: Vec<_> = match records? {
                    Ok(records) => records.into_iter().map(to_entry).collect(),
                    Err(error) => vec![Err(error)],
                };
                (!entries.is_empty()).then_some((stream::iter(entries), end))
            }
        });
        futures::StreamExt::flatten(chunks)
    }

    async fn read_vote(&mut self) -> io::Result<Option<RaftVote>> {
        Ok(self.log.vote().map(|ballot| {
            let leader = LeaderId::new(ballot.term, ballot.node);
            RaftVote::from_leader_id(leader, ballot.elected)
        }))
    }
}

impl RaftLogStorage<TypeConfig> for LogStorage {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<TypeConfig>> {
        let (purged, last) = self.log.bounds();
        Ok(LogState { last_purged_log_id: purged.map(Into::into), last_log_id: last.map(Into::into) })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &RaftVote) -> io::Result<()> {
        let leader = vote.leader_id();
        let ballot = Ballot { term: leader.term, node: leader.voted_for, elected: vote.is_committed() };
        durably(|done| self.log.save_vote(ballot, done)).await
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<TypeConfig>) -> io::Result<()>
    where
        I: IntoIterator<Item = RaftEntry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut records = Vec::new();
        for entry in entries {
            if let EntryPayload::Membership(members) = &entry.payload {
                self.note_membership(members);
            }
            records.push(to_record(&entry));
        }
        self.log.append(records, Box::new(|result| callback.io_completed(result)))
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        // A membership may be among what goes; the slow way is right for any.
        self.sole_voter.store(false, Ordering::SeqCst);
        durably(|done| self.log.truncate_after(last.map(Into::into), done)).await
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        durably(|done| self.log.purge(upto.into(), done)).await
    }
}
