//! ConfigMaps and Secrets: how much they hold, and how a Secret's plain text becomes data.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use litek8s_machinery::field::FieldError;
use serde_json::Value;

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

    fn validate(&self, _: &WriteContext<'_>, object: &Value, _: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let mut size = 0;
        for (field, encoded) in [("data", self.secret), ("binaryData", true)] {
            for (key, value) in object[field].as_object().into_iter().flatten() {
                let text = value.as_str().unwrap_or_default();
                if encoded && STANDARD.decode(text).is_err() {
                    errors.push(FieldError::invalid(
                        format!("{field}[{key}]"),
                        "<value omitted>",
                        "must be base64",
                    ));
                }
                size += if encoded { text.len() / 4 * 3 } else { text.len() };
                if field == "binaryData" && object["data"].get(key).is_some() {
                    let detail = "duplicate of key present in binaryData";
                    errors.push(FieldError::invalid(format!("data[{key}]"), key.as_str(), detail));
                }
            }
        }
        if size > MAX_SIZE {
            errors.push(FieldError::too_long(if self.secret { "data" } else { "" }, MAX_SIZE));
        }
        errors
    }
}

impl Config {
    /// A Secret always has a type.
    fn settle(&self, object: &mut Value) {
        if !self.secret {
            return;
        }
        let Some(map) = object.as_object_mut() else { return };
        let kind = map.entry("type").or_insert(Value::Null);
        if kind.as_str().unwrap_or_default().is_empty() {
            *kind = Value::from("Opaque");
        }
    }
}
