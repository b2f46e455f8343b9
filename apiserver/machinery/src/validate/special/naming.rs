//! Checks of names, keys and references.

use serde_json::Value;

use crate::field::{FieldError, Path};
use crate::validate::is_dns_subdomain;

pub(super) fn data_keys(map: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    for key in map.as_object().into_iter().flatten().map(|(key, _)| key) {
        let well = (1..=253).contains(&key.len())
            && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
            && key != "."
            && !key.starts_with("..");
        if !well {
            let detail = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
            errors.push(FieldError::invalid(path.key(key), key.as_str(), detail));
        }
    }
}

pub(super) fn account_namespaces(subjects: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    for (at, subject) in subjects.as_array().into_iter().flatten().enumerate() {
        let text = |name: &str| subject.get(name).and_then(Value::as_str).unwrap_or("");
        if text("kind") == "ServiceAccount" && text("namespace").is_empty() {
            errors.push(FieldError::required(path.index(at).child("namespace"), ""));
        }
    }
}

pub(super) fn role_ref(role: &Value, object: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let text = |name: &str| role.get(name).and_then(Value::as_str).unwrap_or("");
    if text("apiGroup") != "rbac.authorization.k8s.io" {
        let known = ["rbac.authorization.k8s.io"];
        errors.push(FieldError::not_supported(path.child("apiGroup"), text("apiGroup"), known));
    }
    let cluster = object.get("kind").and_then(Value::as_str) == Some("ClusterRoleBinding");
    let known: &[&str] = if cluster { &["ClusterRole"] } else { &["Role", "ClusterRole"] };
    if !known.contains(&text("kind")) {
        errors.push(FieldError::not_supported(path.child("kind"), text("kind"), known));
    }
    if text("name").is_empty() {
        errors.push(FieldError::required(path.child("name"), ""));
    }
}

pub(super) fn definition_name(object: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or("");
    let wanted = format!("{}.{}", text("/spec/names/plural"), text("/spec/group"));
    if text("/metadata/name") != wanted {
        let meta = path.child("metadata");
        errors.push(FieldError::invalid(
            meta.child("name"),
            text("/metadata/name"),
            "must be spec.names.plural+\".\"+spec.group",
        ));
    }
    let group = text("/spec/group");
    let spec = path.child("spec");
    if !group.is_empty() && (!is_dns_subdomain(group) || !group.contains('.')) {
        errors.push(FieldError::invalid(
            spec.child("group"),
            group,
            "should be a domain with at least one dot",
        ));
    }
    let versions = object.pointer("/spec/versions").and_then(Value::as_array);
    let stored = |version: &&Value| version.get("storage") == Some(&Value::Bool(true));
    if versions.into_iter().flatten().filter(stored).count() != 1 {
        let list = versions.cloned().unwrap_or_default();
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid(spec.child("versions"), Value::Array(list), detail));
    }
}

pub(super) fn service_name(object: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or("");
    let wanted = format!("{}.{}", text("/spec/version"), text("/spec/group"));
    if text("/metadata/name") != wanted {
        let meta = path.child("metadata");
        let detail = format!("must be `spec.version+\".\"+spec.group`: {}", crate::field::quote(&wanted));
        errors.push(FieldError::invalid(meta.child("name"), text("/metadata/name"), detail));
    }
}

pub(super) fn domain_path(value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let text = value.as_str().unwrap_or("");
    let well =
        text.split_once('/').is_some_and(|(domain, rest)| is_dns_subdomain(domain) && !rest.is_empty());
    if !text.is_empty() && !well {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        errors.push(FieldError::invalid(path, text, detail));
    }
}

pub(super) fn event_namespace(event: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or("");
    let about =
        if event.get("regarding").is_some() { "/regarding/namespace" } else { "/involvedObject/namespace" };
    // What has no namespace of its own is reported in `default`.
    let expected = if text(about).is_empty() { "default" } else { text(about) };
    if text("/metadata/namespace") != expected {
        let field = path.child("involvedObject");
        errors.push(FieldError::invalid(
            field.child("namespace"),
            text(about),
            "does not match event.namespace",
        ));
    }
}
