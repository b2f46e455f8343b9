//! Deployments and their relatives: a selector that never changes and selects its own template.

use litek8s_machinery::field::FieldError;
use litek8s_machinery::selector::LabelSelector;
use serde_json::Value;
use std::collections::BTreeMap;

use super::{Strategy, WriteContext};

/// The behaviour of the workloads of `apps`.
pub(super) struct Workload;

impl Strategy for Workload {
    fn validate(&self, _: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let spec = &object["spec"];
        let selector = &spec["selector"];
        let mut errors = Vec::new();
        if selector.is_null() {
            errors.push(FieldError::required("spec.selector", ""));
            return errors;
        }
        match LabelSelector::from_json(selector) {
            Ok(parsed) if parsed.is_everything() => {
                let detail = "empty selector is invalid for deployment";
                errors.push(FieldError::invalid("spec.selector", selector.clone(), detail));
            }
            Ok(parsed) => {
                let labels = &spec["template"]["metadata"]["labels"];
                if !parsed.matches(&strings(labels)) {
                    let detail = "`selector` does not match template `labels`";
                    errors.push(FieldError::invalid("spec.template.metadata.labels", labels.clone(), detail));
                }
            }
            Err(error) => {
                errors.push(FieldError::invalid("spec.selector", selector.clone(), error.to_string()))
            }
        }
        if old.is_some_and(|old| old["spec"]["selector"] != *selector) {
            errors.push(FieldError::invalid("spec.selector", selector.clone(), "field is immutable"));
        }
        if spec["replicas"].as_i64().is_some_and(|n| n < 0) {
            let detail = "must be greater than or equal to 0";
            errors.push(FieldError::invalid("spec.replicas", spec["replicas"].clone(), detail));
        }
        errors
    }
}

fn strings(map: &Value) -> BTreeMap<String, String> {
    let entries = map.as_object().into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
