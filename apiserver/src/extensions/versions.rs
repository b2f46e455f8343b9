//! From a definition to the versions that are served.

use std::sync::Arc;

use litek8s_machinery::field::aggregate;
use litek8s_machinery::resource::custom;
use serde_json::Value;

use super::conversion::Converter;
use super::custom::CustomObjects;
use crate::endpoints::metadata;
use crate::registry::CustomVersion;

/// The served versions, under the names that were accepted.
///
/// Objects are stored in one version and shown in another by changing `apiVersion`, or by a webhook. Where one would be
/// needed and there is none, only the storage version is served: a wrong object would be worse than none.
pub(super) fn of_definition(
    definition: &Value,
    converter: Option<Converter>,
) -> Result<Vec<CustomVersion>, String> {
    let converter = converter.map(Arc::new);
    let mut definition = definition.clone();
    if let Some(accepted) = definition.pointer("/status/acceptedNames").and_then(Value::as_object).cloned() {
        let names = metadata::object(metadata::object(&mut definition, "spec"), "names");
        for (field, name) in accepted {
            names[field.as_str()] = name;
        }
    }
    let versions =
        definition.pointer("/spec/versions").and_then(Value::as_array).cloned().unwrap_or_default();
    let storage = versions.iter().find(|version| version["storage"] == true);
    let storage: Arc<str> = storage.and_then(|version| version["name"].as_str()).unwrap_or_default().into();
    let needs = definition.pointer("/spec/conversion/strategy").and_then(Value::as_str) == Some("Webhook");
    let has_changed = metadata::field(&definition, "generation").and_then(Value::as_i64).unwrap_or(1) > 1
        || versions.len() > 1;
    let resources = custom::resources(&definition).map_err(|errors| aggregate(&errors))?;
    let served =
        resources.into_iter().filter(|resource| !needs || converter.is_some() || resource.version == storage);
    Ok(served
        .map(|resource| CustomVersion {
            strategy: Arc::new(CustomObjects::new(resource.schema.clone(), has_changed, converter.clone())),
            storage_version: storage.clone(),
            resource: Arc::new(resource),
        })
        .collect())
}
