//! A binding: which policy is in force where, with which parameters, and what a failure leads to.

use serde_json::Value;

use super::super::matching::Matching;

/// A ValidatingAdmissionPolicyBinding.
pub(in crate::admission) struct Binding {
    pub(in crate::admission) name: String,
    pub(in crate::admission) policy: String,
    pub(in crate::admission) param: Option<ParamRef>,
    pub(in crate::admission) matching: Option<Matching>,
    pub(in crate::admission) actions: Vec<String>,
}

/// Where the parameters of a binding are.
pub(in crate::admission) struct ParamRef {
    pub(in crate::admission) name: String,
    pub(in crate::admission) namespace: String,
    /// A label selector, or null.
    pub(in crate::admission) selector: Value,
    /// Whether it is an error that there are none.
    pub(in crate::admission) required: bool,
}

impl Binding {
    pub(in crate::admission) fn of(object: &Value) -> Self {
        let spec = &object["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let param = spec["paramRef"].as_object().map(|_| {
            let given = &spec["paramRef"];
            ParamRef {
                name: text(&given["name"]),
                namespace: text(&given["namespace"]),
                selector: given["selector"].clone(),
                required: given["parameterNotFoundAction"] == "Deny",
            }
        });
        let actions = spec["validationActions"].as_array().into_iter().flatten();
        Self {
            name: text(&object["metadata"]["name"]),
            policy: text(&spec["policyName"]),
            param,
            matching: spec["matchResources"]
                .as_object()
                .map(|_| Matching::of_policy(&spec["matchResources"])),
            actions: actions.filter_map(Value::as_str).map(str::to_owned).collect(),
        }
    }
}
