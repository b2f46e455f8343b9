//! What an APIService may be beyond its schema; a local one is available from its first moment on.

use jiff::Timestamp;
use litek8s_machinery::field::FieldError;
use serde_json::Value;

use crate::endpoints::metadata;
use crate::extensions::{Condition, set_condition};
use crate::response::Failure;
use crate::strategy::{Strategy, WriteContext};

/// The behaviour of APIServices.
pub(crate) struct ApiServices;

impl Strategy for ApiServices {
    fn prepare_create(&self, cx: &WriteContext<'_>, object: &mut Value) -> Result<(), Failure> {
        if !object["spec"]["service"].is_object() {
            set_local(object, cx.now);
        }
        Ok(())
    }

    fn validate(&self, _: &WriteContext<'_>, object: &Value, _: Option<&Value>) -> Vec<FieldError> {
        let spec = &object["spec"];
        let bundle = spec["caBundle"].as_str().unwrap_or_default();
        let insecure = spec["insecureSkipTLSVerify"] == true;
        let mut errors = Vec::new();
        if !spec["service"].is_object() {
            if !bundle.is_empty() {
                let detail = "local APIServices may not have a caBundle";
                let shown = format!("{} bytes", bundle.len() / 4 * 3);
                errors.push(FieldError::invalid("spec.caBundle", shown, detail));
            }
            if insecure {
                let detail = "local APIServices may not have insecureSkipTLSVerify";
                errors.push(FieldError::invalid("spec.insecureSkipTLSVerify", true, detail));
            }
            return errors;
        }
        for field in ["namespace", "name"] {
            if spec["service"][field].as_str().unwrap_or_default().is_empty() {
                errors.push(FieldError::required(format!("spec.service.{field}"), ""));
            }
        }
        if insecure && !bundle.is_empty() {
            let detail = "may not be true if caBundle is present";
            errors.push(FieldError::invalid("spec.insecureSkipTLSVerify", true, detail));
        }
        errors
    }
}

/// Sets the condition that a local APIService has.
pub(super) fn set_local(object: &mut Value, now: Timestamp) {
    let condition = Condition {
        ty: "Available",
        holds: true,
        reason: "Local",
        message: "Local APIServices are always available",
    };
    set_condition(object, &condition, &metadata::time(now));
}
