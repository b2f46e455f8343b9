//! What an object must be beyond well-formed: types, limits and formats of its schema, the rules of metadata, and for
//! built-in types the rows of `types/validations.txt`. Texts are those of kube-apiserver.

mod decodable;
mod format;
mod limits;
mod lists;
mod meta;
mod name;
mod rows;
mod special;

use serde_json::Value;

use crate::field::{FieldError, Path};
use crate::resource::Resource;
use crate::schema::{Schema, Type};
use crate::status::Status;

use decodable::decodable;
pub use meta::{MetaRules, object_meta, object_meta_update};
pub use name::{
    is_dns_label, is_dns_subdomain, is_dns1035_label, label_value_errors, name_errors, qualified_name_errors,
};

/// How many errors of one object are looked for: who has more of them mends these first.
pub const MAX_ERRORS: usize = 1000;

/// Whether there are enough errors to stop looking. What one rule finds at one place may exceed the limit.
fn full(errors: &[FieldError]) -> bool {
    errors.len() >= MAX_ERRORS
}

/// Everything a schema says of a value: types, required fields, limits, formats, unique lists. Rules in CEL are not
/// evaluated here.
pub fn structural(schema: &Schema, value: &Value, path: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    limits::check(schema, value, path, &mut errors);
    lists::check(schema, value, path, &mut errors);
    errors
}

/// Everything that is checked of an object of a resource: metadata, schema and, for built-in types, their rules.
/// `old` is the object that an update replaces.
pub fn object(resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let rules = MetaRules { namespaced: resource.namespaced, name: resource.name_rule };
    let mut errors = match old {
        Some(old) => object_meta_update(new, old, &rules),
        None => object_meta(new, &rules),
    };
    let schema = resource.schema.get();
    if resource.custom {
        // Metadata has its own rules above.
        let mut body = new.clone();
        if let Some(meta) = body.get_mut("metadata") {
            keep_names(meta);
        }
        errors.extend(structural(schema, &body, &Path::root()));
    } else {
        enums(schema, new, &Path::root(), &mut errors);
        rows::check(schema, new, old, &Path::root(), &mut errors);
    }
    errors
}

/// What an object must be before it is an object of a resource at all; a 400 otherwise.
pub fn well_typed(resource: &Resource, value: &Value) -> Result<(), Status> {
    if resource.custom { decodable::metadata(value) } else { decodable(resource, value) }
}

/// A custom resource's schema may restrict only the names in its metadata.
fn keep_names(meta: &mut Value) {
    if let Value::Object(fields) = meta {
        fields.retain(|name, _| matches!(name.as_str(), "name" | "generateName"));
    }
}

/// Fields of a built-in type with a closed set of values. The status is the writer's word and not checked.
fn enums(schema: &Schema, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if full(errors) {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if name == "status" || name == "metadata" {
                    continue;
                }
                if let Some(schema) = schema.field(name) {
                    enums(schema, value, &path.child(name), errors);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.item() {
                for (at, item) in items.iter().enumerate() {
                    enums(schema, item, &path.index(at), errors);
                }
            }
        }
        Value::String(text) if schema.ty == Type::String => {
            let known = schema.constraints.as_ref().map_or(&[][..], |limits| &limits.enumeration);
            // An empty one is an absent one, which is for other rules to refuse.
            if !text.is_empty()
                && !known.is_empty()
                && !known.iter().any(|value| value.as_str() == Some(text))
            {
                let known = known.iter().filter_map(Value::as_str);
                errors.push(FieldError::not_supported(path, text.as_str(), known));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests;
