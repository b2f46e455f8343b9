//! DaemonSets: one pod on each node that its template may be on, as kube-controller-manager keeps them. A pod is pinned to
//! its node by affinity; who puts it there is somebody else's business.

mod node;
mod rollout;
mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use litek8s_store::Object;
use serde_json::{Value, json};

use super::action::{Action, Decision, Note};
use super::claim::claim;
use super::facts::Facts;
use super::index::selector;
use super::kind::Kind;
use super::placement::{self, Node};
use super::pod::Pod;
use super::revision::{self, Revision};
use super::{read, template};
use crate::endpoints::metadata;

/// The label of a pod, and of a revision, that tells the template's hash.
const HASH: &str = "controller-revision-hash";
/// The most pods that are created or deleted in one round.
const BURST: usize = 250;

/// A DaemonSet with its pods.
struct Daemons<'a> {
    object: &'a Arc<Object>,
    value: Value,
    /// The spec of a pod on any node.
    pod_spec: Value,
    nodes: Vec<Node>,
    /// The pods of each node, those that are gone but for a finalizer left out.
    pods: BTreeMap<String, Vec<Pod<'a>>>,
    /// The hash of the template.
    hash: String,
}

impl<'a> Daemons<'a> {
    fn spec(&self) -> &Value {
        &self.value["spec"]
    }

    fn on(&self, node: &str) -> &[Pod<'a>] {
        self.pods.get(node).map_or(&[], Vec::as_slice)
    }

    fn is_available(&self, pod: &Pod<'_>, now: Timestamp) -> bool {
        let seconds = self.spec()["minReadySeconds"].as_i64().unwrap_or(0);
        pod.available_from(seconds).is_some_and(|from| from <= now)
    }

    fn is_updated(&self, pod: &Pod<'_>) -> bool {
        pod.object.meta.labels.get(HASH) == Some(&self.hash)
    }

    /// A bound of the rolling update, in nodes.
    fn bound(&self, name: &str, nodes: i64) -> i64 {
        let strategy = &self.spec()["updateStrategy"];
        if strategy["type"] == "OnDelete" {
            return 0;
        }
        read::share(&strategy["rollingUpdate"][name], nodes, true, 0)
    }

    fn surges(&self) -> bool {
        self.bound("maxSurge", 1) > 0
    }

    /// Whether a pod is to be on a node, and whether one that is there may stay.
    fn fits(&self, node: &Node) -> (bool, bool) {
        let named = read::text(&self.pod_spec["nodeName"]);
        if !(named.is_empty() || *named == *node.name) || !node.is_selected(&self.pod_spec) {
            return (false, false);
        }
        let tolerations = &self.pod_spec["tolerations"];
        (!node.repels(tolerations, &["NoSchedule", "NoExecute"]), !node.repels(tolerations, &["NoExecute"]))
    }

    fn create(&self, node: &str) -> Action {
        let mut pod = template::pod(&self.spec()["template"], Kind::DaemonSet, self.object);
        pod["metadata"]["generateName"] = json!(template::prefix(self.object));
        metadata::object(&mut pod["metadata"], "labels")[HASH] = json!(self.hash);
        pod["spec"] = self.pod_spec.clone();
        placement::pin(&mut pod["spec"], node);
        Action::create(Kind::Pod, pod).noted(Note::new("SuccessfulCreate", "Created pod: {}"))
    }
}

fn delete(pod: &Pod<'_>) -> Action {
    Action::delete(Kind::Pod, pod.object).noted(Note::new("SuccessfulDelete", "Deleted pod: {}"))
}

/// A pod's spec with what every daemon tolerates: the troubles of its node.
fn tolerant(mut spec: Value) -> Value {
    for trouble in ["not-ready", "unreachable"] {
        placement::tolerate(&mut spec, &format!("node.kubernetes.io/{trouble}"), "NoExecute");
    }
    let mut troubles = vec!["disk-pressure", "memory-pressure", "pid-pressure", "unschedulable"];
    if spec["hostNetwork"] == true {
        troubles.push("network-unavailable");
    }
    for trouble in troubles {
        placement::tolerate(&mut spec, &format!("node.kubernetes.io/{trouble}"), "NoSchedule");
    }
    spec
}

/// What is to be done about a DaemonSet.
pub(super) fn decide(facts: &Facts<'_>, object: &Arc<Object>) -> Decision {
    if object.meta.is_terminating() {
        return Decision::nothing();
    }
    let Some(value) = read::value(object) else { return Decision::nothing() };
    let selector = selector(Kind::DaemonSet, &value["spec"]["selector"]);
    let me = (Kind::DaemonSet, object);
    let pods = claim(facts, me, Kind::Pod, |pod| selector.matches(&pod.meta.labels));
    let kept = claim(facts, me, Kind::ControllerRevision, |kept| selector.matches(&kept.meta.labels));
    let acting = facts.failed.is_none();
    if acting {
        let claims: Vec<_> = kept.actions.into_iter().chain(pods.actions).collect();
        if !claims.is_empty() {
            return claims.into();
        }
    }
    let revisions = revision::sorted(kept.owned);
    let newest = match revision::current(facts, (Kind::DaemonSet, object, &value), &revisions, HASH) {
        Ok(at) => &revisions[at],
        Err(decision) if acting => return decision,
        Err(_) => return Decision::nothing(),
    };
    let hash = hash_of(newest);
    let pods: Vec<Pod<'_>> = pods.owned.into_iter().map(Pod::read).collect();
    let mut used: BTreeSet<String> =
        pods.iter().filter_map(|pod| pod.object.meta.labels.get(HASH).cloned()).collect();
    used.insert(hash.clone());
    let pod_spec = tolerant(value["spec"]["template"]["spec"].clone());
    let daemons =
        Daemons { object, value, pod_spec, nodes: placement::nodes(facts), pods: by_node(pods), hash };
    if acting {
        let step = next(facts, &daemons, &revisions, &used);
        if !step.actions.is_empty() {
            return step;
        }
        let mut decision = status::decide(facts, &daemons);
        if let Some(again) = step.again {
            decision.wake(again);
        }
        return decision;
    }
    status::decide(facts, &daemons)
}

/// A revision's hash; one that somebody else made is known by its name.
fn hash_of(revision: &Revision<'_>) -> String {
    revision.object.meta.labels.get(HASH).cloned().unwrap_or_else(|| revision.name().to_owned())
}

/// The next step: the right pods on every node, then pods of the new template, then old revisions.
fn next(
    facts: &Facts<'_>,
    daemons: &Daemons<'_>,
    revisions: &[Revision<'_>],
    used: &BTreeSet<String>,
) -> Decision {
    let mut step = node::settle(facts, daemons);
    if step.actions.is_empty() && daemons.spec()["updateStrategy"]["type"] != "OnDelete" {
        step.actions = rollout::next(facts, daemons);
    }
    if step.actions.is_empty() {
        let names: BTreeSet<String> = revisions
            .iter()
            .filter(|revision| used.contains(&hash_of(revision)))
            .map(|revision| revision.name().to_owned())
            .collect();
        let limit = daemons.spec()["revisionHistoryLimit"].as_i64().unwrap_or(10);
        step.actions = revision::clean_up(revisions, &names, limit);
    }
    step
}

/// Pods by the node that they are on or are to be on, the first to stay first.
fn by_node(pods: Vec<Pod<'_>>) -> BTreeMap<String, Vec<Pod<'_>>> {
    let mut nodes: BTreeMap<String, Vec<Pod<'_>>> = BTreeMap::new();
    for pod in pods {
        if pod.is_finished() && pod.object.meta.is_terminating() {
            continue;
        }
        let node = match pod.spec.node_name.as_str() {
            "" => pod.spec.affinity.as_ref().and_then(placement::pinned).map(str::to_owned),
            name => Some(name.to_owned()),
        };
        if let Some(node) = node {
            nodes.entry(node).or_default().push(pod);
        }
    }
    for pods in nodes.values_mut() {
        pods.sort_by_cached_key(|pod| {
            let meta = &pod.object.meta;
            (pod.spec.node_name.is_empty(), meta.creation_timestamp.clone(), pod.object.key.name.clone())
        });
    }
    nodes
}

#[cfg(test)]
mod tests;
