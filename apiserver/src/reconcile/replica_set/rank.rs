//! Which pods go first when there are too many: what does least, and what has neighbours of its own sort.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;
use litek8s_store::Object;

use super::super::claim::controlled;
use super::super::facts::Facts;
use super::super::kind::Kind;
use super::super::pod::Pod;

/// The `count` pods to delete, the least useful first.
pub(super) fn first_to_go<'a, 'b>(
    facts: &Facts<'_>,
    set: &Object,
    mut active: Vec<&'b Pod<'a>>,
    count: usize,
) -> Vec<&'b Pod<'a>> {
    if count == 0 {
        return Vec::new();
    }
    if count < active.len() {
        let neighbours = neighbours(facts, set, &active);
        active.sort_by_cached_key(|pod| rank(facts.now, pod, &neighbours));
    }
    active.truncate(count);
    active
}

/// How many pods of the set, and of the sets that have the same owner, each node has.
fn neighbours(facts: &Facts<'_>, set: &Object, active: &[&Pod<'_>]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let mut add = |pod: &Pod<'_>| *counts.entry(pod.spec.node_name.clone()).or_default() += 1;
    active.iter().for_each(|pod| add(pod));
    let Some(owner) = set.meta.controller() else { return counts };
    let siblings = facts.view.dependents(&owner.uid).filter(|key| key.resource == set.key.resource);
    for sibling in siblings.filter_map(|key| facts.view.get(key)).filter(|s| s.meta.uid != set.meta.uid) {
        controlled(facts, sibling, Kind::Pod)
            .into_iter()
            .map(Pod::read)
            .filter(Pod::is_active)
            .for_each(|pod| add(&pod));
    }
    counts
}

/// Sorts before those that may stay longer.
type Rank = (bool, u8, bool, i64, Reverse<usize>, Reverse<Magnitude>, Reverse<i64>, Magnitude, String);

/// An age, doubled often: pods of about the same age are as good as each other.
type Magnitude = u32;

fn rank(now: Timestamp, pod: &Pod<'_>, neighbours: &BTreeMap<String, usize>) -> Rank {
    let phase = match pod.status.phase.as_str() {
        "Running" => 2,
        "Unknown" => 1,
        _ => 0,
    };
    let created = pod.object.meta.creation_timestamp.as_deref().and_then(|text| text.parse().ok());
    let ready = pod.is_ready();
    (
        !pod.spec.node_name.is_empty(),
        phase,
        ready,
        pod.deletion_cost,
        Reverse(neighbours.get(&pod.spec.node_name).copied().unwrap_or(0)),
        // Those that are ready for a shorter time go first.
        Reverse(u32::MAX - magnitude(now, pod.ready_since())),
        Reverse(pod.restarts()),
        magnitude(now, created),
        pod.object.meta.uid.clone(),
    )
}

/// The younger, the smaller.
fn magnitude(now: Timestamp, since: Option<Timestamp>) -> Magnitude {
    let Some(since) = since else { return 0 };
    let seconds = u64::try_from(now.duration_since(since).as_secs()).unwrap_or(0);
    u64::BITS - seconds.leading_zeros()
}
