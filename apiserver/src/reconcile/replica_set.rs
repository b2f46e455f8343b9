//! ReplicaSets and ReplicationControllers: so many pods of one template, as kube-controller-manager keeps them.

mod rank;
mod status;

use std::sync::Arc;

use litek8s_store::Object;
use serde_json::Value;

use super::action::{Action, Decision, Note};
use super::claim::claim;
use super::facts::Facts;
use super::index::selector;
use super::kind::Kind;
use super::pod::Pod;
use super::{read, template};

/// The most pods that are created or deleted in one round.
const BURST: usize = 500;

/// What is to be done about a set.
pub(super) fn decide(facts: &Facts<'_>, kind: Kind, object: &Arc<Object>) -> Decision {
    let Some(value) = read::value(object) else { return Decision::nothing() };
    let selector = selector(kind, &value["spec"]["selector"]);
    let claimed = claim(facts, (kind, object), Kind::Pod, |pod| selector.matches(&pod.meta.labels));
    let pods: Vec<Pod<'_>> = claimed.owned.into_iter().map(Pod::read).collect();
    if facts.failed.is_none() {
        let mut actions = claimed.actions;
        // A set that would not know its own pods would make them without end.
        let knows_its_own = selector.matches(&read::texts(&value["spec"]["template"]["metadata"]["labels"]));
        if actions.is_empty() && knows_its_own && !object.meta.is_terminating() {
            actions = scale(facts, kind, object, &value, &pods);
        }
        if !actions.is_empty() {
            return actions.into();
        }
    }
    status::decide(facts, kind, &value, &pods)
}

/// The number of pods wanted.
fn wanted(value: &Value) -> i64 {
    value["spec"]["replicas"].as_i64().unwrap_or(1)
}

/// The pods that are too many or missing.
fn scale(
    facts: &Facts<'_>,
    kind: Kind,
    object: &Arc<Object>,
    value: &Value,
    pods: &[Pod<'_>],
) -> Vec<Action> {
    let active: Vec<&Pod<'_>> = pods.iter().filter(|pod| pod.is_active()).collect();
    let wanted = read::size(wanted(value));
    if active.len() < wanted {
        let mut pod = template::pod(&value["spec"]["template"], kind, object);
        pod["metadata"]["generateName"] = Value::from(template::prefix(object));
        let made = Action::create(Kind::Pod, pod).noted(Note::new("SuccessfulCreate", "Created pod: {}"));
        return vec![made; (wanted - active.len()).min(BURST)];
    }
    let surplus = (active.len() - wanted).min(BURST);
    rank::first_to_go(facts, object, active, surplus)
        .into_iter()
        .map(|pod| {
            let note = Note::new("SuccessfulDelete", "Deleted pod: {}");
            Action::delete(Kind::Pod, pod.object).noted(note)
        })
        .collect()
}

#[cfg(test)]
mod tests;
