//! Pods: the phase they begin in, their QoS class, what may change in them, and the grace they get.

mod change;
mod resize;

use litek8s_machinery::field::FieldError;
use serde_json::{Value, json};

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
            "resize" => resize::prepare(object, old),
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
        let spec = &object["spec"];
        let Some(old) = old else { return unfit_for_creation(spec) };
        match cx.subresource {
            "" => change::update(spec, &old["spec"]),
            "ephemeralcontainers" => change::ephemeral(spec, &old["spec"]),
            "resize" => resize::validate(object, old),
            _ => Vec::new(),
        }
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

/// What a pod has only later.
fn unfit_for_creation(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !list(spec, "ephemeralContainers").is_empty() {
        errors.push(FieldError::forbidden("spec.ephemeralContainers", "cannot be set on create"));
    }
    if spec["nodeName"].as_str().is_some_and(|node| !node.is_empty())
        && !list(spec, "schedulingGates").is_empty()
    {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errors.push(FieldError::forbidden("spec.nodeName", detail));
    }
    errors
}

/// A list of an object; what is absent is empty.
fn list<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    object[field].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The pod keeps everything but one field of its spec.
fn keep_all_but(object: &mut Value, old: &Value, field: &str) {
    let changed = object["spec"][field].clone();
    let managed = metadata::field(object, "managedFields").cloned();
    *object = old.clone();
    metadata::object(object, "spec")[field] = changed;
    metadata::set(object, "managedFields", managed);
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
