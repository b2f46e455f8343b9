//! Jobs: pods that end, counted each exactly once, as kube-controller-manager runs them. A pod keeps a finalizer until the
//! Job's status has it, so that no end of a pod is missed and none is counted twice.

mod backoff;
mod count;
mod end;
mod finish;
mod indexes;
mod pods;
mod policy;
mod track;

use std::sync::Arc;

use litek8s_store::Object;
use serde_json::{Value, json};

use super::action::{Action, Decision};
use super::claim::claim;
use super::condition;
use super::facts::Facts;
use super::index::selector;
use super::kind::Kind;
use super::pod::Pod;
use super::read;
use crate::endpoints::metadata;
use count::Count;

/// What keeps a pod until its Job has counted it.
const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// Who manages a Job that names nobody else.
const CONTROLLER: &str = "kubernetes.io/job-controller";

/// A Job with its pods.
struct Job<'a> {
    object: &'a Arc<Object>,
    value: Value,
    pods: Vec<Pod<'a>>,
}

impl Job<'_> {
    fn spec(&self) -> &Value {
        &self.value["spec"]
    }

    fn status(&self) -> &Value {
        &self.value["status"]
    }

    fn completions(&self) -> Option<i64> {
        self.spec()["completions"].as_i64()
    }

    fn parallelism(&self) -> i64 {
        self.spec()["parallelism"].as_i64().unwrap_or(1)
    }

    fn is_indexed(&self) -> bool {
        self.spec()["completionMode"] == "Indexed"
    }

    fn is_suspended(&self) -> bool {
        self.spec()["suspend"] == true
    }

    /// How often one index may fail.
    fn limit_per_index(&self) -> Option<i64> {
        self.spec()["backoffLimitPerIndex"].as_i64().filter(|_| self.is_indexed())
    }

    /// Whether a pod that ends is replaced only when it has ended.
    fn waits_for_the_end(&self) -> bool {
        self.spec()["podReplacementPolicy"] == "Failed" || !self.spec()["podFailurePolicy"].is_null()
    }

    /// The index of a pod, if it has one that the Job has.
    fn index(&self, pod: &Pod<'_>) -> Option<i64> {
        let index: i64 = pod.annotations.get(pods::INDEX)?.parse().ok()?;
        (0..self.completions()?).contains(&index).then_some(index)
    }

    /// Whether a pod failed, or goes without an end of its own.
    fn has_failed(&self, pod: &Pod<'_>) -> bool {
        let ending = pod.object.meta.is_terminating() && pod.status.phase != "Succeeded";
        pod.status.phase == "Failed" || (ending && !self.waits_for_the_end())
    }
}

/// Whether a pod is still to be counted.
pub(super) fn is_tracked(pod: &Object) -> bool {
    pod.meta.finalizers.iter().any(|finalizer| finalizer == FINALIZER)
}

/// Has a pod wait to be counted.
pub(super) fn track(pod: &mut Value) {
    let mut finalizers: Vec<String> = metadata::finalizers(pod).into_iter().map(str::to_owned).collect();
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        finalizers.push(FINALIZER.to_owned());
        metadata::set(pod, "finalizers", Some(json!(finalizers)));
    }
}

/// Has a pod wait no longer.
pub(super) fn untrack(pod: &mut Value) {
    let left: Vec<&str> = metadata::finalizers(pod).into_iter().filter(|f| *f != FINALIZER).collect();
    let left = (!left.is_empty()).then(|| json!(left));
    metadata::set(pod, "finalizers", left);
}

/// The pod as one that has been counted.
fn counted(pod: &Object) -> Option<Action> {
    if !is_tracked(pod) {
        return None;
    }
    let mut changed = read::value(pod)?;
    untrack(&mut changed);
    Some(Action::update(Kind::Pod, changed))
}

/// How a Job has ended, and since when.
pub(super) fn finished(status: &Value) -> Option<&Value> {
    let is_true = |ty: &str| condition::find(status, ty).filter(|condition| condition["status"] == "True");
    is_true("Complete").or_else(|| is_true("Failed"))
}

/// What is to be done about a Job.
pub(super) fn decide(facts: &Facts<'_>, object: &Arc<Object>) -> Decision {
    let Some(value) = read::value(object) else { return Decision::nothing() };
    let manager = read::text(&value["spec"]["managedBy"]);
    if !manager.is_empty() && manager != CONTROLLER {
        return Decision::nothing();
    }
    let selector = selector(Kind::Job, &value["spec"]["selector"]);
    // A Job that would not know its own pods would make them without end.
    let knows_its_own = selector.matches(&read::texts(&value["spec"]["template"]["metadata"]["labels"]));
    let claimed = claim(facts, (Kind::Job, object), Kind::Pod, |pod| selector.matches(&pod.meta.labels));
    let job = Job { object, value, pods: claimed.owned.into_iter().map(Pod::read).collect() };
    if let Some(condition) = finished(job.status()) {
        return end::decide(facts, &job, condition);
    }
    let acting = facts.failed.is_none();
    if acting && !claimed.actions.is_empty() {
        return claimed.actions.into();
    }
    let mut decision = Decision::nothing();
    let count = Count::of(&job);
    let finish = finish::of(facts, &job, &count, &mut decision);
    if acting {
        decision.actions = match &finish {
            // It is written down first: what follows would change the reason.
            Some(finish) if !finish.known => Vec::new(),
            Some(_) => pods::stop(&count),
            None if object.meta.is_terminating() || !knows_its_own => Vec::new(),
            None => pods::manage(facts, &job, &count, &mut decision.again),
        };
    }
    if decision.actions.is_empty() {
        decision.actions.extend(track::status(facts, &job, &count, finish.as_ref()));
    }
    if acting && decision.actions.is_empty() {
        decision.actions = track::release(&job, &count, finish.as_ref());
    }
    if acting
        && decision.actions.is_empty()
        && count.terminating == 0
        && let Some(finish) = &finish
    {
        decision.actions.push(end::declare(facts, &job, finish));
    }
    decision
}

/// Lets a pod go that waits to be counted by a Job that is gone or has ended.
pub(super) fn let_go(facts: &Facts<'_>, pod: &Arc<Object>) -> Decision {
    let owner = pod.meta.controller().filter(|owner| Kind::of_owner(owner) == Some(Kind::Job));
    let job = owner.and_then(|owner| {
        let job = facts.view.get(&Kind::Job.key(&pod.key.namespace, &owner.name));
        job.filter(|job| job.meta.uid == owner.uid)
    });
    if job.is_some() {
        return Decision::nothing();
    }
    counted(pod).map_or_else(Decision::nothing, |action| vec![action].into())
}

#[cfg(test)]
mod tests;
