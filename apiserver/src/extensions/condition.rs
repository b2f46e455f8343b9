//! The conditions of a definition.

use serde_json::{Value, json};

use crate::endpoints::metadata;

/// A condition as it should be.
pub(crate) struct Condition<'a> {
    pub(crate) ty: &'a str,
    pub(crate) holds: bool,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
}

/// Whether the object has this condition and it is true.
pub(crate) fn is_condition_true(object: &Value, ty: &str) -> bool {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|c| c["type"] == ty && c["status"] == "True")
}

/// Sets a condition; its transition time changes only with its status.
pub(crate) fn set_condition(object: &mut Value, condition: &Condition<'_>, now: &str) {
    let status = if condition.holds { "True" } else { "False" };
    let generation = metadata::field(object, "generation").cloned();
    let slot = metadata::object(object, "status");
    if !slot["conditions"].is_array() {
        slot["conditions"] = json!([]);
    }
    let Some(conditions) = slot["conditions"].as_array_mut() else { return };
    let known = conditions.iter_mut().find(|c| c["type"] == condition.ty);
    let since = match &known {
        Some(known) if known["status"] == status => known["lastTransitionTime"].clone(),
        _ => json!(now),
    };
    let mut next = json!({
        "type": condition.ty, "status": status, "reason": condition.reason, "message": condition.message,
        "lastTransitionTime": since,
    });
    if let Some(generation) = generation {
        next["observedGeneration"] = generation;
    }
    match known {
        Some(known) => *known = next,
        None => conditions.push(next),
    }
}

/// Notes that the status is about this generation of the specification.
pub(super) fn observe(object: &mut Value, generation: i64) {
    const OURS: [&str; 4] = ["NamesAccepted", "Established", "NonStructuralSchema", "Terminating"];
    let status = metadata::object(object, "status");
    status["observedGeneration"] = json!(generation);
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        if condition["type"].as_str().is_some_and(|ty| OURS.contains(&ty)) {
            condition["observedGeneration"] = json!(generation);
        }
    }
}
