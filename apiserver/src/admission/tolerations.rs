//! A pod stays five minutes on a node that is not ready or not reachable, unless it says how long. As
//! `DefaultTolerationSeconds` upstream.

use serde_json::{Value, json};

use crate::endpoints::metadata;

/// How long a pod stays, in seconds.
const SECONDS: u32 = 300;

/// Adds the tolerations that the pod does not have.
pub(super) fn admit_create(object: &mut Value) {
    let spec = metadata::object(object, "spec");
    let mut tolerations = spec["tolerations"].as_array().cloned().unwrap_or_default();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let covers = |toleration: &Value| {
            let same_key = toleration["key"].as_str().is_none_or(|k| k.is_empty() || k == key);
            let same_effect = toleration["effect"].as_str().is_none_or(|e| e.is_empty() || e == "NoExecute");
            same_key && same_effect
        };
        if !tolerations.iter().any(covers) {
            tolerations.push(
                json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS}),
            );
        }
    }
    spec["tolerations"] = Value::Array(tolerations);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_pod_says_itself_is_left_alone() {
        let added = |tolerations: Value| {
            let mut pod = json!({"spec": {"tolerations": tolerations}});
            admit_create(&mut pod);
            pod["spec"]["tolerations"].as_array().map(Vec::len)
        };
        assert_eq!(added(json!([])), Some(2));
        assert_eq!(added(json!([{"operator": "Exists"}])), Some(1));
        assert_eq!(added(json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}])), Some(2));
    }
}
