//! Pods on nodes that drive them away: deleted when they do not tolerate it, or not any longer. And pods on nodes that are
//! not ready, which are not ready either. As kube-controller-manager's taint eviction and node lifecycle controllers.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use litek8s_store::Object;
use serde_json::{Value, json};

use super::action::{Action, Decision, Note};
use super::condition::{self, Condition};
use super::facts::Facts;
use super::kind::Kind;
use super::nodes::{Driving, Health, tolerates};
use super::read::{self, list, text};
use crate::endpoints::metadata;

/// The condition of a pod that goes because of something else.
pub(super) const TARGET: &str = "DisruptionTarget";

/// What is to be done about a pod.
pub(super) fn decide(facts: &Facts<'_>, object: &Arc<Object>) -> Decision {
    let Some(node) = facts.index.node_of(&object.key).and_then(|name| facts.index.nodes().get(name)) else {
        return Decision::nothing();
    };
    if node.driving.is_empty() && (node.is_ready() || node.since.is_none()) {
        return Decision::nothing();
    }
    let Some(value) = read::value(object) else { return Decision::nothing() };
    if let Some(action) = unready(node, &value, facts.now) {
        return vec![action].into();
    }
    if object.meta.is_terminating() {
        return Decision::nothing();
    }
    match end(&value, &node.driving) {
        Some(end) if end <= facts.now => evicted(value, object, facts.now).into(),
        Some(end) => {
            let mut decision = Decision::nothing();
            decision.wake(end);
            decision
        }
        None => Decision::nothing(),
    }
}

/// A pod is not ready when its node has not been since before; one that became ready later knows better.
fn unready(node: &Health, pod: &Value, now: Timestamp) -> Option<Action> {
    let since = node.since.filter(|_| !node.is_ready() && !node.ready.is_empty())?;
    let ready = condition::find(&pod["status"], "Ready").filter(|ready| ready["status"] == "True")?;
    if read::time(&ready["lastTransitionTime"]).is_some_and(|at| at > since) {
        return None;
    }
    let mut ready = ready.clone();
    ready["status"] = json!("False");
    ready["lastTransitionTime"] = json!(metadata::time(now));
    let mut changed = pod.clone();
    condition::put(&mut changed["status"], ready);
    Some(Action::status(Kind::Pod, changed).noted(Note::warning("NodeNotReady", "Node is not ready")))
}

/// When the pod does not tolerate its node any longer; the past when it never did, `None` for never.
fn end(pod: &Value, driving: &[Driving]) -> Option<Timestamp> {
    let tolerations = list(&pod["spec"]["tolerations"]);
    let ends = driving.iter().filter_map(|taint| {
        let Some(toleration) = tolerations.iter().find(|toleration| tolerates(toleration, taint)) else {
            return Some(Timestamp::MIN);
        };
        let seconds = toleration["tolerationSeconds"].as_i64()?;
        Some(taint.since.checked_add(SignedDuration::from_secs(seconds.max(0))).unwrap_or(Timestamp::MAX))
    });
    ends.min()
}

fn evicted(pod: Value, object: &Arc<Object>, now: Timestamp) -> Vec<Action> {
    let condition = Condition {
        ty: TARGET,
        status: "True",
        reason: "DeletionByTaintManager",
        message: "Taint manager: deleting due to NoExecute taint",
    };
    let mut changed = pod;
    let status = metadata::object(&mut changed, "status");
    let known = condition::find(status, TARGET).is_some_and(|known| known["status"] == "True");
    let mut actions = Vec::new();
    if !known {
        condition::set(status, &condition, now);
        actions.push(Action::status(Kind::Pod, changed));
    }
    let place = format!("{}/{}", object.key.namespace, object.key.name);
    let note = Note::new("TaintManagerEviction", format!("Marking for deletion Pod {place}"));
    actions.push(Action::delete(Kind::Pod, object).noted(note));
    actions
}

/// Takes back the notice of a pod that did not go.
pub(super) fn kept(pod: &Value, now: Timestamp) -> Option<Result<Action, Timestamp>> {
    let told = condition::find(&pod["status"], TARGET).filter(|told| told["status"] == "True")?;
    if text(&told["reason"]) == "TerminationByKubelet" {
        return None;
    }
    let end = read::time(&told["lastTransitionTime"])?.checked_add(SignedDuration::from_mins(2)).ok()?;
    if end > now {
        return Some(Err(end));
    }
    let mut changed = pod.clone();
    let condition = Condition { ty: TARGET, status: "False", reason: "", message: "" };
    condition::set(&mut changed["status"], &condition, now);
    Some(Ok(Action::status(Kind::Pod, changed)))
}
