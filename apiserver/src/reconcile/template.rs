//! Pods from a template.

use std::sync::Arc;

use litek8s_store::Object;
use serde_json::{Map, Value, json};

use super::kind::Kind;

/// A pod of `owner` as `template` describes it; without a name.
pub(super) fn pod(template: &Value, kind: Kind, owner: &Arc<Object>) -> Value {
    let mut metadata = Map::new();
    for field in ["labels", "annotations", "finalizers"] {
        let given = &template["metadata"][field];
        if !given.is_null() {
            metadata.insert(field.to_owned(), given.clone());
        }
    }
    metadata.insert("namespace".to_owned(), json!(&*owner.key.namespace));
    metadata.insert("ownerReferences".to_owned(), json!([kind.controls(owner)]));
    json!({"metadata": metadata, "spec": template["spec"]})
}

/// What the names of an object's pods begin with.
pub(super) fn prefix(owner: &Object) -> String {
    format!("{}-", owner.key.name)
}
