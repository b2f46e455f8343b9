//! The behaviour of CustomResourceDefinitions: defaults, names, stored versions, and that they are served at once.

use litek8s_machinery::field::FieldError;
use serde_json::{Value, json};

use super::condition::observe;
use super::names::settle_among;
use super::served::Serving;
use super::{CLEANUP_FINALIZER, Condition, set_condition, validate};
use crate::api::Api;
use crate::endpoints::metadata;
use crate::response::Failure;
use crate::strategy::{Change, Strategy, WriteContext};

/// The strategy of CustomResourceDefinitions.
#[derive(Default)]
pub(crate) struct Definitions {
    serving: Serving,
}

impl Strategy for Definitions {
    fn prepare_create(&self, cx: &WriteContext<'_>, object: &mut Value) -> Result<(), Failure> {
        set_defaults(object);
        object["status"] = json!({"conditions": [], "acceptedNames": {}, "storedVersions": []});
        note_stored_version(object);
        let mut finalizers: Vec<String> =
            metadata::finalizers(object).into_iter().map(str::to_owned).collect();
        if !finalizers.iter().any(|f| f == CLEANUP_FINALIZER) {
            finalizers.push(CLEANUP_FINALIZER.to_owned());
        }
        metadata::set(object, "finalizers", Some(Value::from(finalizers)));
        settle_among(cx.view, object, &metadata::time(cx.now));
        observe(object, generation(object));
        Ok(())
    }

    fn prepare_update(&self, cx: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Failure> {
        set_defaults(object);
        note_stored_version(object);
        settle_among(cx.view, object, &metadata::time(cx.now));
        // A changed specification gets the next generation after this.
        let changed = object["spec"] != old["spec"];
        observe(object, generation(old).max(0) + i64::from(changed));
        Ok(())
    }

    fn validate(&self, _: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        validate::definition(object, old)
    }

    fn mark_deleting(&self, object: &mut Value) {
        let since = metadata::text(object, "deletionTimestamp").to_owned();
        let condition = Condition {
            ty: "Terminating",
            holds: true,
            reason: "InstanceDeletionPending",
            message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        };
        set_condition(object, &condition, &since);
    }

    fn after_write(&self, api: &Api, change: Change<'_>) {
        let (Change::Stored(object) | Change::Deleted(object)) = change;
        self.serving.refresh(api, metadata::text(object, "name"));
    }
}

fn generation(definition: &Value) -> i64 {
    metadata::field(definition, "generation").and_then(Value::as_i64).unwrap_or(0)
}

/// What a definition may leave out.
pub(super) fn set_defaults(definition: &mut Value) {
    let spec = metadata::object(definition, "spec");
    if spec["conversion"].is_null() {
        spec["conversion"] = json!({"strategy": "None"});
    }
    let names = metadata::object(spec, "names");
    let kind = names["kind"].as_str().unwrap_or_default().to_owned();
    if names["singular"].as_str().unwrap_or_default().is_empty() {
        names["singular"] = Value::from(kind.to_lowercase());
    }
    if names["listKind"].as_str().unwrap_or_default().is_empty() && !kind.is_empty() {
        names["listKind"] = Value::from(format!("{kind}List"));
    }
}

/// The storage version joins the versions that objects may be stored in.
fn note_stored_version(definition: &mut Value) {
    let versions =
        definition.pointer("/spec/versions").and_then(Value::as_array).cloned().unwrap_or_default();
    let storage = versions.into_iter().find(|v| v["storage"] == true).map(|v| v["name"].clone());
    let status = metadata::object(definition, "status");
    if !status["storedVersions"].is_array() {
        status["storedVersions"] = json!([]);
    }
    if let (Some(storage), Some(stored)) = (storage, status["storedVersions"].as_array_mut())
        && !stored.contains(&storage)
    {
        stored.push(storage);
    }
}
