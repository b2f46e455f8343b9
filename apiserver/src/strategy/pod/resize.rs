//! `pods/resize`: the cpu and memory of containers, and nothing else. As `ValidatePodResize` upstream.

use litek8s_machinery::field::FieldError;
use serde_json::Value;

use super::change::{LISTS, same};
use super::{list, qos_class};
use crate::endpoints::metadata;

/// The pod keeps everything but the resources of its containers. Other containers than before are for [`validate`].
pub(super) fn prepare(object: &mut Value, old: &Value) {
    let given = std::mem::replace(object, old.clone());
    metadata::set(object, "managedFields", metadata::field(&given, "managedFields").cloned());
    for name in LISTS {
        let containers = list(&given["spec"], name);
        if !same_names(containers, list(&old["spec"], name)) {
            object["spec"][name] = given["spec"][name].clone();
            continue;
        }
        for (kept, given) in object["spec"][name].as_array_mut().into_iter().flatten().zip(containers) {
            for field in ["resources", "resizePolicy"] {
                kept[field] = given[field].clone();
            }
        }
    }
}

/// What is wrong with resizing the pod `old` to `new`.
pub(super) fn validate(new: &Value, old: &Value) -> Vec<FieldError> {
    let moved = |name: &&str| !same_names(list(&new["spec"], name), list(&old["spec"], name));
    if let Some(name) = LISTS.into_iter().find(moved) {
        let detail = format!("{name} may not be added, removed, renamed or reordered on resize");
        return vec![FieldError::forbidden(format!("spec.{name}"), detail)];
    }
    let mut errors = Vec::new();
    let class = qos_class(&new["spec"]);
    if old["status"]["qosClass"] != class {
        errors.push(FieldError::invalid(
            "spec",
            class,
            "Pod QOS Class may not change as a result of resizing",
        ));
    }
    if !is_supported(old) {
        errors.push(FieldError::forbidden("spec", "Pod running on node without support for resize"));
    }
    for name in LISTS {
        for (at, (new, old)) in list(&new["spec"], name).iter().zip(list(&old["spec"], name)).enumerate() {
            errors.extend(container(new, old, name == "containers", &format!("spec.{name}[{at}]")));
        }
    }
    errors
}

fn container(new: &Value, old: &Value, regular: bool, at: &str) -> Vec<FieldError> {
    if same(new, old) {
        return Vec::new();
    }
    if !regular && old["restartPolicy"] != "Always" {
        return vec![FieldError::forbidden(at, "resources for non-sidecar init containers are immutable")];
    }
    let mut errors = Vec::new();
    let mut masked = new.clone();
    for kind in ["requests", "limits"] {
        let (now, before) = (&new["resources"][kind], &old["resources"][kind]);
        if before.as_object().into_iter().flatten().any(|(name, _)| now.get(name).is_none()) {
            let detail = format!("resource {kind} cannot be removed");
            errors.push(FieldError::forbidden(format!("{at}.resources.{kind}"), detail));
        }
        for amount in ["cpu", "memory"] {
            masked["resources"][kind][amount] = before[amount].clone();
        }
    }
    if !same(&masked, old) {
        errors.push(FieldError::forbidden(at, "only cpu and memory resources are mutable"));
    }
    errors
}

/// Whether the node can resize: one that can tells the resources of what it runs.
fn is_supported(pod: &Value) -> bool {
    let statuses = list(&pod["status"], "containerStatuses");
    let running = statuses.iter().find(|status| status["state"]["running"].is_object());
    running.is_none_or(|status| status["resources"].is_object())
}

fn same_names(new: &[Value], old: &[Value]) -> bool {
    new.len() == old.len() && new.iter().zip(old).all(|(new, old)| new["name"] == old["name"])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(resources: Value) -> Value {
        let container = json!({"name": "c", "image": "i", "resources": resources});
        json!({
            "metadata": {"name": "p", "labels": {"a": "b"}}, "status": {"qosClass": "Burstable"},
            "spec": {"containers": [container], "initContainers": [{"name": "once", "image": "i"}]},
        })
    }

    #[test]
    fn nothing_but_resources_passes_the_door() {
        let old = pod(json!({"requests": {"cpu": "1"}}));
        let mut new = pod(json!({"requests": {"cpu": "2"}}));
        new["spec"]["hostNetwork"] = json!(true);
        new["spec"]["containers"][0]["image"] = json!("other");
        new["metadata"]["labels"] = json!({});
        prepare(&mut new, &old);
        assert_eq!(new["spec"]["containers"][0]["resources"]["requests"]["cpu"], "2");
        new["spec"]["containers"][0]["resources"] = old["spec"]["containers"][0]["resources"].clone();
        assert!(same(&new, &old), "{new}");
    }

    #[test]
    fn cpu_and_memory_alone_change_and_never_vanish() {
        let old = pod(json!({"requests": {"cpu": "1", "a/b": "1"}}));
        let errors = |resources: Value| {
            let errors = validate(&pod(resources), &old);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        };
        assert_eq!(errors(json!({"requests": {"cpu": "2", "memory": "1Gi", "a/b": "1"}})), "");
        assert!(errors(json!({"requests": {"cpu": "1", "a/b": "2"}})).contains("only cpu and memory"));
        assert!(errors(json!({"requests": {"a/b": "1"}})).contains("resource requests cannot be removed"));
        let mut guaranteed = old.clone();
        guaranteed["status"]["qosClass"] = json!("Guaranteed");
        assert!(validate(&old, &guaranteed)[0].to_string().contains("QOS Class may not change"));
        let mut other = old.clone();
        other["spec"]["containers"][0]["name"] = json!("d");
        assert!(validate(&other, &old)[0].to_string().contains("renamed"));
        let mut other = old.clone();
        other["spec"]["initContainers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
        assert!(validate(&other, &old)[0].to_string().contains("non-sidecar init containers"));
    }

    #[test]
    fn a_node_that_tells_no_resources_resizes_nothing() {
        let mut old = pod(json!({"requests": {"cpu": "1"}}));
        old["status"]["containerStatuses"] = json!([{"state": {"running": {}}}]);
        let new = pod(json!({"requests": {"cpu": "2"}}));
        assert!(validate(&new, &old)[0].to_string().contains("without support for resize"));
    }
}
