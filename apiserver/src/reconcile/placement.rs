//! Which nodes a pod may be on, by what it says itself: selector, required affinity, tolerations. Nobody is placed here.

use std::collections::BTreeMap;
use std::sync::Arc;

use litek8s_store::Object;
use serde_json::{Map, Value, json};

use super::facts::Facts;
use super::kind::Kind;
use super::read::{self, list, text};
use crate::endpoints::metadata;

/// The field that a node is selected by when it is selected by name.
const NAME: &str = "metadata.name";

/// What is looked at in a node.
pub(super) struct Node {
    /// Its name.
    pub(super) name: Arc<str>,
    labels: BTreeMap<String, String>,
    taints: Vec<Value>,
}

impl Node {
    fn read(object: &Object) -> Option<Self> {
        let value = read::value(object)?;
        let taints = list(&value["spec"]["taints"]).to_vec();
        Some(Self { name: object.key.name.clone(), labels: object.meta.labels.clone(), taints })
    }

    /// Whether a taint of one of these effects is not tolerated.
    pub(super) fn repels(&self, tolerations: &Value, effects: &[&str]) -> bool {
        let counts = self.taints.iter().filter(|taint| effects.contains(&text(&taint["effect"])));
        counts.into_iter().any(|taint| !list(tolerations).iter().any(|t| tolerates(t, taint)))
    }

    /// Whether a pod's node selector and required affinity are met.
    pub(super) fn is_selected(&self, spec: &Value) -> bool {
        let selector = read::texts(&spec["nodeSelector"]);
        let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        selector.iter().all(|(key, value)| self.labels.get(key) == Some(value))
            && (required.is_null()
                || list(&required["nodeSelectorTerms"]).iter().any(|term| self.meets(term)))
    }

    /// An empty term is met by no node.
    fn meets(&self, term: &Value) -> bool {
        let (labels, fields) = (list(&term["matchExpressions"]), list(&term["matchFields"]));
        let label =
            |wanted: &Value| admits(wanted, self.labels.get(text(&wanted["key"])).map(String::as_str));
        let field = |wanted: &Value| wanted["key"] == NAME && admits(wanted, Some(&self.name));
        !(labels.is_empty() && fields.is_empty()) && labels.iter().all(label) && fields.iter().all(field)
    }
}

/// All nodes, by name.
pub(super) fn nodes(facts: &Facts<'_>) -> Vec<Node> {
    facts.view.list(Kind::Node.resource(), None).filter_map(|node| Node::read(node)).collect()
}

/// Whether a change of a node can change what may be on it.
pub(super) fn differs(before: &Object, now: &Object) -> bool {
    let spec = |node: &Object| read::value(node).map(|value| value["spec"].clone());
    before.meta.labels != now.meta.labels || spec(before) != spec(now)
}

/// Whether a value is what a requirement of a node selector wants.
fn admits(wanted: &Value, value: Option<&str>) -> bool {
    let values = list(&wanted["values"]);
    let held = value.is_some_and(|value| values.iter().any(|one| one == value));
    let bound = || Some((value?.parse::<i64>().ok()?, text(values.first()?).parse::<i64>().ok()?));
    match text(&wanted["operator"]) {
        "In" => held,
        "NotIn" => !held,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => bound().is_some_and(|(value, bound)| value > bound),
        "Lt" => bound().is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let any_or_same = |field: &str| text(&toleration[field]).is_empty() || toleration[field] == taint[field];
    let value = match text(&toleration["operator"]) {
        "Exists" => true,
        "" | "Equal" => text(&toleration["value"]) == text(&taint["value"]),
        _ => false,
    };
    any_or_same("effect") && any_or_same("key") && value
}

/// Adds a toleration of everything about `key`, in the place of one for the same.
pub(super) fn tolerate(spec: &mut Value, key: &str, effect: &str) {
    let wanted = json!({"key": key, "operator": "Exists", "effect": effect});
    let mut tolerations = list(&spec["tolerations"]).to_vec();
    let same = |toleration: &Value| {
        let fields = ["key", "operator", "effect", "value"];
        fields.iter().all(|field| text(&toleration[*field]) == text(&wanted[*field]))
    };
    match tolerations.iter_mut().find(|toleration| same(toleration)) {
        Some(known) => *known = wanted,
        None => tolerations.push(wanted),
    }
    spec["tolerations"] = Value::Array(tolerations);
}

/// Has a pod's required affinity want one node and nothing else.
pub(super) fn pin(spec: &mut Value, node: &str) {
    let affinity = metadata::object(spec, "affinity");
    let node_affinity = metadata::object(affinity, "nodeAffinity");
    let required = metadata::object(node_affinity, "requiredDuringSchedulingIgnoredDuringExecution");
    required["nodeSelectorTerms"] =
        json!([{"matchFields": [{"key": NAME, "operator": "In", "values": [node]}]}]);
}

/// The only node that an affinity lets a pod be on.
pub(super) fn pinned(affinity: &Map<String, Value>) -> Option<&str> {
    let required = &affinity.get("nodeAffinity")?["requiredDuringSchedulingIgnoredDuringExecution"];
    let fields = list(&required["nodeSelectorTerms"]).iter().flat_map(|term| list(&term["matchFields"]));
    let mut named = fields.filter(|field| field["key"] == NAME && field["operator"] == "In");
    match list(&named.next()?["values"]) {
        [only] => only.as_str(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(taints: Value) -> Node {
        let labels = [("zone".to_owned(), "a".to_owned()), ("cores".to_owned(), "8".to_owned())];
        Node { name: "n1".into(), labels: labels.into(), taints: list(&taints).to_vec() }
    }

    #[test]
    fn a_node_is_selected_by_labels_and_terms() {
        let node = node(json!([]));
        let affinity = |terms: Value| json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}});
        let label = |key: &str, operator: &str, values: Value| {
            affinity(json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]))
        };
        let cases = [
            (json!({}), true),
            (json!({"nodeSelector": {"zone": "a"}}), true),
            (json!({"nodeSelector": {"zone": "b"}}), false),
            (affinity(json!([])), false),
            (affinity(json!([{}])), false),
            (label("zone", "In", json!(["a", "b"])), true),
            (label("zone", "NotIn", json!(["a"])), false),
            (label("gpu", "NotIn", json!(["a"])), true),
            (label("gpu", "DoesNotExist", json!([])), true),
            (label("cores", "Gt", json!(["4"])), true),
            (label("cores", "Lt", json!(["4"])), false),
            (affinity(json!([{"matchFields": [{"key": NAME, "operator": "In", "values": ["n1"]}]}])), true),
            (affinity(json!([{"matchFields": [{"key": NAME, "operator": "In", "values": ["n2"]}]}])), false),
        ];
        for (spec, wanted) in cases {
            assert_eq!(node.is_selected(&spec), wanted, "{spec}");
        }
    }

    #[test]
    fn taints_repel_what_does_not_tolerate_them() {
        let node = node(json!([{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]));
        let effects = ["NoSchedule", "NoExecute"];
        let cases = [
            (json!([]), true),
            (json!([{"key": "dedicated", "value": "db"}]), false),
            (json!([{"key": "dedicated", "value": "web"}]), true),
            (json!([{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}]), false),
            (json!([{"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}]), true),
            (json!([{"operator": "Exists"}]), false),
        ];
        for (tolerations, wanted) in cases {
            assert_eq!(node.repels(&tolerations, &effects), wanted, "{tolerations}");
        }
        assert!(!node.repels(&json!([]), &["NoExecute"]));
    }

    #[test]
    fn a_pinned_pod_names_its_node() {
        let mut spec = json!({"affinity": {"podAffinity": {}}});
        pin(&mut spec, "n7");
        assert_eq!(pinned(spec["affinity"].as_object().unwrap()), Some("n7"));
        assert!(spec["affinity"]["podAffinity"].is_object());
        assert_eq!(pinned(&Map::new()), None);
    }
}
