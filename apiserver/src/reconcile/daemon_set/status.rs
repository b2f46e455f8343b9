//! What the status of a DaemonSet says, node by node.

use serde_json::json;

use super::super::action::{Action, Decision};
use super::super::facts::Facts;
use super::super::kind::Kind;
use super::super::read;
use super::Daemons;
use crate::endpoints::metadata;

#[derive(Default)]
struct Counts {
    desired: usize,
    current: usize,
    misscheduled: usize,
    ready: usize,
    updated: usize,
    available: usize,
}

/// Brings the status up to date.
pub(super) fn decide(facts: &Facts<'_>, daemons: &Daemons<'_>) -> Decision {
    let mut decision = Decision::nothing();
    let seconds = daemons.spec()["minReadySeconds"].as_i64().unwrap_or(0);
    let mut counts = Counts::default();
    for node in &daemons.nodes {
        let first = daemons.on(&node.name).first();
        if !daemons.fits(node).0 {
            counts.misscheduled += usize::from(first.is_some());
            continue;
        }
        counts.desired += 1;
        let Some(pod) = first else { continue };
        counts.current += 1;
        counts.ready += usize::from(pod.is_ready());
        counts.updated += usize::from(daemons.is_updated(pod));
        counts.available += usize::from(daemons.is_available(pod, facts.now));
    }
    let pods = daemons.pods.values().flatten();
    let later = pods.filter_map(|pod| pod.available_from(seconds)).filter(|from| *from > facts.now);
    if let Some(next) = later.min() {
        decision.wake(next);
    }
    let mut changed = daemons.value.clone();
    let status = metadata::object(&mut changed, "status");
    status["observedGeneration"] = json!(daemons.object.meta.generation);
    status["desiredNumberScheduled"] = json!(counts.desired);
    status["currentNumberScheduled"] = json!(counts.current);
    status["numberMisscheduled"] = json!(counts.misscheduled);
    status["numberReady"] = json!(counts.ready);
    status["updatedNumberScheduled"] = json!(counts.updated);
    status["numberAvailable"] = json!(counts.available);
    status["numberUnavailable"] = json!(counts.desired - counts.available);
    if !read::same(status, &daemons.value["status"]) {
        decision.actions.push(Action::status(Kind::DaemonSet, changed));
    }
    decision
}
