//! What a replica is told at its start, and what of the world it is handed.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use litek8s_store::Limits;

use crate::disk::Disk;

/// A clock that only goes forward.
pub trait Clock: Send + Sync + 'static {
    /// The time since some moment in the past.
    fn now(&self) -> Duration;
}

/// The clock of this machine.
pub struct MonotonicClock(Instant);

impl Default for MonotonicClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for MonotonicClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Who writes the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushing {
    /// A thread that joins what queues up during a sync.
    Thread,
    /// Whoever appends, at once: one order of events, for simulations.
    Inline,
}

/// The timers of Raft. A server alone elects itself at once whatever they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// How often a leader shows that it lives.
    pub heartbeat: Duration,
    /// The least a follower waits before it calls an election.
    pub election_min: Duration,
    /// The most it waits; also how long a leader's lease lasts.
    pub election_max: Duration,
}

impl Default for Timers {
    /// Slow enough for flushes of an SD card.
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(300),
            election_min: Duration::from_millis(1500),
            election_max: Duration::from_secs(3),
        }
    }
}

/// How a replica is run. [`Config::new`] has what a server uses.
#[derive(Clone)]
pub struct Config {
    /// The directory of the server; the replica keeps to `raft/` in it.
    pub data_dir: PathBuf,
    /// The name under which the server is known to the others.
    pub node_name: String,
    /// Where files go instead of `data_dir`.
    pub disk: Option<Arc<dyn Disk>>,
    /// Measures syncs.
    pub clock: Arc<dyn Clock>,
    /// Draws the numbers of the cluster and of this start's session.
    pub random: Arc<dyn Fn() -> u128 + Send + Sync>,
    /// Who writes the log.
    pub flushing: Flushing,
    /// Bytes of a log segment, below 4 GiB.
    pub segment_size: usize,
    /// Bytes of log entries kept in memory.
    pub log_cache: usize,
    /// A snapshot is written after this many entries.
    pub snapshot_entries: u64,
    /// A snapshot is written after this many bytes of entries, too.
    pub snapshot_bytes: u64,
    /// Entries kept behind a snapshot, for followers that were away.
    pub keep_entries: u64,
    /// How much of the past the store keeps.
    pub history: Limits,
    /// The timers of Raft.
    pub timers: Timers,
    /// How long a proposal or read waits for a leader.
    pub patience: Duration,
}

impl Config {
    /// A server named `node_name` with its data in `data_dir`.
    pub fn new(data_dir: impl Into<PathBuf>, node_name: impl Into<String>) -> Self {
        Self {
            data_dir: data_dir.into(),
            node_name: node_name.into(),
            disk: None,
            clock: Arc::new(MonotonicClock::default()),
            random: Arc::new(|| uuid::Uuid::new_v4().as_u128()),
            flushing: Flushing::Thread,
            segment_size: 16 << 20,
            log_cache: 4 << 20,
            snapshot_entries: 20_000,
            snapshot_bytes: 64 << 20,
            keep_entries: 2_000,
            history: Limits::default(),
            timers: Timers::default(),
            patience: Duration::from_secs(15),
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("data_dir", &self.data_dir)
            .field("node_name", &self.node_name)
            .finish_non_exhaustive()
    }
}
