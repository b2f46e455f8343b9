//! PodDisruptionBudgets: how many pods of a selection may be missing on purpose. As kube-controller-manager's disruption
//! controller; evictions charge the status that is written here.

mod expected;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use litek8s_store::Object;
use serde_json::{Value, json};

use super::action::{Action, Decision};
use super::facts::Facts;
use super::index::selector;
use super::kind::Kind;
use super::pod::Pod;
use super::{condition, read};
use expected::Expected;

/// How long an evicted pod counts as one that goes before it is deleted.
const DELETION: SignedDuration = SignedDuration::from_mins(2);
/// When a budget is looked at again that could not be reckoned: what is missing may come without a change of its pods.
const RETRY: SignedDuration = SignedDuration::from_secs(30);
/// The condition.
const ALLOWED: &str = "DisruptionAllowed";

/// What is to be done about a budget.
pub(super) fn decide(facts: &Facts<'_>, object: &Arc<Object>) -> Decision {
    let Some(value) = read::value(object) else { return Decision::nothing() };
    let selector = selector(Kind::PodDisruptionBudget, &value["spec"]["selector"]);
    let pods = facts.view.list(Kind::Pod.resource(), Some(&object.key.namespace));
    let pods: Vec<Pod<'_>> = pods.filter(|pod| selector.matches(&pod.meta.labels)).map(Pod::read).collect();
    match expected::expected(facts, &value["spec"], &pods) {
        Ok(expected) => settled(facts, object, value, &pods, expected),
        Err(why) => failed(facts, value, &why),
    }
}

/// The status as it is to be.
fn settled(
    facts: &Facts<'_>,
    object: &Object,
    value: Value,
    pods: &[Pod<'_>],
    Expected { pods: expected, healthy: desired }: Expected,
) -> Decision {
    let staying = || pods.iter().filter(|pod| !pod.object.meta.is_terminating());
    let told = read::texts(&value["status"]["disruptedPods"]);
    let leaves = |pod: &Pod<'_>| {
        let since = told.get(&*pod.object.key.name)?;
        let end = since.parse::<Timestamp>().ok()?.checked_add(DELETION).ok()?;
        (end > facts.now).then(|| (pod.object.key.name.to_string(), (since.clone(), end)))
    };
    let leaving: BTreeMap<String, (String, Timestamp)> = staying().filter_map(leaves).collect();
    let healthy =
        staying().filter(|pod| pod.is_ready() && !leaving.contains_key(&*pod.object.key.name)).count();
    let healthy = i64::try_from(healthy).unwrap_or(i64::MAX);
    let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
    let mut status = json!({
        "currentHealthy": healthy, "desiredHealthy": desired, "expectedPods": expected,
        "disruptionsAllowed": allowed, "observedGeneration": object.meta.generation,
        "conditions": value["status"]["conditions"],
    });
    if !leaving.is_empty() {
        let leaving = leaving.iter().map(|(name, (since, _))| (name.clone(), json!(since)));
        status["disruptedPods"] = Value::Object(leaving.collect());
    }
    let (truth, reason) =
        if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let known = condition::find(&value["status"], ALLOWED);
    let told = known.is_some_and(|known| known["status"] == truth && known["reason"] == reason);
    if !told || !read::same(&status, &value["status"]) {
        tell(&mut status, (truth, reason, ""), object.meta.generation, facts.now);
    }
    let mut decision = changed(value, status);
    if let Some((_, end)) = leaving.values().min_by_key(|(_, end)| *end) {
        decision.wake(*end);
    }
    decision
}

/// What cannot be reckoned allows nothing.
fn failed(facts: &Facts<'_>, value: Value, why: &str) -> Decision {
    let mut status = value["status"].clone();
    if !status.is_object() {
        status = json!({});
    }
    status["disruptionsAllowed"] = json!(0);
    let known = condition::find(&status, ALLOWED);
    let told = known.is_some_and(|known| {
        known["status"] == "False" && known["reason"] == "SyncFailed" && known["message"] == why
    });
    if !told {
        let generation = status["observedGeneration"].as_i64().unwrap_or(0);
        tell(&mut status, ("False", "SyncFailed", why), generation, facts.now);
    }
    let mut decision = changed(value, status);
    decision.wake(facts.now + RETRY);
    decision
}

fn changed(mut value: Value, status: Value) -> Decision {
    if read::same(&value["status"], &status) {
        return Decision::nothing();
    }
    value["status"] = status;
    vec![Action::status(Kind::PodDisruptionBudget, value)].into()
}

fn tell(status: &mut Value, (truth, reason, message): (&str, &str, &str), generation: i64, now: Timestamp) {
    let condition = condition::Condition { ty: ALLOWED, status: truth, reason, message };
    let mut made = condition::made(status, &condition, now);
    made["observedGeneration"] = json!(generation);
    condition::put(status, made);
}

#[cfg(test)]
mod tests;
