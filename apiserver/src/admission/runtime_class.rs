//! A pod that names a RuntimeClass gets its overhead, node selector and tolerations. As `RuntimeClass` upstream.

use litek8s_store::{GroupResource, ObjectKey};
use serde_json::Value;

use super::attributes::{Attributes, Operation};
use crate::endpoints::metadata;
use crate::response::Failure;

/// Merges the class of a new pod into it; a class that does not exist is refused.
pub(super) fn merge(attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Failure> {
    let resource = attributes.cx.resource;
    let is_pod = resource.group.is_empty() && *resource.plural == *"pods";
    if !is_pod || !attributes.cx.subresource.is_empty() || attributes.operation != Operation::Create {
        return Ok(());
    }
    let spec = metadata::object(object, "spec");
    let name = spec.get("runtimeClassName").map_or("", plain).to_owned();
    if name.is_empty() {
        return match spec.get("overhead").and_then(Value::as_object) {
            Some(overhead) if !overhead.is_empty() => Err(attributes.forbidden(
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
            )),
            _ => Ok(()),
        };
    }
    let classes = GroupResource::new("node.k8s.io", "runtimeclasses");
    let Some(stored) = attributes.cx.view.get(&ObjectKey::new(classes, "", &name)) else {
        return Err(attributes.forbidden(format!("pod rejected: RuntimeClass {name:?} not found")));
    };
    let class: Value = serde_json::from_slice(&stored.json).unwrap_or_default();
    apply(&class, spec).map_err(|why| attributes.forbidden(why))
}

/// What a class adds to the spec of a pod, or why the two cannot go together.
fn apply(class: &Value, spec: &mut Value) -> Result<(), String> {
    let of_class = class.pointer("/overhead/podFixed").filter(|fixed| fixed.is_object());
    match (of_class, spec.get("overhead")) {
        (Some(fixed), Some(given)) if given != fixed => {
            return Err(
                "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".to_owned()
            );
        }
        (None, Some(given)) if given.as_object().is_some_and(|given| !given.is_empty()) => {
            return Err("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
                .to_owned());
        }
        (Some(fixed), _) => spec["overhead"] = fixed.clone(),
        (None, _) => {}
    }
    let scheduling = &class["scheduling"];
    if let Some(wanted) = scheduling["nodeSelector"].as_object().filter(|wanted| !wanted.is_empty()) {
        let selector = metadata::object(spec, "nodeSelector");
        for (key, value) in wanted {
            match selector.get(key) {
                Some(given) if given != value => {
                    let (ours, theirs) = (plain(value), plain(given));
                    return Err(format!(
                        "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {ours}; \
                         pod.spec.nodeSelector[{key}] = {theirs}"
                    ));
                }
                _ => selector[key.as_str()] = value.clone(),
            }
        }
    }
    if let Some(wanted) = scheduling["tolerations"].as_array().filter(|wanted| !wanted.is_empty()) {
        let mut all = spec.get("tolerations").and_then(Value::as_array).cloned().unwrap_or_default();
        for toleration in wanted {
            if !all.contains(toleration) {
                all.push(toleration.clone());
            }
        }
        spec["tolerations"] = Value::from(all);
    }
    Ok(())
}

fn plain(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_class_adds_its_overhead_and_where_it_can_run() {
        let toleration = json!({"key": "a", "operator": "Exists"});
        let class = json!({
            "overhead": {"podFixed": {"cpu": "10m"}},
            "scheduling": {"nodeSelector": {"sandbox": "yes"}, "tolerations": [toleration]},
        });
        let mut spec = json!({"nodeSelector": {"disk": "ssd"}, "tolerations": [toleration]});
        apply(&class, &mut spec).unwrap();
        assert_eq!(
            spec,
            json!({
                "overhead": {"cpu": "10m"}, "nodeSelector": {"disk": "ssd", "sandbox": "yes"},
                "tolerations": [toleration],
            })
        );
        let refused = |mut spec: Value| apply(&class, &mut spec).unwrap_err();
        assert!(refused(json!({"overhead": {"cpu": "1"}})).contains("doesn't match RuntimeClass's"));
        let conflict = refused(json!({"nodeSelector": {"sandbox": "no"}}));
        assert!(conflict.ends_with("nodeSelector[sandbox] = yes; pod.spec.nodeSelector[sandbox] = no"));
        let mut plain = json!({});
        apply(&json!({"handler": "h"}), &mut plain).unwrap();
        assert_eq!(plain, json!({}));
        assert!(apply(&json!({}), &mut json!({"overhead": {"cpu": "1"}})).is_err());
    }
}
