//! Scaling while several sets have pods: each gets its share, so that a rollout under way keeps its proportions.

use std::cmp::Reverse;

use super::super::action::Action;
use super::set::Set;
use super::{Deployment, annotation};

/// Whether the wanted number changed since a set was scaled last.
pub(super) fn is_scaling(deployment: &Deployment<'_>) -> bool {
    deployment.sets.iter().filter(|set| set.replicas() > 0).any(|set| {
        annotation::number(&set.value, annotation::DESIRED)
            .is_some_and(|desired| desired != deployment.replicas())
    })
}

/// Brings the sets to the wanted number.
pub(super) fn scale(deployment: &Deployment<'_>) -> Vec<Action> {
    let wanted = deployment.replicas();
    let active: Vec<&Set<'_>> = deployment.sets.iter().filter(|set| set.replicas() > 0).collect();
    let only = match active.as_slice() {
        [] => deployment.new_set().or(deployment.sets.last()),
        [only] => Some(*only),
        _ => None,
    };
    if let Some(only) = only {
        let up_to_date = only.replicas() == wanted && !is_scaling(deployment);
        return if up_to_date { Vec::new() } else { only.scaled(deployment, wanted).into_iter().collect() };
    }
    if active.is_empty() {
        return Vec::new();
    }
    if deployment.new_set().is_some_and(|new| is_saturated(deployment, new)) {
        let old = deployment.old_sets().filter(|set| set.replicas() > 0);
        return old.filter_map(|set| set.scaled(deployment, 0)).collect();
    }
    if !deployment.is_rolling() {
        return Vec::new();
    }
    proportionally(deployment, active)
}

/// Whether the newest set has everything that is wanted.
fn is_saturated(deployment: &Deployment<'_>, set: &Set<'_>) -> bool {
    let wanted = deployment.replicas();
    let desired = annotation::number(&set.value, annotation::DESIRED);
    set.replicas() == wanted && desired == Some(wanted) && set.available() == wanted
}

fn proportionally(deployment: &Deployment<'_>, mut active: Vec<&Set<'_>>) -> Vec<Action> {
    let wanted = deployment.replicas();
    let allowed = if wanted > 0 { wanted + deployment.max_surge() } else { 0 };
    let to_add = allowed - active.iter().map(|set| set.replicas()).sum::<i64>();
    // The largest bear the rounding; among equals the newest grows, the oldest shrinks.
    if to_add > 0 {
        active.sort_by(|a, b| b.replicas().cmp(&a.replicas()).then(b.age().cmp(&a.age())));
    } else {
        active.sort_by_key(|set| Reverse(set.replicas()));
    }
    let mut added = 0;
    let mut sizes: Vec<i64> = Vec::with_capacity(active.len());
    for set in &active {
        let share = share(deployment, set, to_add, added);
        added += share;
        sizes.push(set.replicas() + share);
    }
    if let Some(first) = sizes.first_mut().filter(|_| to_add != 0) {
        *first = (*first + to_add - added).max(0);
    }
    active.iter().zip(sizes).filter_map(|(set, size)| set.scaled(deployment, size)).collect()
}

/// How many of the pods to add, or to take away, are this set's.
fn share(deployment: &Deployment<'_>, set: &Set<'_>, to_add: i64, added: i64) -> i64 {
    if set.replicas() == 0 || to_add == 0 || to_add == added {
        return 0;
    }
    let left = to_add - added;
    let fraction = fraction(deployment, set);
    if to_add > 0 { fraction.min(left) } else { fraction.max(left) }
}

fn fraction(deployment: &Deployment<'_>, set: &Set<'_>) -> i64 {
    if deployment.replicas() == 0 {
        return -set.replicas();
    }
    let counted = deployment.value["status"]["replicas"].as_i64().unwrap_or(0);
    let before =
        annotation::number(&set.value, annotation::MAXIMUM).filter(|max| *max > 0).unwrap_or(counted);
    if before == 0 {
        return 0;
    }
    let now = set.replicas() * (deployment.replicas() + deployment.max_surge());
    // Rounded to the nearest.
    (2 * now + before).div_euclid(2 * before) - set.replicas()
}
