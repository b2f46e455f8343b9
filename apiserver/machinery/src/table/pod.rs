//! The cells of a pod.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age;
use super::printer::{at, condition, items, number, or_none, text};
use crate::resource::Resource;

/// `1/2`: ready containers of all, restartable init containers among them.
pub(super) fn ready(pod: &Value) -> String {
    let sidecars: Vec<String> = items(pod, "spec.initContainers")
        .iter()
        .filter(|container| text(container, "restartPolicy") == "Always")
        .map(|container| text(container, "name"))
        .collect();
    let total = items(pod, "spec.containers").len() + sidecars.len();
    let running = |status: &&Value| status["ready"] == true && status.pointer("/state/running").is_some();
    let main = items(pod, "status.containerStatuses").iter().filter(running).count();
    let side = items(pod, "status.initContainerStatuses")
        .iter()
        .filter(|status| sidecars.contains(&text(status, "name")))
        .filter(|status| status["started"] == true && status["ready"] == true)
        .count();
    format!("{}/{total}", main + side)
}

/// The phase, or what better says why the pod is not plainly running.
pub(super) fn status(pod: &Value) -> String {
    let given = text(pod, "status.reason");
    let mut reason = if given.is_empty() { text(pod, "status.phase") } else { given };
    if items(pod, "status.conditions").iter().any(|condition| {
        text(condition, "type") == "PodScheduled" && text(condition, "reason") == "SchedulingGated"
    }) {
        reason = "SchedulingGated".to_owned();
    }
    let (initializing, init) = init_reason(pod);
    if let Some(init) = init {
        reason = init;
    }
    let initialized = condition(pod, "Initialized").is_some_and(|it| text(it, "status") == "True");
    if !initializing || initialized {
        reason = container_reason(pod, reason);
    }
    if at(pod, "metadata.deletionTimestamp").is_some() {
        let lost = text(pod, "status.reason") == "NodeLost";
        let done = matches!(text(pod, "status.phase").as_str(), "Failed" | "Succeeded");
        if lost {
            reason = "Unknown".to_owned();
        } else if !done {
            reason = "Terminating".to_owned();
        }
    }
    reason
}

/// Whether an init container still has to finish, and what it says.
fn init_reason(pod: &Value) -> (bool, Option<String>) {
    let containers = items(pod, "spec.initContainers");
    for (at_index, status) in items(pod, "status.initContainerStatuses").iter().enumerate() {
        if status.pointer("/state/terminated/exitCode") == Some(&json!(0)) {
            continue;
        }
        let name = text(status, "name");
        let restarts = containers
            .iter()
            .any(|container| text(container, "name") == name && text(container, "restartPolicy") == "Always");
        if restarts && status["started"] == true {
            continue;
        }
        let waiting = text(status, "state.waiting.reason");
        let said = if at(status, "state.terminated").is_some() {
            format!("Init:{}", terminated(status))
        } else if !waiting.is_empty() && waiting != "PodInitializing" {
            format!("Init:{waiting}")
        } else {
            format!("Init:{at_index}/{}", containers.len())
        };
        return (true, Some(said));
    }
    (false, None)
}

fn container_reason(pod: &Value, mut reason: String) -> String {
    let mut running = false;
    for status in items(pod, "status.containerStatuses").iter().rev() {
        let waiting = text(status, "state.waiting.reason");
        if !waiting.is_empty() {
            reason = waiting;
        } else if at(status, "state.terminated").is_some() {
            reason = terminated(status);
        } else if status["ready"] == true && at(status, "state.running").is_some() {
            running = true;
        }
    }
    if reason == "Completed" && running {
        let ready = condition(pod, "Ready").is_some_and(|it| text(it, "status") == "True");
        reason = if ready { "Running" } else { "NotReady" }.to_owned();
    }
    reason
}

fn terminated(status: &Value) -> String {
    let said = text(status, "state.terminated.reason");
    if !said.is_empty() {
        return said;
    }
    match number(status, "state.terminated.signal") {
        0 => format!("ExitCode:{}", number(status, "state.terminated.exitCode")),
        signal => format!("Signal:{signal}"),
    }
}

/// `3 (5m ago)`.
pub(super) fn restarts(pod: &Value, now: Timestamp) -> String {
    let statuses: Vec<&Value> = items(pod, "status.containerStatuses").iter().collect();
    let init: Vec<&Value> = items(pod, "status.initContainerStatuses").iter().collect();
    let initializing = init_reason(pod).0;
    let counted = if initializing && statuses.is_empty() { &init } else { &statuses };
    let count: i64 = counted.iter().map(|status| number(status, "restartCount")).sum();
    let last = counted
        .iter()
        .filter_map(|status| text(status, "lastState.terminated.finishedAt").parse::<Timestamp>().ok())
        .max();
    match last {
        Some(last) if count > 0 => {
            format!("{count} ({} ago)", age::human_duration(age::seconds_between(last, now)))
        }
        _ => count.to_string(),
    }
}

/// The first address.
pub(super) fn ip(pod: &Value) -> String {
    let first = items(pod, "status.podIPs").first().map(|ip| text(ip, "ip")).unwrap_or_default();
    or_none(if first.is_empty() { text(pod, "status.podIP") } else { first })
}

/// `1/2` of the gates, or `<none>`.
pub(super) fn readiness_gates(pod: &Value) -> String {
    let gates = items(pod, "spec.readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let holds = |gate: &&Value| {
        condition(pod, &text(gate, "conditionType")).is_some_and(|it| text(it, "status") == "True")
    };
    format!("{}/{}", gates.iter().filter(holds).count(), gates.len())
}

/// A row of a pod that has ended says so, and kubectl can leave it out.
pub(super) fn conditions(resource: &Resource, object: &Value) -> Option<Value> {
    if &*resource.kind != "Pod" || !resource.group.is_empty() {
        return None;
    }
    let phase = text(object, "status.phase");
    let message = match phase.as_str() {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": phase, "message": message}]))
}
