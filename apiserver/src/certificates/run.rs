//! The leader's part: every request is looked at when it changes and when its time comes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use litek8s_daemon::pki::Authority;
use litek8s_store::{Command, GroupResource, Object, ObjectKey, Precondition, Revision, View};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::decide::{Facts, Step, decide};
use super::{GROUP, RESOURCE};
use crate::api::Api;

/// How long after a failure a request is looked at again.
const RETRY: Duration = Duration::from_millis(500);

/// Approves, signs and removes requests until `over`; every write is bound to `term`.
pub(crate) async fn run(api: Arc<Api>, authority: Arc<Authority>, term: u64, over: CancellationToken) {
    let mut applied = api.replica.applied();
    // What a request was when it was last looked at, and when its time comes.
    let mut known: BTreeMap<ObjectKey, (Revision, Timestamp)> = BTreeMap::new();
    loop {
        applied.borrow_and_update();
        let view = api.replica.view();
        let now = api.clock.now();
        let mut failed = false;
        let mut present = BTreeMap::new();
        for object in view.list(&GroupResource::new(GROUP, RESOURCE), None) {
            if let Some(seen) = known.get(&object.key)
                && seen.0 == object.revision
                && seen.1 > now
            {
                present.insert(object.key.clone(), *seen);
                continue;
            }
            match look(&api, &authority, &view, object, now) {
                Look::Again(due) => {
                    present.insert(object.key.clone(), (object.revision, due));
                }
                Look::Write(command) => {
                    if let Err(error) = api.replica.propose(*command, Some(term)).await {
                        tracing::warn!(%error, name = &*object.key.name, "a certificate request will be tried again");
                        failed = true;
                    }
                }
            }
        }
        known = present;
        let next = known.values().map(|(_, due)| wait(*due, now)).min();
        let wake = next.into_iter().chain(failed.then_some(RETRY)).min();
        tokio::select! {
            () = over.cancelled() => return,
            changed = applied.changed() => if changed.is_err() { return },
            () = async { match wake {
                Some(wake) => tokio::time::sleep(wake).await,
                None => std::future::pending().await,
            } } => {}
        }
    }
}

/// What a look at a request ends in.
enum Look {
    /// Nothing to do before this time.
    Again(Timestamp),
    /// This is to be written now.
    Write(Box<Command>),
}

/// When to look again, or what to do now.
fn look(api: &Api, authority: &Authority, view: &View, object: &Object, now: Timestamp) -> Look {
    let Ok(mut request) = serde_json::from_slice::<Value>(&object.json) else {
        return Look::Again(Timestamp::MAX);
    };
    if let Some(metadata) = request["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    let facts = Facts { view, authorizer: &api.authorizer, authority, now };
    let key = object.key.clone();
    let precondition =
        Precondition { uid: Some(object.meta.uid.as_str().into()), revision: Some(object.revision) };
    match decide(&request, &facts) {
        Step::Wait(due) => Look::Again(due),
        Step::Remove if object.meta.finalizers.is_empty() => {
            Look::Write(Box::new(Command::Delete { key, precondition }))
        }
        // Whoever put the finalizer there decides when it goes.
        Step::Remove => Look::Again(Timestamp::MAX),
        Step::Change(request) => {
            let (object, claims) = (Bytes::from(request.to_string()), object.claims.to_vec());
            Look::Write(Box::new(Command::Update { key, object, precondition, claims }))
        }
    }
}

fn wait(due: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(due.duration_since(now)).unwrap_or(Duration::ZERO)
}
