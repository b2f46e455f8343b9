//! ConfigMaps and Secrets: keys, sizes, `stringData`, and what `immutable` forbids.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use litek8s_machinery::field::FieldError;
use serde_json::{Map, Value};

use super::{Strategy, WriteContext};
use crate::response::Failure;

/// The most that the values of one object may hold, in bytes.
const MAX_SIZE: usize = 1024 * 1024;

/// The behaviour of ConfigMaps and Secrets.
pub(super) struct Config {
    /// Whether it is a Secret.
    pub(super) secret: bool,
}

impl Strategy for Config {
    fn prepare_create(&self, _: &WriteContext<'_>, object: &mut Value) -> Result<(), Failure> {
        self.settle(object);
        Ok(())
    }

    fn prepare_update(&self, _: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Failure> {
        self.settle(object);
        if self.secret && object["type"].as_str().unwrap_or_default().is_empty() {
            object["type"] = old["type"].clone();
        }
        Ok(())
    }

    fn validate(&self, _: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let mut size = 0;
        for (field, encoded) in [("data", self.secret), ("binaryData", true)] {
            for (key, value) in object[field].as_object().into_iter().flatten() {
                check_key(field, key, &mut errors);
                let text = value.as_str().unwrap_or_default();
                if encoded && STANDARD.decode(text).is_err() {
                    let detail = "must be base64";
                    errors.push(FieldError::invalid(format!("{field}[{key}]"), "<value omitted>", detail));
                }
                size += if encoded { text.len() / 4 * 3 } else { text.len() };
                if field == "binaryData" && object["data"].get(key).is_some() {
                    errors.push(FieldError::invalid(
                        format!("data[{key}]"),
                        key.as_str(),
                        "duplicate of key present in binaryData",
                    ));
                }
            }
        }
        if size > MAX_SIZE {
            errors.push(FieldError::too_long(if self.secret { "data" } else { "" }, MAX_SIZE));
        }
        if let Some(old) = old {
            errors.extend(self.changes(object, old));
        }
        errors
    }
}

impl Config {
    /// `stringData` moves into `data`, and a Secret always has a type.
    fn settle(&self, object: &mut Value) {
        if !self.secret {
            return;
        }
        let Some(map) = object.as_object_mut() else { return };
        if let Some(Value::Object(plain)) = map.remove("stringData") {
            let data = map.entry("data").or_insert_with(|| Value::Object(Map::new()));
            for (key, value) in plain {
                data[key] = Value::from(STANDARD.encode(value.as_str().unwrap_or_default()));
            }
        }
        let kind = map.entry("type").or_insert(Value::Null);
        if kind.as_str().unwrap_or_default().is_empty() {
            *kind = Value::from("Opaque");
        }
    }

    fn changes(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if self.secret && object["type"] != old["type"] {
            errors.push(FieldError::invalid("type", object["type"].clone(), "field is immutable"));
        }
        if old["immutable"] != Value::Bool(true) {
            return errors;
        }
        if object["immutable"] != Value::Bool(true) {
            errors.push(FieldError::forbidden("immutable", "field is immutable when `immutable` is set"));
        }
        for field in ["data", "binaryData"] {
            if object[field] != old[field] {
                errors.push(FieldError::forbidden(field, "field is immutable when `immutable` is set"));
            }
        }
        errors
    }
}

fn check_key(field: &str, key: &str, errors: &mut Vec<FieldError>) {
    let path = || format!("{field}[{key}]");
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if key.is_empty() || !key.chars().all(allowed) {
        let detail = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
                      'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
        errors.push(FieldError::invalid(path(), key, detail));
    } else if matches!(key, "." | "..") {
        errors.push(FieldError::invalid(path(), key, format!("must not be '{key}'")));
    } else if key.starts_with("..") {
        errors.push(FieldError::invalid(path(), key, "must not start with '..'"));
    } else if key.len() > 253 {
        errors.push(FieldError::invalid(path(), key, "must be no more than 253 characters"));
    }
}
