//! The replicated log and the only crate that names openraft; never what an object means.
//!
//! [`Replica`] is the whole of it for the API server. Below it, `log` and `snapshot` keep our
//! own formats on a [`disk::Disk`], and the adapters show them to openraft.

mod config;
pub mod disk;
mod error;
mod identity;
mod latency;
mod log;
mod machine;
mod membership;
mod network;
mod proposer;
mod replica;
mod snapshot;
mod status;
mod storage;
mod types;

pub use config::{Clock, Config, Flushing, MonotonicClock, Timers};
pub use error::{OpenError, ProposeError, ReadError};
pub use log::LogError;
pub use replica::Replica;
pub use snapshot::SnapshotError;
pub use status::{Leadership, ReplicaStatus};
