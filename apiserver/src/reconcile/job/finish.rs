//! Whether a Job is over, and why.

use jiff::{SignedDuration, Timestamp};

use super::super::action::Decision;
use super::super::condition;
use super::super::facts::Facts;
use super::super::read::{self, text};
use super::count::Count;
use super::{Job, policy};

/// The condition while the pods of a Job that succeeded are still going.
pub(super) const SUCCEEDING: &str = "SuccessCriteriaMet";
/// The condition while the pods of a Job that failed are still going.
pub(super) const FAILING: &str = "FailureTarget";

/// The end of a Job.
#[derive(Debug)]
pub(super) struct Finish {
    /// Whether it succeeded.
    pub(super) success: bool,
    /// Why, in one word.
    pub(super) reason: String,
    /// Why, for people.
    pub(super) message: String,
    /// Whether the status says so already; then it stays so, whatever the pods do.
    pub(super) known: bool,
}

impl Finish {
    fn new(success: bool, reason: &str, message: impl Into<String>) -> Self {
        Self { success, reason: reason.to_owned(), message: message.into(), known: false }
    }

    /// The condition that says it before all pods have gone.
    pub(super) fn interim(&self) -> &'static str {
        if self.success { SUCCEEDING } else { FAILING }
    }
}

/// The end of the Job, if there is one; `decision` learns when time alone may bring it.
pub(super) fn of(
    facts: &Facts<'_>,
    job: &Job<'_>,
    count: &Count<'_, '_>,
    decision: &mut Decision,
) -> Option<Finish> {
    known(job, true)
        .or_else(|| known(job, false))
        .or_else(|| failed_by_policy(job))
        .or_else(|| failed_by_limit(facts, job, count, decision))
        .or_else(|| failed_by_index(job, count))
        .or_else(|| {
            let message = policy::suffices(job, &count.succeeded_indexes)?;
            Some(Finish::new(true, "SuccessPolicy", message))
        })
        .or_else(|| completed(job, count))
}

fn known(job: &Job<'_>, success: bool) -> Option<Finish> {
    let condition = condition::find(job.status(), if success { SUCCEEDING } else { FAILING })?;
    let (reason, message) = (text(&condition["reason"]), text(&condition["message"]));
    (condition["status"] == "True").then(|| Finish { known: true, ..Finish::new(success, reason, message) })
}

fn failed_by_policy(job: &Job<'_>) -> Option<Finish> {
    let failed = job.pods.iter().filter(|pod| job.has_failed(pod));
    let message = failed.into_iter().find_map(|pod| policy::judge(job, pod).fails_job)?;
    Some(Finish::new(false, "PodFailurePolicy", message))
}

fn failed_by_limit(
    facts: &Facts<'_>,
    job: &Job<'_>,
    count: &Count<'_, '_>,
    decision: &mut Decision,
) -> Option<Finish> {
    let limit = job.spec()["backoffLimit"].as_i64().unwrap_or(6);
    if count.failed > limit || restarted_too_often(job, limit) {
        return Some(Finish::new(
            false,
            "BackoffLimitExceeded",
            "Job has reached the specified backoff limit",
        ));
    }
    let deadline = deadline(job).filter(|_| !job.is_suspended())?;
    if deadline <= facts.now {
        let message = "Job was active longer than specified deadline";
        return Some(Finish::new(false, "DeadlineExceeded", message));
    }
    decision.wake(deadline);
    None
}

/// Containers that are started again in their pods count as failures too.
fn restarted_too_often(job: &Job<'_>, limit: i64) -> bool {
    if job.spec()["template"]["spec"]["restartPolicy"] != "OnFailure" {
        return false;
    }
    let alive = job.pods.iter().filter(|pod| matches!(pod.status.phase.as_str(), "Running" | "Pending"));
    let restarts: i64 = alive
        .flat_map(|pod| pod.containers().chain(pod.init_containers()))
        .map(|container| container.restart_count)
        .sum();
    restarts >= limit.max(1)
}

fn deadline(job: &Job<'_>) -> Option<Timestamp> {
    let seconds = job.spec()["activeDeadlineSeconds"].as_i64()?;
    read::time(&job.status()["startTime"])?.checked_add(SignedDuration::from_secs(seconds)).ok()
}

fn failed_by_index(job: &Job<'_>, count: &Count<'_, '_>) -> Option<Finish> {
    let failed = count.failed_indexes.as_ref()?.total();
    if job.spec()["maxFailedIndexes"].as_i64().is_some_and(|most| failed > most) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return Some(Finish::new(false, "MaxFailedIndexesExceeded", message));
    }
    let all = failed > 0 && failed + count.succeeded_indexes.total() >= job.completions()?;
    all.then(|| Finish::new(false, "FailedIndexes", "Job has failed indexes"))
}

fn completed(job: &Job<'_>, count: &Count<'_, '_>) -> Option<Finish> {
    let enough = match job.completions() {
        Some(completions) => count.succeeded >= completions,
        None => count.succeeded > 0,
    };
    let message = "Reached expected number of succeeded pods";
    (enough && count.active.is_empty()).then(|| Finish::new(true, "CompletionsReached", message))
}
