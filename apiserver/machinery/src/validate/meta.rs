//! The rules of an object's metadata, at creation and at update.

use std::collections::BTreeSet;

use serde_json::Value;

use super::name::{label_value_errors, name_errors, qualified_name_errors};
use crate::field::{FieldError, Path};
use crate::resource::NameRule;

/// What the metadata of a resource must keep to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetaRules {
    /// Objects live in namespaces.
    pub namespaced: bool,
    /// How they are named.
    pub name: NameRule,
}

/// Bytes of all annotations of an object together.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// What is wrong with the metadata of an object that is new.
pub fn object_meta(object: &Value, rules: &MetaRules) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = Path::new("metadata");
    let Some(meta) = object.get("metadata") else {
        errors.push(FieldError::required(path.child("name"), "name or generateName is required"));
        return errors;
    };
    let text = |name: &str| meta.get(name).and_then(Value::as_str).unwrap_or("");
    let (name, prefix) = (text("name"), text("generateName"));
    if !prefix.is_empty() {
        for detail in name_errors(rules.name, prefix, true) {
            errors.push(FieldError::invalid(path.child("generateName"), prefix, detail));
        }
    }
    if name.is_empty() {
        errors.push(FieldError::required(path.child("name"), "name or generateName is required"));
    } else {
        for detail in name_errors(rules.name, name, false) {
            errors.push(FieldError::invalid(path.child("name"), name, detail));
        }
    }
    namespace(text("namespace"), rules, &path, &mut errors);
    if let Some(generation) = meta.get("generation").and_then(Value::as_i64).filter(|&value| value < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(path.child("generation"), generation, detail));
    }
    labels(meta.get("labels"), &path.child("labels"), &mut errors);
    annotations(meta.get("annotations"), &path.child("annotations"), &mut errors);
    owners(meta.get("ownerReferences"), &path.child("ownerReferences"), &mut errors);
    finalizers(meta.get("finalizers"), &path.child("finalizers"), &mut errors);
    errors
}

fn namespace(namespace: &str, rules: &MetaRules, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let at = path.child("namespace");
    match (rules.namespaced, namespace.is_empty()) {
        (true, true) => errors.push(FieldError::required(at, "")),
        (true, false) => {
            let broken = name_errors(NameRule::Label, namespace, false);
            errors.extend(broken.into_iter().map(|detail| FieldError::invalid(at, namespace, detail)));
        }
        (false, false) => errors.push(FieldError::forbidden(at, "not allowed on this type")),
        (false, true) => {}
    }
}

/// What is wrong with a map of labels.
pub(super) fn labels(labels: Option<&Value>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    for (key, value) in labels.and_then(Value::as_object).into_iter().flatten() {
        for detail in qualified_name_errors(key) {
            errors.push(FieldError::invalid(path, key.as_str(), detail));
        }
        let value = value.as_str().unwrap_or("");
        for detail in label_value_errors(value) {
            errors.push(FieldError::invalid(path.key(key), value, detail));
        }
    }
}

fn annotations(annotations: Option<&Value>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let mut bytes = 0;
    for (key, value) in annotations.and_then(Value::as_object).into_iter().flatten() {
        // Keys are compared as labels are, but upper case is let through.
        for detail in qualified_name_errors(&key.to_lowercase()) {
            errors.push(FieldError::invalid(path, key.as_str(), detail));
        }
        bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if bytes > MAX_ANNOTATIONS {
        errors.push(FieldError::too_long(path, MAX_ANNOTATIONS));
    }
}

fn owners(owners: Option<&Value>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let mut controllers = Vec::new();
    for (at, owner) in owners.and_then(Value::as_array).into_iter().flatten().enumerate() {
        let at = path.index(at);
        let text = |name: &str| owner.get(name).and_then(Value::as_str).unwrap_or("");
        if crate::gvk::GroupVersion::parse(text("apiVersion")).is_none() {
            errors.push(FieldError::invalid(
                at.child("apiVersion"),
                text("apiVersion"),
                "version must not be empty",
            ));
        }
        for (field, detail) in
            [("kind", "must not be empty"), ("name", "must not be empty"), ("uid", "must not be empty")]
        {
            if text(field).is_empty() {
                errors.push(FieldError::invalid(at.child(field), "", detail));
            }
        }
        if text("apiVersion") == "v1" && text("kind") == "Event" {
            errors.push(FieldError::invalid(at, "/v1, Kind=Event", "is disallowed from being an owner"));
        }
        if owner.get("controller") == Some(&Value::Bool(true)) {
            controllers.push(format!("{}/{}", text("kind"), text("name")));
        }
    }
    if let [first, second, ..] = controllers.as_slice() {
        let list = owners.cloned().unwrap_or_default();
        let detail = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {second}"
        );
        errors.push(FieldError::invalid(path, list, detail));
    }
}

fn finalizers(finalizers: Option<&Value>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    for (at, finalizer) in finalizers.and_then(Value::as_array).into_iter().flatten().enumerate() {
        let finalizer = finalizer.as_str().unwrap_or("");
        for detail in qualified_name_errors(finalizer) {
            errors.push(FieldError::invalid(path.index(at), finalizer, detail));
        }
    }
}

/// What is wrong with the metadata of an object that replaces another one.
pub fn object_meta_update(new: &Value, old: &Value, rules: &MetaRules) -> Vec<FieldError> {
    let mut errors = object_meta(new, rules);
    let path = Path::new("metadata");
    let field =
        |object: &'_ Value, name: &str| object.get("metadata").and_then(|meta| meta.get(name)).cloned();
    for name in
        ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"]
    {
        let (new, old) = (field(new, name), field(old, name));
        // A deletion may begin with this very write, and an update may leave out what it cannot change.
        let began = old.is_none() && name.starts_with("deletion");
        if new.is_some() && new != old && !began {
            errors.push(FieldError::invalid(path.child(name), new.unwrap_or_default(), IMMUTABLE));
        }
    }
    let (before, after) = (field(old, "generation"), field(new, "generation"));
    if let (Some(before), Some(after)) =
        (before.as_ref().and_then(Value::as_i64), after.as_ref().and_then(Value::as_i64))
        && after < before
    {
        errors.push(FieldError::invalid(path.child("generation"), after, "must not be decremented"));
    }
    if field(old, "deletionTimestamp").is_some() {
        let list = |object: &Value| {
            field(object, "finalizers").and_then(|list| list.as_array().cloned()).unwrap_or_default()
        };
        let (before, after) = (list(old), list(new));
        let before: BTreeSet<&str> = before.iter().filter_map(Value::as_str).collect();
        let added = after.iter().filter_map(Value::as_str).filter(|name| !before.contains(name));
        let quoted: Vec<String> = added.map(crate::field::quote).collect();
        if !quoted.is_empty() {
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                quoted.join(", ")
            );
            errors.push(FieldError::forbidden(path.child("finalizers"), detail));
        }
    }
    errors
}

/// The text of every field that may not change.
pub(super) const IMMUTABLE: &str = "field is immutable";
