//! Checks of pods and of what makes them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::field::{FieldError, Path};
use crate::selector::LabelSelector;
use crate::validate::{full, is_dns_label};

pub(super) fn selects_template(spec: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let Some(selector) = spec.get("selector") else {
        errors.push(FieldError::required(path.child("selector"), ""));
        return;
    };
    let labels = strings(spec, "/template/metadata/labels");
    let empty = selector.as_object().is_some_and(|fields| {
        fields.values().all(|field| match field {
            Value::Object(fields) => fields.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        })
    });
    if empty {
        let at = path.child("selector");
        errors.push(FieldError::invalid(at, selector.clone(), "empty selector is invalid for deployment"));
        return;
    }
    let matches = LabelSelector::from_json(selector).is_ok_and(|selector| selector.matches(&labels));
    if !matches {
        let (template, labels) = (path.child("template"), labels.into_iter());
        let labels: serde_json::Map<String, Value> = labels.map(|(key, value)| (key, value.into())).collect();
        let meta = template.child("metadata");
        let at = meta.child("labels");
        errors.push(FieldError::invalid(
            at,
            Value::Object(labels),
            "`selector` does not match template `labels`",
        ));
    }
}

pub(super) fn selector(selector: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    super::super::meta::labels(selector.get("matchLabels"), &path.child("matchLabels"), errors);
    let list = path.child("matchExpressions");
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    for (at, expression) in expressions.into_iter().flatten().enumerate() {
        let at = list.index(at);
        let values = expression.get("values").and_then(Value::as_array).map_or(0, Vec::len);
        let operator = expression.get("operator").and_then(Value::as_str).unwrap_or("");
        match operator {
            "In" | "NotIn" if values == 0 => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(at.child("values"), detail));
            }
            "Exists" | "DoesNotExist" if values > 0 => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(at.child("values"), detail));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                errors.push(FieldError::invalid(at.child("operator"), other, "not a valid selector operator"))
            }
        }
        let key = expression.get("key").and_then(Value::as_str).unwrap_or("");
        for detail in super::super::qualified_name_errors(key) {
            errors.push(FieldError::invalid(at.child("key"), key, detail));
        }
    }
}

pub(super) fn environment_name(value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let name = value.as_str().unwrap_or("");
    // Printable ASCII without `=`.
    if name.is_empty() || !name.bytes().all(|byte| (0x20..0x7f).contains(&byte) && byte != b'=') {
        let detail = "a valid environment variable name must consist only of printable ASCII characters other than '='";
        errors.push(FieldError::invalid(path, name, detail));
    }
}

fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

const CONTAINER_LISTS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

pub(super) fn mounts(spec: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let name = |value: &Value| value.get("name").and_then(Value::as_str).unwrap_or("").to_owned();
    let volumes: BTreeSet<String> = items(spec, "volumes").iter().map(name).collect();
    for kind in CONTAINER_LISTS {
        let containers = path.child(kind);
        for (at, container) in items(spec, kind).iter().enumerate() {
            let container_path = containers.index(at);
            let mounts = container_path.child("volumeMounts");
            for (at, mount) in items(container, "volumeMounts").iter().enumerate() {
                let volume = name(mount);
                if !volumes.contains(&volume) && !full(errors) {
                    let mount = mounts.index(at);
                    errors.push(FieldError::not_found(mount.child("name"), volume));
                }
            }
        }
    }
}

pub(super) fn container_names(spec: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let mut seen = BTreeSet::new();
    for kind in CONTAINER_LISTS {
        let list = path.child(kind);
        for (at, container) in items(spec, kind).iter().enumerate() {
            if full(errors) {
                return;
            }
            let name = container.get("name").and_then(Value::as_str).unwrap_or("");
            let item = list.index(at);
            if name.is_empty() {
                errors.push(FieldError::required(item.child("name"), ""));
            } else if !seen.insert(name) {
                errors.push(FieldError::duplicate(item.child("name"), name));
            }
            if !name.is_empty() && !is_dns_label(name) {
                errors.push(FieldError::invalid(item.child("name"), name, super::super::name::LABEL));
            }
        }
    }
}

pub(super) fn quantities(map: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    for (name, amount) in map.as_object().into_iter().flatten() {
        let text = crate::jsonpath::text(amount);
        if text.starts_with('-') {
            errors.push(FieldError::invalid(path.key(name), text, "must be greater than or equal to 0"));
        }
    }
}

fn strings(value: &Value, pointer: &str) -> BTreeMap<String, String> {
    let map = value.pointer(pointer).and_then(Value::as_object);
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    map.into_iter().flatten().map(|(key, value)| (key.clone(), text(value))).collect()
}

pub(super) fn int_or_percent(value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let detail = match value {
        Value::Number(number) if number.as_i64().is_some_and(|number| number < 0) => {
            "must be greater than or equal to 0"
        }
        Value::String(text) => {
            let digits = text.strip_suffix('%').unwrap_or("");
            if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return;
            }
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => return,
    };
    errors.push(FieldError::invalid(path, value.clone(), detail));
}
