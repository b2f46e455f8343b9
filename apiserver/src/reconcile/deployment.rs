//! Deployments: ReplicaSets by template, one taking over from the others, as kube-controller-manager rolls them out.

mod annotation;
mod history;
mod new_set;
mod proportion;
mod rollout;
mod set;
mod status;

use std::sync::Arc;

use litek8s_store::Object;
use serde_json::Value;

use super::action::{Action, Decision};
use super::claim::claim;
use super::condition::{self, Condition};
use super::facts::Facts;
use super::index::selector;
use super::kind::Kind;
use super::read;
use set::Set;

/// A Deployment with its ReplicaSets.
struct Deployment<'a> {
    object: &'a Arc<Object>,
    value: Value,
    /// All of its sets, the oldest first.
    sets: Vec<Set<'a>>,
    /// Which of them has the Deployment's template.
    new: Option<usize>,
}

impl<'a> Deployment<'a> {
    fn spec(&self) -> &Value {
        &self.value["spec"]
    }

    fn replicas(&self) -> i64 {
        self.spec()["replicas"].as_i64().unwrap_or(1)
    }

    fn is_rolling(&self) -> bool {
        self.spec()["strategy"]["type"] != "Recreate"
    }

    fn is_paused(&self) -> bool {
        self.spec()["paused"] == true
    }

    /// How many pods may be there beyond those wanted.
    fn max_surge(&self) -> i64 {
        if self.is_rolling() { self.fenceposts().0 } else { 0 }
    }

    /// How many of those wanted may be missing.
    fn max_unavailable(&self) -> i64 {
        if !self.is_rolling() || self.replicas() == 0 {
            return 0;
        }
        self.fenceposts().1.min(self.replicas())
    }

    /// Both bounds as numbers; they are never both 0, or nothing would move.
    fn fenceposts(&self) -> (i64, i64) {
        let bounds = &self.spec()["strategy"]["rollingUpdate"];
        let replicas = self.replicas();
        let surge = read::share(&bounds["maxSurge"], replicas, true, 0);
        let unavailable = read::share(&bounds["maxUnavailable"], replicas, false, 0);
        if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
    }

    /// How many seconds without progress are a failure.
    fn progress_deadline(&self) -> Option<i64> {
        // The largest number stands for none.
        self.spec()["progressDeadlineSeconds"].as_i64().filter(|seconds| *seconds != i64::from(i32::MAX))
    }

    fn new_set(&self) -> Option<&Set<'a>> {
        self.new.map(|at| &self.sets[at])
    }

    fn old_sets(&self) -> impl Iterator<Item = &Set<'a>> {
        self.sets.iter().enumerate().filter(|(at, _)| Some(*at) != self.new).map(|(_, set)| set)
    }

    /// The number of pods that all sets together are to have.
    fn total(&self) -> i64 {
        self.sets.iter().map(Set::replicas).sum()
    }
}

/// What is to be done about a Deployment.
pub(super) fn decide(facts: &Facts<'_>, object: &Arc<Object>) -> Decision {
    let Some(value) = read::value(object) else { return Decision::nothing() };
    let selector = selector(Kind::Deployment, &value["spec"]["selector"]);
    let claimed =
        claim(facts, (Kind::Deployment, object), Kind::ReplicaSet, |set| selector.matches(&set.meta.labels));
    if facts.failed.is_none() && !claimed.actions.is_empty() {
        return claimed.actions.into();
    }
    let mut sets: Vec<Set<'_>> = claimed.owned.into_iter().filter_map(Set::read).collect();
    sets.sort_by(|a, b| a.age().cmp(&b.age()));
    let new = sets.iter().position(|set| set.has_template(&value["spec"]["template"]));
    let deployment = Deployment { object, value, sets, new };
    if object.meta.is_terminating() {
        return status::without_progress(facts, &deployment)
            .map_or_else(Decision::nothing, |a| vec![a].into());
    }
    if facts.failed.is_some() {
        return status::after_failure(facts, &deployment).map_or_else(Decision::nothing, |a| vec![a].into());
    }
    if let Some(action) = note_pause(facts, &deployment) {
        return vec![action].into();
    }
    let actions = next(facts, &deployment);
    if actions.is_empty() { status::decide(facts, &deployment) } else { actions.into() }
}

/// The next step towards what is wanted; none when there is nothing to do before something else happens.
fn next(facts: &Facts<'_>, deployment: &Deployment<'_>) -> Vec<Action> {
    let settled = new_set::settle(facts, deployment);
    if !settled.is_empty() {
        return settled;
    }
    if deployment.is_paused() || proportion::is_scaling(deployment) {
        let scaled = proportion::scale(deployment);
        if !scaled.is_empty() {
            return scaled;
        }
    }
    if deployment.is_paused() {
        return history::clean_up(deployment);
    }
    if deployment.is_rolling() {
        rollout::rolling(facts, deployment)
    } else {
        rollout::recreate(facts, deployment)
    }
}

/// A Deployment that was paused or goes on says so, so that the time it waited is not counted as a lack of progress.
fn note_pause(facts: &Facts<'_>, deployment: &Deployment<'_>) -> Option<Action> {
    deployment.progress_deadline()?;
    let known = condition::find(&deployment.value["status"], status::PROGRESSING);
    let reason = known.map_or("", |known| read::text(&known["reason"]));
    if reason == status::TIMED_OUT {
        return None;
    }
    let (reason, message) = match (deployment.is_paused(), reason == status::PAUSED) {
        (true, false) => (status::PAUSED, "Deployment is paused"),
        (false, true) => (status::RESUMED, "Deployment is resumed"),
        (true, true) | (false, false) => return None,
    };
    let mut changed = deployment.value.clone();
    let condition = Condition { ty: status::PROGRESSING, status: "Unknown", reason, message };
    status::set(&mut changed["status"], &condition, facts.now);
    Some(Action::status(Kind::Deployment, changed))
}

#[cfg(test)]
mod tests;
