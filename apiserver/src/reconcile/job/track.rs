//! From pods to numbers: an end is first written down by the pod's uid, then the pod loses its finalizer, then the number
//! grows and the uid goes. Whoever comes between finds out where it stopped.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::action::{Action, Note};
use super::super::condition::{self, Condition};
use super::super::facts::Facts;
use super::super::kind::Kind;
use super::super::pod::Pod;
use super::super::read;
use super::count::{Count, uids};
use super::finish::Finish;
use super::{Job, counted, is_tracked, policy};
use crate::endpoints::metadata;

/// The most uids that wait in the status at a time.
const WAITING: usize = 500;
const SUSPENDED: &str = "Suspended";

/// The pods whose end is known, those of the lowest index first.
fn ended<'p, 'a>(job: &'p Job<'a>, count: &Count<'_, '_>, finish: Option<&Finish>) -> Vec<&'p Pod<'a>> {
    let last = |pod: &Pod<'_>| {
        let index = job.limit_per_index().and_then(|_| job.index(pod));
        index
            .and_then(|index| count.last_failed.get(&index))
            .is_some_and(|last| last.object.meta.uid == pod.object.meta.uid)
    };
    let over = job.object.meta.is_terminating() || finish.is_some();
    let is_ended = |pod: &&Pod<'_>| {
        // The next pod of its index learns from it.
        over || pod.status.phase == "Succeeded" || (job.has_failed(pod) && !last(pod))
    };
    let mut ended: Vec<_> = job.pods.iter().filter(|pod| is_tracked(pod.object)).filter(is_ended).collect();
    ended.sort_by_cached_key(|pod| (job.index(pod), pod.object.key.name.clone()));
    ended.truncate(WAITING);
    ended
}

/// As what the uid of a pod that ended is written down.
#[derive(PartialEq, Eq)]
enum Fate {
    Succeeded,
    Failed,
    Nothing,
}

fn fate(job: &Job<'_>, finish: Option<&Finish>, pod: &Pod<'_>) -> Fate {
    if pod.status.phase == "Succeeded" {
        // An index is written down instead.
        return if job.is_indexed() { Fate::Nothing } else { Fate::Succeeded };
    }
    // What is stopped because the rest failed has failed; what is stopped because the rest succeeded is nothing.
    let failed = match finish {
        None => job.has_failed(pod),
        Some(finish) => !finish.success || pod.status.phase == "Failed",
    };
    let valid = !job.is_indexed() || job.index(pod).is_some();
    if failed && valid && policy::judge(job, pod).counts { Fate::Failed } else { Fate::Nothing }
}

/// Takes the finalizer from the pods that the status has.
pub(super) fn release(job: &Job<'_>, count: &Count<'_, '_>, finish: Option<&Finish>) -> Vec<Action> {
    let (succeeded, failed) = (uids(job.status(), "succeeded"), uids(job.status(), "failed"));
    let is_written = |pod: &&Pod<'_>| {
        let uid = pod.object.meta.uid.as_str();
        fate(job, finish, pod) == Fate::Nothing || succeeded.contains(uid) || failed.contains(uid)
    };
    ended(job, count, finish).into_iter().filter(is_written).filter_map(|pod| counted(pod.object)).collect()
}

/// Brings the status up to date.
pub(super) fn status(
    facts: &Facts<'_>,
    job: &Job<'_>,
    count: &Count<'_, '_>,
    finish: Option<&Finish>,
) -> Option<Action> {
    let mut changed = job.value.clone();
    let status = metadata::object(&mut changed, "status");
    tally(status, job, count, finish);
    status["active"] = json!(count.active.len());
    status["ready"] = json!(count.ready);
    status["terminating"] = json!(count.terminating);
    let now = metadata::time(facts.now);
    if status["startTime"].is_null() && !job.is_suspended() {
        status["startTime"] = json!(now);
    }
    let mut note = None;
    if let Some(finish) = finish {
        let condition = Condition {
            ty: finish.interim(),
            status: "True",
            reason: &finish.reason,
            message: &finish.message,
        };
        put(status, &condition, facts);
    } else if !job.object.meta.is_terminating() {
        note = suspend(facts, job, status);
    }
    if read::same(status, job.status()) {
        return None;
    }
    let action = Action::status(Kind::Job, changed);
    Some(match note {
        Some(note) => action.noted(note),
        None => action,
    })
}

/// Moves the ends of pods into the numbers.
fn tally(status: &mut Value, job: &Job<'_>, count: &Count<'_, '_>, finish: Option<&Finish>) {
    let tracked = job.pods.iter().filter(|pod| is_tracked(pod.object));
    let tracked: BTreeSet<&str> = tracked.map(|pod| pod.object.meta.uid.as_str()).collect();
    let mut waiting = Vec::new();
    for list in ["succeeded", "failed"] {
        let known = uids(job.status(), list);
        let kept: Vec<&str> = known.iter().filter(|uid| tracked.contains(*uid)).copied().collect();
        let done = i64::try_from(known.len() - kept.len()).unwrap_or(0);
        status[list] = json!(job.status()[list].as_i64().unwrap_or(0) + done);
        waiting.push(kept);
    }
    let mut failed = waiting.pop().unwrap_or_default();
    let mut succeeded = waiting.pop().unwrap_or_default();
    for pod in ended(job, count, finish) {
        let uid = pod.object.meta.uid.as_str();
        if failed.contains(&uid) || succeeded.contains(&uid) || failed.len() + succeeded.len() >= WAITING {
            continue;
        }
        match fate(job, finish, pod) {
            Fate::Succeeded => succeeded.push(uid),
            Fate::Failed => failed.push(uid),
            Fate::Nothing => {}
        }
    }
    status["uncountedTerminatedPods"] = json!({"succeeded": succeeded, "failed": failed});
    if job.is_indexed() {
        status["completedIndexes"] = json!(count.succeeded_indexes.to_string());
        status["succeeded"] = json!(count.succeeded);
        if let Some(failed) = &count.failed_indexes {
            status["failedIndexes"] = json!(failed.to_string());
        }
    }
}

/// Sets a condition as Jobs have them.
pub(super) fn put(status: &mut Value, condition: &Condition<'_>, facts: &Facts<'_>) {
    let known = condition::find(status, condition.ty);
    let same = |known: &Value| {
        known["status"] == condition.status
            && known["reason"] == condition.reason
            && known["message"] == condition.message
    };
    if known.is_some_and(same) {
        return;
    }
    let mut made = condition::made(status, condition, facts.now);
    made["lastProbeTime"] = json!(metadata::time(facts.now));
    condition::put(status, made);
}

/// Says that the Job is suspended, or goes on; its time counts anew then.
fn suspend(facts: &Facts<'_>, job: &Job<'_>, status: &mut Value) -> Option<Note> {
    let known = condition::find(status, SUSPENDED).map(|known| known["status"] == "True");
    let (said, reason, message, note) = match (job.is_suspended(), known) {
        (true, None | Some(false)) => ("True", "JobSuspended", "Job suspended", "Suspended"),
        (false, Some(true)) => ("False", "JobResumed", "Job resumed", "Resumed"),
        (true, Some(true)) | (false, None | Some(false)) => return None,
    };
    if let Some(fields) = status.as_object_mut() {
        fields.remove("startTime");
    }
    if !job.is_suspended() {
        status["startTime"] = json!(metadata::time(facts.now));
    }
    put(status, &Condition { ty: SUSPENDED, status: said, reason, message }, facts);
    Some(Note::new(note, message))
}
