//! A Job that is over: said so, and deleted after a while when it asks for that.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::super::action::{Action, Decision, Note};
use super::super::condition::Condition;
use super::super::facts::Facts;
use super::super::kind::Kind;
use super::super::read;
use super::finish::Finish;
use super::{Job, counted, track};
use crate::endpoints::metadata;

/// Says that the Job is over, now that all pods have been counted and are gone or have ended.
pub(super) fn declare(facts: &Facts<'_>, job: &Job<'_>, finish: &Finish) -> Action {
    let mut changed = job.value.clone();
    let status = metadata::object(&mut changed, "status");
    let ty = if finish.success { "Complete" } else { "Failed" };
    let (reason, message) = (finish.reason.as_str(), finish.message.as_str());
    track::put(status, &Condition { ty, status: "True", reason, message }, facts);
    let note = if finish.success {
        status["completionTime"] = json!(metadata::time(facts.now));
        Note::new("Completed", "Job completed")
    } else {
        Note::warning(finish.reason.clone(), finish.message.clone())
    };
    Action::status(Kind::Job, changed).noted(note)
}

/// What is left to do about a Job that is over.
pub(super) fn decide(facts: &Facts<'_>, job: &Job<'_>, condition: &Value) -> Decision {
    if facts.failed.is_some() {
        return Decision::nothing();
    }
    let left: Vec<Action> = job.pods.iter().filter_map(|pod| counted(pod.object)).collect();
    if !left.is_empty() {
        return left.into();
    }
    let mut decision = Decision::nothing();
    let seconds = job.spec()["ttlSecondsAfterFinished"].as_i64();
    let ended = read::time(&condition["lastTransitionTime"]);
    let expiry =
        seconds.zip(ended).and_then(|(s, ended)| ended.checked_add(SignedDuration::from_secs(s)).ok());
    match expiry.filter(|_| !job.object.meta.is_terminating()) {
        None => {}
        Some(expiry) if expiry > facts.now => decision.wake(expiry),
        Some(_) => decision.actions.push(Action::Delete {
            kind: Kind::Job,
            object: job.object.clone(),
            propagation: "Foreground",
            at_once: false,
            note: None,
        }),
    }
    decision
}
