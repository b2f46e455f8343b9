//! StatefulSets: pods with a name and a number each, and with volumes that stay, as kube-controller-manager keeps them.

mod identity;
mod member;
mod progress;
mod status;
mod storage;

use std::collections::BTreeSet;
use std::sync::Arc;

use litek8s_store::Object;
use serde_json::Value;

use super::action::Decision;
use super::claim::claim;
use super::facts::Facts;
use super::index::selector;
use super::kind::Kind;
use super::pod::Pod;
use super::read;
use super::revision::{self, Revision};
use member::Member;

/// The label by which a pod tells the revision that it was made from.
const REVISION: &str = "controller-revision-hash";
/// The label of a revision that tells its hash.
const HASH: &str = "controller.kubernetes.io/hash";

/// A StatefulSet with its pods.
struct Set<'a> {
    object: &'a Arc<Object>,
    value: Value,
    /// Its pods, by number.
    members: Vec<Member<'a>>,
    /// What its pods were, and are until they are updated.
    current: &'a Revision<'a>,
    /// What its pods are to become.
    update: &'a Revision<'a>,
}

impl Set<'_> {
    fn spec(&self) -> &Value {
        &self.value["spec"]
    }

    fn replicas(&self) -> i64 {
        self.spec()["replicas"].as_i64().unwrap_or(1)
    }

    /// The number of the first pod.
    fn start(&self) -> i64 {
        self.spec()["ordinals"]["start"].as_i64().unwrap_or(0)
    }

    fn is_in_range(&self, ordinal: i64) -> bool {
        (self.start()..self.start() + self.replicas()).contains(&ordinal)
    }

    /// Whether pods come and go one after the other.
    fn is_ordered(&self) -> bool {
        self.spec()["podManagementPolicy"] != "Parallel"
    }

    fn is_rolling(&self) -> bool {
        self.spec()["updateStrategy"]["type"] != "OnDelete"
    }

    /// The number, counted from the first, of the first pod that is updated.
    fn partition(&self) -> i64 {
        self.spec()["updateStrategy"]["rollingUpdate"]["partition"].as_i64().unwrap_or(0)
    }

    fn min_ready_seconds(&self) -> i64 {
        self.spec()["minReadySeconds"].as_i64().unwrap_or(0)
    }

    fn claim_templates(&self) -> &[Value] {
        read::list(&self.spec()["volumeClaimTemplates"])
    }
}

/// What is to be done about a StatefulSet.
pub(super) fn decide(facts: &Facts<'_>, object: &Arc<Object>) -> Decision {
    let Some(value) = read::value(object) else { return Decision::nothing() };
    let selector = selector(Kind::StatefulSet, &value["spec"]["selector"]);
    let me = (Kind::StatefulSet, object);
    let pods = claim(facts, me, Kind::Pod, |pod| {
        selector.matches(&pod.meta.labels) && identity::is_of(&object.key.name, &pod.key.name)
    });
    let kept = claim(facts, me, Kind::ControllerRevision, |kept| selector.matches(&kept.meta.labels));
    let revisions = revision::sorted(kept.owned);
    let alive = facts.failed.is_none() && !object.meta.is_terminating();
    if alive {
        let claims: Vec<_> = kept.actions.into_iter().chain(pods.actions).collect();
        if !claims.is_empty() {
            return claims.into();
        }
    }
    let newest = match revision::current(facts, (Kind::StatefulSet, object, &value), &revisions, HASH) {
        Ok(at) => at,
        Err(decision) if alive => return decision,
        Err(_) => match revisions.len().checked_sub(1) {
            Some(last) => last,
            None => return Decision::nothing(),
        },
    };
    let current = read::text(&value["status"]["currentRevision"]).to_owned();
    let update = &revisions[newest];
    let current = revisions.iter().find(|revision| *revision.name() == *current).unwrap_or(update);
    let mut members: Vec<Member<'_>> = pods.owned.into_iter().map(Pod::read).filter_map(Member::of).collect();
    members.sort_by_key(|member| member.ordinal);
    let set = Set { object, value, members, current, update };
    if alive {
        let mut actions = progress::next(facts, &set);
        if actions.is_empty() {
            actions = clean_up(&set, &revisions);
        }
        if !actions.is_empty() {
            return actions.into();
        }
    }
    status::decide(facts, &set)
}

/// Deletes revisions that nobody has and nobody would go back to.
fn clean_up(set: &Set<'_>, revisions: &[Revision<'_>]) -> Vec<super::action::Action> {
    let mut used: BTreeSet<String> = set.members.iter().map(|member| member.revision().to_owned()).collect();
    used.extend([set.current.name().to_owned(), set.update.name().to_owned()]);
    revision::clean_up(revisions, &used, set.spec()["revisionHistoryLimit"].as_i64().unwrap_or(10))
}

#[cfg(test)]
mod tests;
