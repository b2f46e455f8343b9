//! What can go wrong with a replica, by what its caller can do about it.

use crate::log::LogError;
use crate::snapshot::SnapshotError;

/// Why a replica cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has the directory.
    #[error("{directory} is in use by another process")]
    InUse {
        /// The directory.
        directory: String,
    },
    /// The directory cannot be used.
    #[error("cannot use {directory}")]
    Directory {
        /// The directory.
        directory: String,
        /// The disk's error.
        #[source]
        source: std::io::Error,
    },
    /// The log cannot be used.
    #[error("the raft log")]
    Log(#[from] LogError),
    /// The snapshot cannot be used.
    #[error("the snapshot")]
    Snapshot(#[from] SnapshotError),
    /// Raft did not start.
    #[error("raft did not start: {0}")]
    Raft(String),
}

/// Why there is no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// Nothing was changed, and nothing will be: it may be tried again.
    #[error("not applied: {0}")]
    NotApplied(String),
    /// The change may have been made or may still be made.
    #[error("it is not known whether it was applied: {0}")]
    Unknown(String),
}

/// Why the state cannot be read as of now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// No leader confirmed that it leads.
    #[error("no leader: {0}")]
    NoLeader(String),
}
