//! Nodes: one that is silent is not known to be ready, and says so in its taints, which drive its pods away. As
//! kube-controller-manager's node lifecycle controller.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use litek8s_store::Object;
use serde_json::{Value, json};

use super::action::{Action, Decision, Note};
use super::condition;
use super::facts::Facts;
use super::kind::Kind;
use super::nodes::{NOT_READY, UNREACHABLE};
use super::read::{self, list, text};
use crate::endpoints::metadata;

/// How long a node may be silent, and how long one that has not said anything yet.
const GRACE: SignedDuration = SignedDuration::from_secs(40);
const STARTUP_GRACE: SignedDuration = SignedDuration::from_secs(60);
/// What a node is asked for, besides what it says.
const CONDITIONS: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];
/// Conditions that keep pods away, and by which taint.
const KEEPING_AWAY: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
];
/// The taint of a cordoned node.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Labels of old that follow those of now.
const LABELS: [(&str, &str); 2] =
    [("kubernetes.io/os", "beta.kubernetes.io/os"), ("kubernetes.io/arch", "beta.kubernetes.io/arch")];

/// What is to be done about a node.
pub(super) fn decide(facts: &Facts<'_>, object: &Arc<Object>) -> Decision {
    let Some(value) = read::value(object) else { return Decision::nothing() };
    let name = &*object.key.name;
    let ready = condition::find(&value["status"], "Ready").map(|ready| text(&ready["status"]));
    let grace = if ready.is_some() { GRACE } else { STARTUP_GRACE };
    let end = facts.index.nodes().heard(name).unwrap_or(facts.now) + grace;
    if facts.now >= end && ready != Some("Unknown") {
        let note = Note::new("NodeNotReady", "Node {} status is now: NodeNotReady");
        return vec![Action::status(Kind::Node, silenced(value, facts.now)).noted(note)].into();
    }
    let mut decision = Decision::nothing();
    if facts.now < end {
        decision.wake(end);
    }
    let taints = taints(facts, &value, name, ready, &mut decision);
    let labels = labels(object);
    let is_new = |taint: &Value| !list(&value["spec"]["taints"]).contains(taint);
    if taints.len() == list(&value["spec"]["taints"]).len() && !taints.iter().any(is_new) && labels.is_empty()
    {
        return decision;
    }
    let mut changed = value;
    for (label, text) in labels {
        metadata::object(metadata::object(&mut changed, "metadata"), "labels")[label] = json!(text);
    }
    if let Some(spec) = metadata::object(&mut changed, "spec").as_object_mut() {
        spec.insert("taints".to_owned(), Value::Array(taints));
    }
    decision.actions.push(Action::update(Kind::Node, changed));
    decision
}

/// The node with nothing known about it any more.
fn silenced(mut value: Value, now: Timestamp) -> Value {
    let created = value["metadata"]["creationTimestamp"].clone();
    let never = condition::find(&value["status"], "Ready").is_none();
    let status = metadata::object(&mut value, "status");
    for ty in CONDITIONS {
        let made = match condition::find(status, ty) {
            Some(known) if known["status"] == "Unknown" => continue,
            Some(known) => {
                let mut known = known.clone();
                known["status"] = json!("Unknown");
                known["reason"] = json!("NodeStatusUnknown");
                known["message"] = json!("Kubelet stopped posting node status.");
                known["lastTransitionTime"] = json!(metadata::time(now));
                known
            }
            None if never => json!({
                "type": ty, "status": "Unknown", "reason": "NodeStatusNeverUpdated",
                "message": "Kubelet never posted node status.", "lastHeartbeatTime": created,
                "lastTransitionTime": metadata::time(now),
            }),
            // Not everything that is a node speaks of pressure.
            None => continue,
        };
        condition::put(status, made);
    }
    value
}

/// The taints as they are to be: those of others, and what the conditions say.
fn taints(
    facts: &Facts<'_>,
    value: &Value,
    name: &str,
    ready: Option<&str>,
    decision: &mut Decision,
) -> Vec<Value> {
    let held = list(&value["spec"]["taints"]);
    let mut keeping: Vec<&str> = KEEPING_AWAY
        .iter()
        .filter(|(ty, status, _)| {
            condition::find(&value["status"], ty).is_some_and(|c| c["status"] == *status)
        })
        .map(|(_, _, key)| *key)
        .collect();
    if value["spec"]["unschedulable"] == true {
        keeping.push(UNSCHEDULABLE);
    }
    let driving = driving(facts, held, name, ready, decision);
    let ours = |key: &str| key == UNSCHEDULABLE || KEEPING_AWAY.iter().any(|(_, _, known)| *known == key);
    let stays = |taint: &&Value| {
        let key = text(&taint["key"]);
        match text(&taint["effect"]) {
            "NoSchedule" if ours(key) => keeping.contains(&key),
            "NoExecute" if key == NOT_READY || key == UNREACHABLE => driving == Some(key),
            _ => true,
        }
    };
    let mut taints: Vec<Value> = held.iter().filter(stays).cloned().collect();
    let now = metadata::time(facts.now);
    let wanted = keeping.into_iter().map(|key| (key, "NoSchedule"));
    for (key, effect) in wanted.chain(driving.map(|key| (key, "NoExecute"))) {
        if !taints.iter().any(|taint| taint["key"] == key && taint["effect"] == effect) {
            taints.push(json!({"key": key, "effect": effect, "timeAdded": now}));
        }
    }
    taints
}

/// The taint that drives pods away from a node that is not ready, once it is its turn.
fn driving(
    facts: &Facts<'_>,
    held: &[Value],
    name: &str,
    ready: Option<&str>,
    decision: &mut Decision,
) -> Option<&'static str> {
    let key = match ready {
        Some("False") => NOT_READY,
        Some("Unknown") => UNREACHABLE,
        _ => return None,
    };
    let nodes = facts.index.nodes();
    if nodes.all_failed() {
        return None;
    }
    let marked = held.iter().any(|taint| {
        taint["effect"] == "NoExecute" && (taint["key"] == NOT_READY || taint["key"] == UNREACHABLE)
    });
    if marked {
        return Some(key);
    }
    let turn = nodes.turn(name, facts.now)?;
    if turn > facts.now {
        decision.wake(turn);
        return None;
    }
    Some(key)
}

/// The labels that lack or differ.
fn labels(object: &Object) -> Vec<(&'static str, String)> {
    let labels = &object.meta.labels;
    let follows = |(now, old): &(&'static str, &'static str)| {
        let value = labels.get(*now)?;
        (labels.get(*old) != Some(value)).then(|| (*old, value.clone()))
    };
    LABELS.iter().filter_map(follows).collect()
}

#[cfg(test)]
mod tests;
