//! What the status of a Deployment says: how many pods there are, whether enough of them work, and whether it gets on.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::action::{Action, Decision};
use super::super::condition::{self, Condition};
use super::super::facts::Facts;
use super::super::kind::Kind;
use super::super::read;
use super::Deployment;
use super::set::Set;
use crate::endpoints::metadata;
use crate::time::seconds_after;

/// The condition about getting on.
pub(super) const PROGRESSING: &str = "Progressing";
/// Its reason when nothing happened for too long.
pub(super) const TIMED_OUT: &str = "ProgressDeadlineExceeded";
/// Its reason while the Deployment is paused.
pub(super) const PAUSED: &str = "DeploymentPaused";
/// Its reason when it goes on.
pub(super) const RESUMED: &str = "DeploymentResumed";
/// Its reason when the rollout is complete.
const COMPLETE: &str = "NewReplicaSetAvailable";
const FAILURE: &str = "ReplicaFailure";

/// Sets a condition, which also tells when it was looked at last.
pub(super) fn set(status: &mut Value, condition: &Condition<'_>, now: Timestamp) {
    let known = condition::find(status, condition.ty);
    if known.is_some_and(|k| k["status"] == condition.status && k["reason"] == condition.reason) {
        return;
    }
    renew(status, condition, now);
}

/// Sets a condition anew, so that its time counts from now.
fn renew(status: &mut Value, condition: &Condition<'_>, now: Timestamp) {
    let mut made = condition::made(status, condition, now);
    made["lastUpdateTime"] = json!(metadata::time(now));
    condition::put(status, made);
}

/// Whether every pod wanted is there, of the new template, and works.
pub(super) fn is_complete(deployment: &Deployment<'_>, status: &Value) -> bool {
    let wanted = deployment.replicas();
    let number = |field: &str| status[field].as_i64().unwrap_or(0);
    number("updatedReplicas") == wanted
        && number("replicas") == wanted
        && number("availableReplicas") == wanted
        && number("observedGeneration") >= deployment.object.meta.generation
}

/// The status with everything counted.
fn counted(facts: &Facts<'_>, deployment: &Deployment<'_>) -> Value {
    let sum = |field: &str| deployment.sets.iter().map(|set| set.counted(field)).sum::<i64>();
    let available = sum("availableReplicas");
    let before = &deployment.value["status"];
    let mut status = json!({
        "observedGeneration": deployment.object.meta.generation,
        "replicas": sum("replicas"),
        "updatedReplicas": deployment.new_set().map_or(0, |set| set.counted("replicas")),
        "readyReplicas": sum("readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": (deployment.total() - available).max(0),
        "terminatingReplicas": sum("terminatingReplicas"),
        "conditions": read::list(&before["conditions"]),
    });
    if !before["collisionCount"].is_null() {
        status["collisionCount"] = before["collisionCount"].clone();
    }
    let enough = available >= deployment.replicas() - deployment.max_unavailable();
    let condition = if enough {
        Condition {
            ty: "Available",
            status: "True",
            reason: "MinimumReplicasAvailable",
            message: "Deployment has minimum availability.",
        }
    } else {
        Condition {
            ty: "Available",
            status: "False",
            reason: "MinimumReplicasUnavailable",
            message: "Deployment does not have minimum availability.",
        }
    };
    set(&mut status, &condition, facts.now);
    status
}

fn written(deployment: &Deployment<'_>, status: Value) -> Option<Action> {
    if read::same(&status, &deployment.value["status"]) {
        return None;
    }
    let mut changed = deployment.value.clone();
    changed["status"] = status;
    Some(Action::status(Kind::Deployment, changed))
}

/// Brings the numbers up to date and says nothing of getting on.
pub(super) fn without_progress(facts: &Facts<'_>, deployment: &Deployment<'_>) -> Option<Action> {
    written(deployment, counted(facts, deployment))
}

/// Says that the new set could not be created.
pub(super) fn after_failure(facts: &Facts<'_>, deployment: &Deployment<'_>) -> Option<Action> {
    let mut status = counted(facts, deployment);
    if let Some(failed) = facts.failed.filter(|_| deployment.progress_deadline().is_some()) {
        let message = format!("Failed to create new replica set: {}", failed.message);
        let condition = Condition {
            ty: PROGRESSING,
            status: "False",
            reason: "ReplicaSetCreateError",
            message: &message,
        };
        set(&mut status, &condition, facts.now);
    }
    written(deployment, status)
}

/// Brings the status up to date.
pub(super) fn decide(facts: &Facts<'_>, deployment: &Deployment<'_>) -> Decision {
    let mut status = counted(facts, deployment);
    if deployment.is_paused() {
        return written(deployment, status).map_or_else(Decision::nothing, |action| vec![action].into());
    }
    let mut decision = Decision::nothing();
    match deployment.progress_deadline() {
        None => condition::remove(&mut status, PROGRESSING),
        Some(deadline) => {
            judge_progress(facts, deployment, &mut status, deadline);
            if let Some(end) = end_of_patience(deployment, &status, deadline) {
                decision.wake(end);
            }
        }
    }
    copy_failure(facts, deployment, &mut status);
    decision.actions.extend(written(deployment, status));
    decision
}

fn judge_progress(facts: &Facts<'_>, deployment: &Deployment<'_>, status: &mut Value, deadline: i64) {
    let known = condition::find(status, PROGRESSING).cloned();
    let reason = known.as_ref().map_or("", |known| read::text(&known["reason"])).to_owned();
    if status["replicas"] == status["updatedReplicas"] && reason == COMPLETE {
        return;
    }
    let what = match deployment.new_set() {
        Some(set) => format!("ReplicaSet \"{}\"", set.object.key.name),
        None => format!("Deployment \"{}\"", deployment.object.key.name),
    };
    if is_complete(deployment, status) {
        let message = format!("{what} has successfully progressed.");
        set(
            status,
            &Condition { ty: PROGRESSING, status: "True", reason: COMPLETE, message: &message },
            facts.now,
        );
    } else if got_on(&deployment.value["status"], status) {
        let message = format!("{what} is progressing.");
        let condition =
            Condition { ty: PROGRESSING, status: "True", reason: "ReplicaSetUpdated", message: &message };
        renew(status, &condition, facts.now);
    } else if reason == TIMED_OUT || is_over(known.as_ref(), deadline, facts.now) {
        let message = format!("{what} has timed out progressing.");
        set(
            status,
            &Condition { ty: PROGRESSING, status: "False", reason: TIMED_OUT, message: &message },
            facts.now,
        );
    }
}

/// Whether more is new, less is old, or more works than before.
fn got_on(before: &Value, now: &Value) -> bool {
    let number = |status: &Value, field: &str| status[field].as_i64().unwrap_or(0);
    let grew = |field: &str| number(now, field) > number(before, field);
    let old = |status: &Value| number(status, "replicas") - number(status, "updatedReplicas");
    grew("updatedReplicas") || old(now) < old(before) || grew("readyReplicas") || grew("availableReplicas")
}

fn deadline_of(condition: &Value, deadline: i64) -> Option<Timestamp> {
    Some(seconds_after(read::time(&condition["lastUpdateTime"])?, deadline))
}

fn is_over(condition: Option<&Value>, deadline: i64, now: Timestamp) -> bool {
    let Some(condition) = condition.filter(|known| known["reason"] != COMPLETE) else { return false };
    deadline_of(condition, deadline).is_some_and(|end| end < now)
}

/// When a rollout that does not get on is called a failure.
fn end_of_patience(deployment: &Deployment<'_>, status: &Value, deadline: i64) -> Option<Timestamp> {
    let condition = condition::find(status, PROGRESSING)?;
    let settled = matches!(read::text(&condition["reason"]), COMPLETE | TIMED_OUT);
    if settled || is_complete(deployment, status) {
        return None;
    }
    Some(seconds_after(deadline_of(condition, deadline)?, 1))
}

/// What keeps a set from creating its pods is the Deployment's trouble too.
fn copy_failure(facts: &Facts<'_>, deployment: &Deployment<'_>, status: &mut Value) {
    let failure = |set: &Set<'_>| condition::find(&set.value["status"], FAILURE).cloned();
    let found = match deployment.new_set() {
        Some(set) => failure(set),
        None => deployment.sets.iter().find_map(failure),
    };
    match found {
        Some(failure) => {
            let (reason, message) = (read::text(&failure["reason"]), read::text(&failure["message"]));
            let shown = read::text(&failure["status"]);
            set(status, &Condition { ty: FAILURE, status: shown, reason, message }, facts.now);
        }
        None => condition::remove(status, FAILURE),
    }
}
