//! Pods: the phase they begin in, their QoS class, what of them may change, and the grace they get.

use litek8s_machinery::field::FieldError;
use serde_json::{Map, Value, json};

use super::{Strategy, WriteContext};
use crate::endpoints::metadata;
use crate::response::Failure;

/// The grace of a pod that names none, in seconds.
const GRACE: i64 = 30;

/// The behaviour of Pods.
pub(super) struct Pod;

impl Strategy for Pod {
    fn returns_deleted(&self) -> bool {
        true
    }

    fn prepare_create(&self, _: &WriteContext<'_>, object: &mut Value) -> Result<(), Failure> {
        let class = qos_class(&object["spec"]);
        object["status"] = json!({"phase": "Pending", "qosClass": class});
        let spec = metadata::object(object, "spec");
        if spec["preemptionPolicy"].is_null() {
            spec["preemptionPolicy"] = Value::from("PreemptLowerPriority");
        }
        if spec["priority"].is_null() {
            spec["priority"] = Value::from(0);
        }
        Ok(())
    }

    fn prepare_update(&self, cx: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Failure> {
        match cx.subresource {
            "ephemeralcontainers" => keep_all_but(object, old, "ephemeralContainers"),
            "status" => {
                metadata::object(object, "status")["qosClass"] = old["status"]["qosClass"].clone();
                // A node may not take its pods from their owners by the way.
                metadata::set(object, "ownerReferences", metadata::field(old, "ownerReferences").cloned());
            }
            _ => {}
        }
        Ok(())
    }

    fn validate(&self, cx: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let spec = &object["spec"];
        if spec["containers"].as_array().is_none_or(Vec::is_empty) {
            errors.push(FieldError::required("spec.containers", ""));
        }
        for list in ["initContainers", "containers"] {
            for (at, container) in spec[list].as_array().into_iter().flatten().enumerate() {
                for field in ["name", "image"] {
                    if container[field].as_str().unwrap_or_default().is_empty() {
                        errors.push(FieldError::required(format!("spec.{list}[{at}].{field}"), ""));
                    }
                }
            }
        }
        if let Some(old) = old
            && cx.subresource.is_empty()
            && mutable_masked(spec) != mutable_masked(&old["spec"])
        {
            let detail = "pod updates may not change fields other than `spec.containers[*].image`,\
                          `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only \
                          additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set \
                          to 1 if it was previously negative)";
            errors.push(FieldError::forbidden("spec", detail));
        }
        errors
    }

    fn grace_period(&self, object: &Value, asked: Option<i64>) -> Option<i64> {
        let phase = object["status"]["phase"].as_str().unwrap_or_default();
        let node = object["spec"]["nodeName"].as_str().unwrap_or_default();
        // Nobody would end what no node runs, or what has ended.
        if node.is_empty() || matches!(phase, "Failed" | "Succeeded") {
            return None;
        }
        let own = object["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(GRACE);
        Some(asked.unwrap_or(own).max(0)).filter(|seconds| *seconds > 0)
    }
}

/// The pod keeps everything but one field of its spec.
fn keep_all_but(object: &mut Value, old: &Value, field: &str) {
    let changed = object["spec"][field].clone();
    let managed = metadata::field(object, "managedFields").cloned();
    *object = old.clone();
    metadata::object(object, "spec")[field] = changed;
    metadata::set(object, "managedFields", managed);
}

/// The spec without what an update may change, and without what the scheduler and defaults fill in.
fn mutable_masked(spec: &Value) -> Map<String, Value> {
    let mut map = spec.as_object().cloned().unwrap_or_default();
    for list in ["containers", "initContainers"] {
        for container in map.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(container) = container.as_object_mut() {
                container.remove("image");
            }
        }
    }
    for field in [
        "activeDeadlineSeconds",
        "tolerations",
        "terminationGracePeriodSeconds",
        "schedulingGates",
        "nodeName",
    ] {
        map.remove(field);
    }
    map.retain(|_, value| !value.is_null());
    map
}

/// `Guaranteed` when every container limits cpu and memory to what it requests, `BestEffort` when none says anything.
fn qos_class(spec: &Value) -> &'static str {
    let mut any = false;
    let mut guaranteed = true;
    let lists = ["containers", "initContainers"];
    for container in lists.iter().flat_map(|l| spec[*l].as_array().into_iter().flatten()) {
        for resource in ["cpu", "memory"] {
            let limit = &container["resources"]["limits"][resource];
            let request = &container["resources"]["requests"][resource];
            any |= !limit.is_null() || !request.is_null();
            guaranteed &= !limit.is_null() && (request.is_null() || request == limit);
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_follows_requests_and_limits() {
        let pod = |resources: Value| json!({"containers": [{"name": "a", "resources": resources}]});
        assert_eq!(qos_class(&pod(json!({}))), "BestEffort");
        assert_eq!(qos_class(&pod(json!({"requests": {"cpu": "1"}}))), "Burstable");
        assert_eq!(qos_class(&pod(json!({"limits": {"cpu": "1", "memory": "1Gi"}}))), "Guaranteed");
    }

    #[test]
    fn only_a_running_pod_on_a_node_gets_grace() {
        let pod = |node: &str, phase: &str| json!({"spec": {"nodeName": node}, "status": {"phase": phase}});
        assert_eq!(Pod.grace_period(&pod("", "Pending"), None), None);
        assert_eq!(Pod.grace_period(&pod("n", "Succeeded"), Some(5)), None);
        assert_eq!(Pod.grace_period(&pod("n", "Running"), None), Some(30));
        assert_eq!(Pod.grace_period(&pod("n", "Running"), Some(0)), None);
    }
}
