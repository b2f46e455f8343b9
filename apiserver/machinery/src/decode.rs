//! From bytes to values: JSON, YAML and protobuf, with limits, and what a schema makes of a value's fields.

mod fields;
mod scalars;
mod tree;

use serde_json::Value;

pub use crate::protobuf::{MAGIC, from_protobuf};
pub use fields::{normalize, prune, unknown_fields};

/// What a body may cost at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the body.
    pub bytes: usize,
    /// Nesting of objects and lists.
    pub depth: usize,
}

impl Default for Limits {
    /// 3 MiB, as kube-apiserver allows, and 100 levels.
    fn default() -> Self {
        Self { bytes: 3 * 1024 * 1024, depth: 100 }
    }
}

/// A decoded body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// The value; of a field that stands twice, the last one.
    pub value: Value,
    /// Paths of the fields that stand twice.
    pub duplicate_keys: Vec<String>,
}

/// Why a body is not a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// More bytes than allowed.
    #[error("limit is {limit}")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// More levels than allowed.
    #[error("exceeded max depth of {limit}")]
    TooDeep {
        /// The limit in levels.
        limit: usize,
    },
    /// Not what it claims to be.
    #[error("{0}")]
    Malformed(String),
}

/// Reads JSON; nothing may follow the value.
pub fn from_json(bytes: &[u8], limits: &Limits) -> Result<Decoded, DecodeError> {
    check_size(bytes, limits)?;
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let decoded =
        tree::read(&mut reader, limits.depth).map_err(|(error, deep)| refuse(&error, deep, limits))?;
    reader.end().map_err(|error| DecodeError::Malformed(error.to_string()))?;
    Ok(decoded)
}

/// Reads one YAML document, with numbers as YAML 1.1 reads them (`0644` is octal).
pub fn from_yaml(bytes: &[u8], limits: &Limits) -> Result<Decoded, DecodeError> {
    check_size(bytes, limits)?;
    let options = yaml(limits, serde_saphyr::DuplicateKeyPolicy::PassThrough);
    let mut deep = false;
    serde_saphyr::with_deserializer_from_slice_with_options(bytes, options, |reader| {
        tree::read(reader, limits.depth).map_err(|(error, too_deep)| {
            deep = too_deep;
            error
        })
    })
    .map_err(|error| refuse(&error, deep, limits))
}

/// The first key that stands twice in a YAML document, with its line, as clients know it from their own parsers.
pub fn yaml_duplicate(bytes: &[u8], limits: &Limits) -> Option<String> {
    let options = yaml(limits, serde_saphyr::DuplicateKeyPolicy::Error);
    let read = serde_saphyr::with_deserializer_from_slice_with_options(bytes, options, |reader| {
        tree::read(reader, limits.depth).map_err(|(error, _)| error)
    });
    match read {
        Err(serde_saphyr::Error::DuplicateMappingKey { key: Some(key), location }) => {
            let key = crate::field::quote(&key);
            Some(format!("line {}: key {key} already set in map", location.line()))
        }
        Ok(_) | Err(_) => None,
    }
}

fn yaml(limits: &Limits, duplicates: serde_saphyr::DuplicateKeyPolicy) -> serde_saphyr::Options {
    let mut budget = serde_saphyr::Budget::default();
    budget.max_depth = limits.depth;
    budget.max_documents = 1;
    // What aliases expand to counts, so a small body cannot become a large object.
    budget.max_nodes = 1_000_000;
    budget.max_total_scalar_bytes = 4 * limits.bytes;
    let mut options = serde_saphyr::Options::default();
    options.budget = Some(budget);
    options.legacy_octal_numbers = true;
    options.duplicate_keys = duplicates;
    options.with_snippet = false;
    options
}

fn check_size(bytes: &[u8], limits: &Limits) -> Result<(), DecodeError> {
    if bytes.len() > limits.bytes { Err(DecodeError::TooLarge { limit: limits.bytes }) } else { Ok(()) }
}

fn refuse(error: &impl ToString, deep: bool, limits: &Limits) -> DecodeError {
    if deep {
        DecodeError::TooDeep { limit: limits.depth }
    } else {
        DecodeError::Malformed(error.to_string())
    }
}

/// What strict validation of fields says, one text a field: unknown ones first, as kube-apiserver orders them.
pub fn strict_texts(unknown: &[String], duplicate: &[String]) -> Vec<String> {
    let one = |what: &str, path: &String| format!("{what} field {}", crate::field::quote(path));
    let unknown = unknown.iter().map(|path| one("unknown", path));
    unknown.chain(duplicate.iter().map(|path| one("duplicate", path))).collect()
}

#[cfg(test)]
pub(crate) mod tests;
