//! Pods that nobody will end: on nodes that are gone or known to be off, deleted before they were on one, or ended and too
//! many. As kube-controller-manager's pod garbage collector.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::SignedDuration;
use litek8s_store::{Object, ObjectKey};
use serde::Deserialize;
use serde_json::json;

use super::action::{Action, Decision};
use super::condition::{self, Condition};
use super::facts::Facts;
use super::kind::Kind;
use super::read::{self, text};
use super::taint_eviction::{TARGET, kept};

/// How long a node may be missing before its pods are taken for lost.
const QUARANTINE: SignedDuration = SignedDuration::from_secs(40);
/// The most ended pods that are kept.
pub(super) const MOST_ENDED: usize = 12_500;
/// How many of those that are too many go before the next ones are looked for.
pub(super) const IN_A_ROW: usize = 32;

/// Pods that have ended, the oldest first.
pub(super) type Ended = BTreeSet<(String, ObjectKey)>;

/// What is to be done about a pod.
pub(super) fn decide(facts: &Facts<'_>, object: &Arc<Object>) -> Decision {
    let node = facts.index.node_of(&object.key);
    let mut decision = Decision::nothing();
    let missing = node.and_then(|node| facts.index.nodes().missing(node));
    if let Some(missing) = missing {
        let end = missing + QUARANTINE;
        if end <= facts.now {
            let why = Condition {
                ty: TARGET,
                status: "True",
                reason: "DeletionByPodGC",
                message: "PodGC: node no longer exists",
            };
            return ended(facts, object, Some(&why));
        }
        decision.wake(end);
    }
    let off = node
        .and_then(|node| facts.index.nodes().get(node))
        .is_some_and(|node| !node.is_ready() && node.out_of_service);
    let terminating = object.meta.is_terminating();
    if terminating && (off || node.is_none()) {
        return ended(facts, object, None);
    }
    if facts.index.surplus().any(|key| *key == object.key) && !terminating {
        return vec![Action::end(Kind::Pod, object)].into();
    }
    if !terminating && may_be_target(object) && !has_ended(object) {
        let value = read::value(object).unwrap_or_default();
        match kept(&value, facts.now) {
            Some(Ok(action)) => decision.actions.push(action),
            Some(Err(end)) => decision.wake(end),
            None => {}
        }
    }
    decision
}

/// The pod has failed, and goes at once.
fn ended(facts: &Facts<'_>, object: &Arc<Object>, why: Option<&Condition<'_>>) -> Decision {
    let mut actions = Vec::new();
    let mut value = read::value(object).unwrap_or_default();
    if !matches!(text(&value["status"]["phase"]), "Succeeded" | "Failed") {
        value["status"]["phase"] = json!("Failed");
        if let Some(why) = why {
            condition::set(&mut value["status"], why, facts.now);
        }
        actions.push(Action::status(Kind::Pod, value));
    }
    // One that was told so already only waits for its finalizers.
    if !object.meta.is_terminating() || object.meta.deletion_grace_period_seconds != Some(0) {
        actions.push(Action::end(Kind::Pod, object));
    }
    actions.into()
}

/// Whether the pod can have been told that it goes; most were not, and need not be parsed to see it.
fn may_be_target(object: &Object) -> bool {
    let text: &[u8] = TARGET.as_bytes();
    object.json.windows(text.len()).any(|window| window == text)
}

/// The name by which an ended pod is in line: its creation.
pub(super) fn line(object: &Object) -> (String, ObjectKey) {
    (object.meta.creation_timestamp.clone().unwrap_or_default(), object.key.clone())
}

/// Whether a pod has ended.
pub(super) fn has_ended(object: &Object) -> bool {
    let phase = serde_json::from_slice::<Wire>(&object.json).ok().and_then(|pod| pod.status?.phase);
    matches!(phase.as_deref(), Some("Succeeded" | "Failed"))
}

#[derive(Deserialize)]
struct Wire {
    status: Option<Status>,
}

#[derive(Deserialize)]
struct Status {
    phase: Option<String>,
}
