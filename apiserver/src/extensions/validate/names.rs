//! The names of a definition.

use litek8s_machinery::field::FieldError;
use serde_json::Value;

use super::{list, text};

/// What is wrong with a label of RFC 1035.
pub(super) fn dns1035_label(name: &str) -> Option<String> {
    if name.len() > 63 {
        return Some("must be no more than 63 bytes".to_owned());
    }
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let valid = name.bytes().next().is_some_and(|b| b.is_ascii_lowercase())
        && name.bytes().next_back().is_some_and(inner)
        && name.bytes().all(|b| inner(b) || b == b'-');
    (!valid).then(|| {
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, \
         and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is \
         '[a-z]([-a-z0-9]*[a-z0-9])?')"
            .to_owned()
    })
}

/// What is wrong with a dotted name of RFC 1123.
pub(super) fn dns1123_subdomain(name: &str) -> Option<String> {
    if name.len() > 253 {
        return Some("must be no more than 253 bytes".to_owned());
    }
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let label = |part: &str| {
        part.bytes().next().is_some_and(inner)
            && part.bytes().next_back().is_some_and(inner)
            && part.bytes().all(|b| inner(b) || b == b'-')
    };
    (!name.split('.').all(label)).then(|| {
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start \
         and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            .to_owned()
    })
}

/// Checks `spec.names`.
pub(super) fn check_names(names: &Value, errors: &mut Vec<FieldError>) {
    for field in ["plural", "singular", "kind", "listKind"] {
        if text(names, &format!("/{field}")).is_empty() {
            errors.push(FieldError::required(format!("spec.names.{field}"), ""));
        }
    }
    for field in ["plural", "singular"] {
        let name = text(names, &format!("/{field}"));
        if let Some(problem) = dns1035_label(name).filter(|_| !name.is_empty()) {
            errors.push(FieldError::invalid(format!("spec.names.{field}"), name, problem));
        }
    }
    for field in ["kind", "listKind"] {
        let name = text(names, &format!("/{field}"));
        if let Some(problem) = dns1035_label(&name.to_lowercase()).filter(|_| !name.is_empty()) {
            let detail = format!("may have mixed case, but should otherwise match: {problem}");
            errors.push(FieldError::invalid(format!("spec.names.{field}"), name, detail));
        }
    }
    for field in ["shortNames", "categories"] {
        for (index, name) in list(names, &format!("/{field}")).iter().enumerate() {
            let name = name.as_str().unwrap_or_default();
            if let Some(problem) = dns1035_label(name) {
                errors.push(FieldError::invalid(format!("spec.names.{field}[{index}]"), name, problem));
            }
        }
    }
    let (kind, list_kind) = (text(names, "/kind"), text(names, "/listKind"));
    if !kind.is_empty() && kind == list_kind {
        errors.push(FieldError::invalid(
            "spec.names.listKind",
            list_kind,
            "kind and listKind may not be the same",
        ));
    }
}
