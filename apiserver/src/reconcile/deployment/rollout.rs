//! From the old sets to the new one: side by side within bounds, or one after the other.

use super::super::action::Action;
use super::super::claim::controlled;
use super::super::facts::Facts;
use super::super::kind::Kind;
use super::super::pod::Pod;
use super::set::Set;
use super::{Deployment, history, new_set, status};

/// The next step of a rolling update.
pub(super) fn rolling(facts: &Facts<'_>, deployment: &Deployment<'_>) -> Vec<Action> {
    let Some(new) = deployment.new_set() else { return new_set::create(facts, deployment) };
    let wanted = deployment.replicas();
    let size = if new.replicas() > wanted { wanted } else { new_set::replicas(deployment, Some(new)) };
    if size != new.replicas() {
        return new.scaled(deployment, size).into_iter().collect();
    }
    let shrunk = shrink_old(deployment, new);
    if !shrunk.is_empty() {
        return shrunk;
    }
    clean_up_when_complete(deployment)
}

/// Takes pods from the old sets: first those that do not work, then as many as the new set has made up for.
fn shrink_old(deployment: &Deployment<'_>, new: &Set<'_>) -> Vec<Action> {
    let old: Vec<&Set<'_>> = deployment.old_sets().collect();
    if old.iter().all(|set| set.replicas() == 0) {
        return Vec::new();
    }
    let least = deployment.replicas() - deployment.max_unavailable();
    let missing = new.replicas() - new.available();
    let most = deployment.total() - least - missing;
    if most <= 0 {
        return Vec::new();
    }
    let mut sizes: Vec<i64> = old.iter().map(|set| set.replicas()).collect();
    let mut taken = 0;
    for (set, size) in old.iter().zip(&mut sizes) {
        let broken = (*size - set.available()).max(0).min(most - taken);
        *size -= broken;
        taken += broken;
    }
    let available: i64 = deployment.sets.iter().map(Set::available).sum();
    let mut spare = (available - least).max(0);
    for size in &mut sizes {
        let more = spare.min(*size);
        *size -= more;
        spare -= more;
    }
    let changed = old.iter().zip(sizes).filter(|(set, size)| set.replicas() != *size);
    changed.filter_map(|(set, size)| set.scaled(deployment, size)).collect()
}

/// The next step when everything old goes before anything new comes.
pub(super) fn recreate(facts: &Facts<'_>, deployment: &Deployment<'_>) -> Vec<Action> {
    let old = deployment.old_sets().filter(|set| set.replicas() > 0);
    let stopped: Vec<Action> = old.filter_map(|set| set.scaled(deployment, 0)).collect();
    if !stopped.is_empty() {
        return stopped;
    }
    if deployment.old_sets().any(|set| has_running_pods(facts, set)) {
        return Vec::new();
    }
    let Some(new) = deployment.new_set() else { return new_set::create(facts, deployment) };
    if new.replicas() != deployment.replicas() {
        return new.scaled(deployment, deployment.replicas()).into_iter().collect();
    }
    clean_up_when_complete(deployment)
}

/// Whether pods of a set are still there that have not ended.
fn has_running_pods(facts: &Facts<'_>, set: &Set<'_>) -> bool {
    set.counted("replicas") > 0
        || controlled(facts, set.object, Kind::Pod).into_iter().any(|pod| !Pod::read(pod).is_finished())
}

fn clean_up_when_complete(deployment: &Deployment<'_>) -> Vec<Action> {
    if status::is_complete(deployment, &deployment.value["status"]) {
        history::clean_up(deployment)
    } else {
        Vec::new()
    }
}
