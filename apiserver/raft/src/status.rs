//! What a replica says of itself.

use std::time::Duration;

use litek8s_store::Revision;

/// Who leads, as far as this server knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    /// The current term.
    pub term: u64,
    /// Whether this server leads it and has applied everything before it.
    pub leader: bool,
}

/// The state of a replica, for health checks and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaStatus {
    /// The number of this server in the cluster.
    pub node: u64,
    /// The number of the cluster.
    pub cluster: u128,
    /// Who leads.
    pub leadership: Leadership,
    /// The server that leads, if one is known.
    pub leader: Option<u64>,
    /// The servers whose votes count.
    pub voters: Vec<u64>,
    /// The index of the last entry in the log.
    pub last_log: Option<u64>,
    /// The index of the last entry applied.
    pub applied: Option<u64>,
    /// The index up to which a snapshot holds everything.
    pub snapshot: Option<u64>,
    /// The revision of the store.
    pub revision: Revision,
    /// How often the log was synced since the start.
    pub syncs: u64,
    /// The time that half of the syncs did not exceed.
    pub sync_p50: Duration,
    /// The time that 99 of 100 syncs did not exceed.
    pub sync_p99: Duration,
    /// Why this server can no longer write; it has to be restarted.
    pub failure: Option<String>,
}
