//! What a Deployment writes on its sets: which revision they are, and how many pods were wanted.

use litek8s_store::Object;
use serde_json::{Map, Value, json};

use super::super::read::{text, value};
use super::Deployment;

/// The number of the rollout that a set belongs to.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
/// The revisions that a set was before it was rolled back to.
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// How many pods the Deployment wanted when the set was scaled.
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// How many it allowed then.
pub(super) const MAXIMUM: &str = "deployment.kubernetes.io/max-replicas";

/// These say something about one object and are not handed on.
const OWN: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAXIMUM,
    "deprecated.deployment.rollback.to",
];
/// The most characters of a history.
const HISTORY_MAX: usize = 2000;

/// An annotation, empty when missing.
pub(super) fn get<'a>(object: &'a Value, name: &str) -> &'a str {
    text(&object["metadata"]["annotations"][name])
}

/// An annotation as a number.
pub(super) fn number(object: &Value, name: &str) -> Option<i64> {
    get(object, name).parse().ok()
}

/// The revision of an object; 0 when it has none.
pub(super) fn revision(object: &Value) -> i64 {
    number(object, REVISION).unwrap_or(0)
}

fn put(object: &mut Value, name: &str, value: &str) -> bool {
    if get(object, name) == value {
        return false;
    }
    let metadata = crate::endpoints::metadata::object(object, "metadata");
    crate::endpoints::metadata::object(metadata, "annotations")[name] = json!(value);
    true
}

/// Writes down how many pods are wanted and allowed; whether that is news.
pub(super) fn set_replicas(set: &mut Value, deployment: &Deployment<'_>) -> bool {
    let wanted = deployment.replicas();
    let desired = put(set, DESIRED, &wanted.to_string());
    let maximum = put(set, MAXIMUM, &(wanted + deployment.max_surge()).to_string());
    desired || maximum
}

/// Hands the Deployment's annotations on and makes the set this revision; whether anything changed.
pub(super) fn hand_on(set: &mut Value, deployment: &Value, revision: i64) -> bool {
    let given: Map<String, Value> =
        deployment["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    let mut changed = false;
    for (name, value) in given.iter().filter(|(name, _)| !OWN.contains(&name.as_str())) {
        changed |= put(set, name, text(value));
    }
    let before = number(set, REVISION);
    if before.unwrap_or(0) >= revision {
        return changed;
    }
    put(set, REVISION, &revision.to_string());
    if let Some(before) = before {
        let mut history: Vec<String> =
            get(set, HISTORY).split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        history.push(before.to_string());
        while history.join(",").len() > HISTORY_MAX {
            history.remove(0);
        }
        put(set, HISTORY, &history.join(","));
    }
    true
}

/// Makes the Deployment tell the revision of its newest set; whether that is news.
pub(super) fn tell_revision(deployment: &mut Value, set: &Object) -> bool {
    let revision = value(set).map(|set| get(&set, REVISION).to_owned()).unwrap_or_default();
    !revision.is_empty() && put(deployment, REVISION, &revision)
}
