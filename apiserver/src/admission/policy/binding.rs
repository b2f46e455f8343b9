//! A binding: which policy is in force where, with which parameters, and what a failure leads to.

use serde_json::Value;

use super::super::matching::Matching;

/// A ValidatingAdmissionPolicyBinding.
pub(super) struct Binding {
    pub(super) name: String,
    pub(super) policy: String,
    pub(super) param: Option<ParamRef>,
    pub(super) matching: Option<Matching>,
    pub(super) actions: Vec<String>,
}

/// Where the parameters of a binding are.
pub(super) struct ParamRef {
    pub(super) name: String,
    pub(super) namespace: String,
    /// A label selector, or null.
    pub(super) selector: Value,
    /// Whether it is an error that there are none.
    pub(super) required: bool,
}

impl Binding {
    pub(super) fn of(object: &Value) -> Self {
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
