//! What a webhook configuration may be.

use std::collections::BTreeSet;

use litek8s_machinery::field::FieldError;
use serde_json::Value;

use super::super::expressions::{self, NAMES, compiling};
use crate::extensions::cel::dynamic::Variables;
use crate::strategy::{Strategy, WriteContext};

/// The desired form of a URL, for messages.
const FORM: &str = "; desired format: https://host[/path]";

/// The behaviour of both kinds of webhook configurations.
pub(crate) struct WebhookConfigurations;

impl Strategy for WebhookConfigurations {
    fn validate(&self, _: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        if old.is_some_and(|old| old["webhooks"] == object["webhooks"]) {
            return Vec::new();
        }
        let mut errors = Vec::new();
        let mut names = BTreeSet::new();
        for (index, hook) in object["webhooks"].as_array().into_iter().flatten().enumerate() {
            let path = format!("webhooks[{index}]");
            let name = hook["name"].as_str().unwrap_or_default();
            if !names.insert(name) {
                errors.push(FieldError::duplicate(format!("{path}.name"), name));
            }
            check(hook, &path, &mut errors);
        }
        errors
    }
}

fn check(hook: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let name = hook["name"].as_str().unwrap_or_default();
    if name.split('.').filter(|part| !part.is_empty()).count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        errors.push(FieldError::invalid(format!("{path}.name"), name, detail));
    }
    match hook["sideEffects"].as_str() {
        Some("None" | "NoneOnDryRun") => {}
        Some(other) => {
            errors.push(FieldError::not_supported(
                format!("{path}.sideEffects"),
                other,
                ["None", "NoneOnDryRun"],
            ));
        }
        None => {
            let detail = "must specify one of None, NoneOnDryRun";
            errors.push(FieldError::required(format!("{path}.sideEffects"), detail));
        }
    }
    let versions: Vec<&str> =
        hook["admissionReviewVersions"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if versions.is_empty() {
        let detail = "must specify one of v1, v1beta1";
        errors.push(FieldError::required(format!("{path}.admissionReviewVersions"), detail));
    } else if !versions.contains(&"v1") {
        let detail = "must include at least one of v1";
        let value = Value::from(versions);
        errors.push(FieldError::invalid(format!("{path}.admissionReviewVersions"), value, detail));
    }
    if let Some(seconds) = hook["timeoutSeconds"].as_i64().filter(|seconds| !(1..=30).contains(seconds)) {
        let detail = "the timeout value must be between 1 and 30 seconds";
        errors.push(FieldError::invalid(format!("{path}.timeoutSeconds"), seconds, detail));
    }
    check_config(&hook["clientConfig"], &format!("{path}.clientConfig"), errors);
    let conditions = &hook["matchConditions"];
    if conditions.as_array().is_some_and(|list| !list.is_empty())
        && let Err(error) =
            compiling(|| expressions::conditions(conditions, &NAMES, &Variables::new()).map(drop))
    {
        errors.push(FieldError::invalid(format!("{path}.matchConditions"), Value::Null, error));
    }
}

/// The errors of a `clientConfig`; conversion webhooks have the same.
pub(crate) fn check_config(config: &Value, path: &str, errors: &mut Vec<FieldError>) {
    match (config["url"].as_str(), config["service"].as_object()) {
        (Some(url), None) => {
            let path = format!("{path}.url");
            match url.parse::<http::Uri>() {
                Err(error) => {
                    errors
                        .push(FieldError::required(path, format!("url must be a valid URL: {error}{FORM}")));
                }
                Ok(uri) if uri.scheme_str() != Some("https") => {
                    let scheme = uri.scheme_str().unwrap_or_default();
                    let detail = format!("'https' is the only allowed URL scheme{FORM}");
                    errors.push(FieldError::invalid(path, scheme, detail));
                }
                Ok(uri) if uri.query().is_some() => {
                    let detail = "query parameters are not permitted in the URL";
                    errors.push(FieldError::invalid(path, uri.query().unwrap_or_default(), detail));
                }
                Ok(_) => {}
            }
        }
        (None, Some(service)) => {
            for field in ["name", "namespace"] {
                if service.get(field).and_then(Value::as_str).unwrap_or_default().is_empty() {
                    errors.push(FieldError::required(format!("{path}.service.{field}"), ""));
                }
            }
            let port = service.get("port").and_then(Value::as_i64);
            if let Some(port) = port.filter(|port| !(1..=65535).contains(port)) {
                let detail = "port is not valid: must be between 1 and 65535, inclusive";
                errors.push(FieldError::invalid(format!("{path}.service.port"), port, detail));
            }
        }
        _ => errors.push(FieldError::required(path, "exactly one of url or service is required")),
    }
}
