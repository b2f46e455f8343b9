//! What the status of a set says: how many pods there are, and why there are not more.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::action::{Action, Decision};
use super::super::condition::{self, Condition};
use super::super::facts::Facts;
use super::super::kind::Kind;
use super::super::pod::Pod;
use super::super::read;

const FAILURE: &str = "ReplicaFailure";

/// Brings the status up to date.
pub(super) fn decide(facts: &Facts<'_>, kind: Kind, value: &Value, pods: &[Pod<'_>]) -> Decision {
    let mut decision = Decision::nothing();
    let spec = &value["spec"];
    let seconds = spec["minReadySeconds"].as_i64().unwrap_or(0);
    let labels = read::texts(&spec["template"]["metadata"]["labels"]);
    let active: Vec<&Pod<'_>> = pods.iter().filter(|pod| pod.is_active()).collect();
    let labelled = active
        .iter()
        .filter(|pod| labels.iter().all(|(key, value)| pod.object.meta.labels.get(key) == Some(value)));
    let times: Vec<Timestamp> = active.iter().filter_map(|pod| pod.available_from(seconds)).collect();
    let available = times.iter().filter(|from| **from <= facts.now).count();
    if let Some(next) = times.iter().filter(|from| **from > facts.now).min() {
        decision.wake(*next);
    }
    let mut status = value["status"].clone();
    if !status.is_object() {
        status = json!({});
    }
    status["replicas"] = json!(active.len());
    status["fullyLabeledReplicas"] = json!(labelled.count());
    status["readyReplicas"] = json!(active.iter().filter(|pod| pod.is_ready()).count());
    status["availableReplicas"] = json!(available);
    status["observedGeneration"] = value["metadata"]["generation"].clone();
    if kind == Kind::ReplicaSet {
        let ending = pods.iter().filter(|pod| !pod.is_finished() && pod.object.meta.is_terminating());
        status["terminatingReplicas"] = json!(ending.count());
    }
    match facts.failed {
        Some(failed) => {
            let condition =
                Condition { ty: FAILURE, status: "True", reason: failed.reason, message: &failed.message };
            condition::set(&mut status, &condition, facts.now);
        }
        None => condition::remove(&mut status, FAILURE),
    }
    if !read::same(&status, &value["status"]) {
        let mut changed = value.clone();
        changed["status"] = status;
        decision.actions.push(Action::status(kind, changed));
    }
    decision
}
