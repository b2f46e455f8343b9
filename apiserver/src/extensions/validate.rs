//! What a CustomResourceDefinition may be; the words are kube-apiserver's.

mod names;
mod version;

use std::collections::BTreeSet;

use litek8s_machinery::field::{FieldError, Path};
use serde_json::Value;

use super::is_condition_true;
use crate::admission::webhook::check_config;
use names::{check_names, dns1035_label, dns1123_subdomain};
use version::check_version;

/// Annotation that a group of the Kubernetes community must have.
const APPROVED: &str = "api-approved.kubernetes.io";

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Everything that is wrong with a definition that replaces `old`.
pub(super) fn definition(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let required = format!("{}.{}", text(new, "/spec/names/plural"), text(new, "/spec/group"));
    let name = text(new, "/metadata/name");
    if old.is_none() && name != required {
        errors.push(FieldError::invalid("metadata.name", name, "must be spec.names.plural+\".\"+spec.group"));
    }
    check_group(new, &mut errors);
    match text(new, "/spec/scope") {
        "" => errors.push(FieldError::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => errors.push(FieldError::not_supported("spec.scope", other, ["Cluster", "Namespaced"])),
    }
    if new.pointer("/spec/preserveUnknownFields") == Some(&Value::Bool(true)) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                      spec.versions[*].schema instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", true, detail));
    }
    check_names(&new["spec"]["names"], &mut errors);
    check_versions(new, old, &mut errors);
    check_conversion(new, &mut errors);
    check_stored_versions(new, &mut errors);
    if let Some(old) = old {
        check_immutable(new, old, &mut errors);
    }
    errors
}

fn check_group(definition: &Value, errors: &mut Vec<FieldError>) {
    let group = text(definition, "/spec/group");
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if let Some(problem) = dns1123_subdomain(group) {
        errors.push(FieldError::invalid("spec.group", group, problem));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid("spec.group", group, "should be a domain with at least one dot"));
    }
    let protected =
        ["k8s.io", "kubernetes.io"].into_iter().any(|d| group == d || group.ends_with(&format!(".{d}")));
    let approval =
        definition.pointer("/metadata/annotations").and_then(|a| a.get(APPROVED)).and_then(Value::as_str);
    let unapproved = |a: &str| a.starts_with("unapproved");
    if protected
        && !approval.is_some_and(|a| unapproved(a) || a.starts_with("https://") || a.starts_with("http://"))
    {
        let path = format!("metadata.annotations[{APPROVED}]");
        errors.push(match approval {
            None | Some("") => FieldError::required(
                path,
                format!(
                    "protected groups must have approval annotation {APPROVED:?}, see \
                     https://github.com/kubernetes/enhancements/pull/1111"
                ),
            ),
            Some(other) => FieldError::invalid(
                path,
                other,
                "protected groups must have approval annotation with either a URL or a reason starting with \
                 \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111",
            ),
        });
    }
}

fn check_versions(definition: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let versions = list(definition, "/spec/versions");
    let shown = || definition.pointer("/spec/versions").cloned().unwrap_or_default();
    let mut seen = BTreeSet::new();
    let mut unique = true;
    for (index, version) in versions.iter().enumerate() {
        let name = text(version, "/name");
        let spec = Path::new("spec");
        let listed = spec.child("versions");
        let path = listed.index(index);
        unique &= seen.insert(name);
        if let Some(problem) = dns1035_label(name) {
            errors.push(FieldError::invalid(path.child("name"), name, problem));
        }
        let before =
            old.and_then(|old| list(old, "/spec/versions").iter().find(|v| text(v, "/name") == name));
        check_version(version, before, &path, errors);
    }
    if !unique {
        errors.push(FieldError::invalid("spec.versions", shown(), "must contain unique version names"));
    }
    if versions.iter().filter(|v| v["storage"] == true).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", shown(), detail));
    }
}

fn check_conversion(definition: &Value, errors: &mut Vec<FieldError>) {
    let conversion = &definition["spec"]["conversion"];
    match text(conversion, "/strategy") {
        "Webhook" => {
            if conversion["webhook"]["clientConfig"].is_null() {
                let detail = "required when strategy is set to Webhook";
                errors.push(FieldError::required("spec.conversion.webhookClientConfig", detail));
            } else {
                let config = &conversion["webhook"]["clientConfig"];
                check_config(config, "spec.conversion.webhookClientConfig", errors);
            }
        }
        "None" => {
            if !conversion["webhook"].is_null() {
                let detail = "should not be set when strategy is not set to Webhook";
                errors.push(FieldError::forbidden("spec.conversion.webhookClientConfig", detail));
            }
        }
        "" => errors.push(FieldError::required("spec.conversion.strategy", "")),
        other => {
            errors.push(FieldError::not_supported("spec.conversion.strategy", other, ["None", "Webhook"]))
        }
    }
}

fn check_stored_versions(definition: &Value, errors: &mut Vec<FieldError>) {
    let stored = list(definition, "/status/storedVersions");
    let versions: Vec<&str> = list(definition, "/spec/versions").iter().map(|v| text(v, "/name")).collect();
    if stored.is_empty() {
        let detail = "must have at least one stored version";
        errors.push(FieldError::invalid("status.storedVersions", Value::Array(Vec::new()), detail));
    }
    for (index, version) in stored.iter().enumerate() {
        let name = version.as_str().unwrap_or_default();
        if !versions.contains(&name) {
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions \
                 until a storage migration ensures no data remains persisted in {name} and removes {name} from \
                 status.storedVersions"
            );
            errors.push(FieldError::invalid(format!("status.storedVersions[{index}]"), name, detail));
        }
    }
}

fn check_immutable(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let always = ["/spec/group", "/spec/names/plural"];
    let established = ["/spec/scope", "/spec/names/kind"];
    let more = if is_condition_true(old, "Established") { established.as_slice() } else { &[] };
    for pointer in always.iter().chain(more) {
        if text(new, pointer) != text(old, pointer) {
            let path = pointer.trim_start_matches('/').replace('/', ".");
            errors.push(FieldError::invalid(path, text(new, pointer), "field is immutable"));
        }
    }
}
