//! Old sets without pods are kept to go back to, but not all of them.

use super::super::action::Action;
use super::super::kind::Kind;
use super::super::read;
use super::set::Set;
use super::{Deployment, annotation};

/// Deletes the oldest revisions beyond those that are kept.
pub(super) fn clean_up(deployment: &Deployment<'_>) -> Vec<Action> {
    let limit = deployment.spec()["revisionHistoryLimit"].as_i64();
    let Some(limit) = limit.filter(|limit| *limit != i64::from(i32::MAX)) else { return Vec::new() };
    let mut old: Vec<&Set<'_>> =
        deployment.old_sets().filter(|set| !set.object.meta.is_terminating()).collect();
    old.sort_by_key(|set| annotation::revision(&set.value));
    let surplus = old.len().saturating_sub(read::size(limit));
    let gone = old.into_iter().take(surplus).filter(|set| {
        let seen = set.counted("observedGeneration") >= set.object.meta.generation;
        set.counted("replicas") == 0 && set.replicas() == 0 && seen
    });
    gone.map(|set| Action::delete(Kind::ReplicaSet, set.object)).collect()
}
