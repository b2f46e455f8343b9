//! The parts of a replica's start: its directory, its settings, and what they must agree on.

use std::sync::Arc;
use std::time::Duration;

use openraft::SnapshotPolicy;

use crate::config::Config;
use crate::disk::{Disk, RealDisk};
use crate::error::OpenError;
use crate::log::{Log, LogError, LogOptions, Position};
use crate::snapshot::State;

/// The directory of the replica in the server's.
const DIRECTORY: &str = "raft";

pub(super) fn failed(error: impl ToString) -> OpenError {
    OpenError::Raft(error.to_string())
}

pub(super) fn open_disk(config: &Config) -> Result<Arc<dyn Disk>, OpenError> {
    if let Some(disk) = &config.disk {
        return Ok(disk.clone());
    }
    let path = config.data_dir.join(DIRECTORY);
    let directory = path.display().to_string();
    match RealDisk::open(&path) {
        Ok(disk) => Ok(Arc::new(disk)),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Err(OpenError::InUse { directory }),
        Err(source) => Err(OpenError::Directory { directory, source }),
    }
}

pub(super) fn log_options(config: &Config) -> LogOptions {
    LogOptions { segment_size: config.segment_size, cache: config.log_cache, flushing: config.flushing }
}

/// Refuses a log that does not reach back to the snapshot: state in between would be lost.
pub(super) fn check_continuity(log: &Log, state: &State) -> Result<(), OpenError> {
    let (purged, _) = log.bounds();
    let applied = state.applied.map(Position::from);
    if purged > applied {
        return Err(OpenError::Log(LogError::Corrupt {
            file: "snapshot".to_owned(),
            offset: 0,
            what: format!("the log begins behind {purged:?} and the snapshot ends at {applied:?}"),
        }));
    }
    Ok(())
}

pub(super) fn raft_config(config: &Config) -> Result<openraft::Config, OpenError> {
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    openraft::Config {
        cluster_name: "litek8s".to_owned(),
        heartbeat_interval: millis(config.timers.heartbeat),
        election_timeout_min: millis(config.timers.election_min),
        election_timeout_max: millis(config.timers.election_max),
        snapshot_policy: SnapshotPolicy::LogsSinceLast(config.snapshot_entries),
        max_in_snapshot_log_to_keep: config.keep_entries,
        purge_batch_size: 256,
        // Statistics that nobody reads.
        log_stage_capacity: Some(1),
        enable_pre_vote: Some(true),
        // Every start is a term of its own, so that writes bound to an earlier one are fenced.
        enable_leader_restore: Some(false),
        ..openraft::Config::default()
    }
    .validate()
    .map_err(failed)
}
