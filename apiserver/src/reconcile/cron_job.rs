//! CronJobs: a Job for each time of a schedule, as kube-controller-manager starts them. The time is an argument here.

mod history;

use std::sync::Arc;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use litek8s_store::Object;
use serde_json::{Value, json};

use super::action::{Action, Decision, Note};
use super::claim::controlled;
use super::facts::Facts;
use super::job;
use super::kind::Kind;
use super::read::{self, list, text};
use super::schedule::{self, Schedule};
use crate::endpoints::metadata;

/// The annotation of a Job that tells for which time it was started.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// More missed times than this are told.
const MANY: i64 = 100;

/// A CronJob with its Jobs.
struct CronJob<'a> {
    object: &'a Arc<Object>,
    value: Value,
    jobs: Vec<Run<'a>>,
}

/// One of its Jobs.
struct Run<'a> {
    object: &'a Arc<Object>,
    value: Value,
}

impl Run<'_> {
    /// `Complete` or `Failed`, once it is over.
    fn end(&self) -> Option<&str> {
        job::finished(&self.value["status"]).map(|condition| text(&condition["type"]))
    }
}

impl CronJob<'_> {
    fn spec(&self) -> &Value {
        &self.value["spec"]
    }

    /// What the schedule started and is not over; a Job that the user started from the template is the user's.
    fn running(&self) -> impl Iterator<Item = &Run<'_>> {
        let scheduled = |job: &&Run<'_>| job.value["metadata"]["annotations"][SCHEDULED].is_string();
        self.jobs.iter().filter(scheduled).filter(|job| job.end().is_none())
    }
}

/// What is to be done about a CronJob.
pub(super) fn decide(facts: &Facts<'_>, object: &Arc<Object>) -> Decision {
    if facts.failed.is_some() {
        return Decision::nothing();
    }
    let Some(value) = read::value(object) else { return Decision::nothing() };
    let jobs = controlled(facts, object, Kind::Job);
    let jobs = jobs.into_iter().filter_map(|object| Some(Run { object, value: read::value(object)? }));
    let cron = CronJob { object, value, jobs: jobs.collect() };
    if let Some(action) = account(&cron) {
        return vec![action].into();
    }
    if object.meta.is_terminating() {
        return Decision::nothing();
    }
    let surplus = history::surplus(&cron);
    if !surplus.is_empty() {
        return surplus.into();
    }
    if cron.spec()["suspend"] == true {
        return Decision::nothing();
    }
    // Neither can be wrong in an object that was checked; one that is starts nothing.
    let Ok(zone) = schedule::zone(cron.spec()["timeZone"].as_str()) else { return Decision::nothing() };
    match Schedule::parse(text(&cron.spec()["schedule"]), zone.clone()) {
        Ok(schedule) => start(facts, &cron, &schedule, &zone),
        Err(_) => Decision::nothing(),
    }
}

/// Brings the status up to what the Jobs are.
fn account(cron: &CronJob<'_>) -> Option<Action> {
    let mut changed = cron.value.clone();
    let status = metadata::object(&mut changed, "status");
    let known = list(&cron.value["status"]["active"]);
    let mut active: Vec<Value> = known
        .iter()
        .filter(|reference| cron.running().any(|job| reference["uid"] == job.object.meta.uid.as_str()))
        .cloned()
        .collect();
    for job in cron.running() {
        if !active.iter().any(|reference| reference["uid"] == job.object.meta.uid.as_str()) {
            active.push(json!({
                "apiVersion": "batch/v1", "kind": "Job", "namespace": &*job.object.key.namespace,
                "name": &*job.object.key.name, "uid": job.object.meta.uid,
                "resourceVersion": job.object.revision.to_string(),
            }));
        }
    }
    status["active"] = json!(active);
    let won = cron.jobs.iter().filter(|job| job.end() == Some("Complete"));
    let last = won.filter_map(|job| read::time(&job.value["status"]["completionTime"])).max();
    if let Some(last) = last
        && read::time(&status["lastSuccessfulTime"]).is_none_or(|known| last > known)
    {
        status["lastSuccessfulTime"] = json!(metadata::time(last));
    }
    if read::same(status, &cron.value["status"]) {
        return None;
    }
    let gone = known.iter().find(|reference| !active.iter().any(|left| left["uid"] == reference["uid"]));
    let action = Action::status(Kind::CronJob, changed);
    let Some(gone) = gone else { return Some(action) };
    let name = text(&gone["name"]);
    let job = cron.jobs.iter().find(|job| gone["uid"] == job.object.meta.uid.as_str());
    Some(action.noted(match job.and_then(Run::end) {
        Some(end) => Note::new("SawCompletedJob", format!("Saw completed job: {name}, condition: {end}")),
        None => Note::new("MissingJob", format!("Active job went missing: {name}")),
    }))
}

/// Starts the Job of the latest time that has come, if there is one that was not started.
fn start(facts: &Facts<'_>, cron: &CronJob<'_>, schedule: &Schedule, zone: &TimeZone) -> Decision {
    let mut decision = Decision::nothing();
    if let Some(next) = schedule.next(facts.now) {
        decision.wake(next);
    }
    let status = &cron.value["status"];
    let last = read::time(&status["lastScheduleTime"]);
    let Some(mut after) = last.or_else(|| read::time(&cron.value["metadata"]["creationTimestamp"])) else {
        return decision;
    };
    if let Some(seconds) = cron.spec()["startingDeadlineSeconds"].as_i64() {
        let patience = facts.now.checked_sub(SignedDuration::from_secs(seconds));
        after = after.max(patience.unwrap_or(Timestamp::MIN));
    }
    let Some((scheduled, missed)) = schedule.latest(after, facts.now) else { return decision };
    let name = format!("{}-{}", cron.object.key.name, scheduled.as_second().div_euclid(60));
    let policy = text(&cron.spec()["concurrencyPolicy"]);
    let is_there = cron.jobs.iter().any(|job| *job.object.key.name == *name);
    if policy == "Forbid" && !is_there && cron.running().next().is_some() {
        // Looked at again when the one that runs is over.
        return decision;
    }
    if !is_there {
        if policy == "Replace" {
            decision.actions.extend(cron.running().map(|job| history::delete(job.object)));
        }
        let note = Note::new("SuccessfulCreate", "Created job {}");
        decision.actions.push(Action::create(Kind::Job, run(cron, &name, scheduled, zone)).noted(note));
    }
    let mut changed = cron.value.clone();
    metadata::object(&mut changed, "status")["lastScheduleTime"] = json!(metadata::time(scheduled));
    let mut action = Action::status(Kind::CronJob, changed);
    if missed > MANY {
        let why =
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
        action = action.noted(Note::warning("TooManyMissedTimes", why));
    }
    decision.actions.push(action);
    decision
}

fn run(cron: &CronJob<'_>, name: &str, scheduled: Timestamp, zone: &TimeZone) -> Value {
    let template = &cron.spec()["jobTemplate"];
    let shown = scheduled.to_zoned(zone.clone());
    let format = if shown.offset().is_zero() { "%Y-%m-%dT%H:%M:%SZ" } else { "%Y-%m-%dT%H:%M:%S%:z" };
    let mut job = json!({
        "metadata": {
            "name": name, "namespace": &*cron.object.key.namespace,
            "labels": template["metadata"]["labels"], "annotations": template["metadata"]["annotations"],
            "ownerReferences": [Kind::CronJob.controls(cron.object)],
        },
        "spec": template["spec"],
    });
    metadata::object(&mut job["metadata"], "annotations")[SCHEDULED] =
        json!(shown.strftime(format).to_string());
    job
}

#[cfg(test)]
mod tests;
