//! Which state a read sees: the newest, one not older than asked for, or exactly one; never what is read from it.

use std::time::Duration;

use litek8s_machinery::status::Status;
use litek8s_raft::Replica;
use litek8s_store::View;

use crate::response::Failure;

/// How long a read waits for a revision that this server has not applied yet.
const REVISION_WAIT: Duration = Duration::from_secs(3);

/// A state that holds every write finished before this was called.
pub(crate) async fn newest(replica: &Replica) -> Result<View, Failure> {
    match replica.read_barrier().await {
        Ok(_) => Ok(replica.view()),
        Err(error) => Err(Status::service_unavailable(error.to_string()).retry_after(1)),
    }
}

/// The state for a resource version given as a number: `None` the newest, 0 any, else one at least that new.
pub(crate) async fn not_older_than(replica: &Replica, revision: Option<u64>) -> Result<View, Failure> {
    let Some(wanted) = revision else { return newest(replica).await };
    let view = replica.view();
    if view.revision() >= wanted {
        return Ok(view);
    }
    let mut applied = replica.applied();
    let reached = tokio::time::timeout(REVISION_WAIT, applied.wait_for(|now| *now >= wanted)).await;
    match reached {
        Ok(Ok(_)) => Ok(replica.view()),
        Ok(Err(_)) => Err(Status::service_unavailable("the server is shutting down").retry_after(1)),
        Err(_) => Err(Status::resource_version_too_large(wanted, replica.view().revision())),
    }
}

/// Exactly the state of a revision, or 410 when it is no longer kept.
pub(crate) async fn exactly(replica: &Replica, revision: u64) -> Result<View, Failure> {
    let view = not_older_than(replica, Some(revision)).await?;
    view.at(revision).map_err(|expired| too_old(expired.requested, expired.oldest))
}

/// 410: the resource version is no longer kept.
pub(crate) fn too_old(requested: u64, oldest: u64) -> Failure {
    Status::expired(format!("too old resource version: {requested} ({oldest})"))
}
