//! What the status of a StatefulSet says.

use serde_json::json;

use super::super::action::{Action, Decision};
use super::super::facts::Facts;
use super::super::kind::Kind;
use super::super::read;
use super::Set;
use super::member::Member;
use crate::endpoints::metadata;

/// Brings the status up to date.
pub(super) fn decide(facts: &Facts<'_>, set: &Set<'_>) -> Decision {
    let mut decision = Decision::nothing();
    let seconds = set.min_ready_seconds();
    let count = |is: &dyn Fn(&Member<'_>) -> bool| set.members.iter().filter(|member| is(member)).count();
    let of = |name: &str| count(&|member| !member.is_terminating() && member.revision() == name);
    let ready = count(&|member| member.is_ready());
    let mut current = (set.current.name(), of(set.current.name()));
    let updated = of(set.update.name());
    let wanted = read::size(set.replicas());
    if set.is_rolling() && [updated, ready, set.members.len()] == [wanted; 3] {
        current = (set.update.name(), updated);
    }
    let waiting = set.members.iter().filter(|member| member.is_ready());
    let next =
        waiting.filter_map(|member| member.pod.available_from(seconds)).filter(|from| *from > facts.now);
    if let Some(next) = next.min() {
        decision.wake(next);
    }
    let mut changed = set.value.clone();
    let status = metadata::object(&mut changed, "status");
    status["observedGeneration"] = json!(set.object.meta.generation);
    status["replicas"] = json!(set.members.len());
    status["readyReplicas"] = json!(ready);
    status["availableReplicas"] =
        json!(count(&|member| member.is_ready() && member.is_available(seconds, facts.now)));
    status["currentReplicas"] = json!(current.1);
    status["updatedReplicas"] = json!(updated);
    status["currentRevision"] = json!(current.0);
    status["updateRevision"] = json!(set.update.name());
    status["collisionCount"] = json!(set.value["status"]["collisionCount"].as_i64().unwrap_or(0));
    if !read::same(status, &set.value["status"]) {
        decision.actions.push(Action::status(Kind::StatefulSet, changed));
    }
    decision
}
