//! Namespaces: their phase, the label with their name, and the finalizer that keeps them until their content is gone.

use litek8s_machinery::field::FieldError;
use serde_json::{Value, json};

use super::{Strategy, WriteContext};
use crate::endpoints::metadata;
use crate::response::Failure;

/// The label every namespace has, with its name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// The finalizer of whoever deletes a namespace's content.
const FINALIZER: &str = "kubernetes";

/// The behaviour of Namespaces.
pub(super) struct Namespace;

impl Strategy for Namespace {
    fn prepare_create(&self, _: &WriteContext<'_>, object: &mut Value) -> Result<(), Failure> {
        object["status"] = json!({"phase": "Active"});
        let spec = metadata::object(object, "spec");
        let mut finalizers = spec["finalizers"].as_array().cloned().unwrap_or_default();
        if !finalizers.iter().any(|f| f == FINALIZER) {
            finalizers.push(Value::from(FINALIZER));
        }
        spec["finalizers"] = Value::Array(finalizers);
        label_with_name(object);
        Ok(())
    }

    fn prepare_update(&self, cx: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Failure> {
        if cx.subresource.is_empty() {
            // Only `namespaces/finalize` changes these.
            object["spec"] = old.get("spec").cloned().unwrap_or_else(|| json!({}));
        }
        label_with_name(object);
        Ok(())
    }

    fn validate(&self, _: &WriteContext<'_>, object: &Value, _: Option<&Value>) -> Vec<FieldError> {
        let phase = object["status"]["phase"].as_str().unwrap_or_default();
        if metadata::is_deleting(object) && phase != "Terminating" {
            let detail = "may only be 'Terminating' if `metadata.deletionTimestamp` is not empty";
            return vec![FieldError::invalid("status.phase", phase, detail)];
        }
        if !metadata::is_deleting(object) && phase == "Terminating" {
            let detail = "may only be 'Active' if `metadata.deletionTimestamp` is empty";
            return vec![FieldError::invalid("status.phase", phase, detail)];
        }
        Vec::new()
    }

    fn mark_deleting(&self, object: &mut Value) {
        metadata::object(object, "status")["phase"] = Value::from("Terminating");
    }

    fn held(&self, object: &Value) -> bool {
        object["spec"]["finalizers"].as_array().is_some_and(|f| !f.is_empty())
    }
}

fn label_with_name(object: &mut Value) {
    let name = metadata::text(object, "name").to_owned();
    if !name.is_empty() {
        metadata::object(metadata::object(object, "metadata"), "labels")[NAME_LABEL] = Value::from(name);
    }
}
