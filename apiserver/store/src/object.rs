//! An object as it is stored: its JSON, shared and immutable, beside its parsed metadata.

use std::sync::Arc;

use bytes::Bytes;

use crate::command::Claim;
use crate::key::{ObjectKey, Revision};
use crate::metadata::{self, Meta};

const RESOURCE_VERSION: &[u8] = b"\"resourceVersion\":\"";

/// An object at one revision. Immutable, and always behind an [`Arc`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// What identifies the object.
    pub key: ObjectKey,
    /// The mutation that made this state.
    pub revision: Revision,
    /// The parsed metadata.
    pub meta: Meta,
    /// The object as stored, with `metadata.resourceVersion` equal to `revision`.
    pub json: Bytes,
    /// What the object holds exclusively, sorted.
    pub claims: Arc<[Claim]>,
    /// Where the digits of the resourceVersion begin in `json`.
    pub(crate) version_at: usize,
}

impl Object {
    /// The object that `json`, which should bring no resourceVersion, becomes at `revision`.
    pub(crate) fn build(
        key: ObjectKey,
        revision: Revision,
        json: &[u8],
        mut claims: Vec<Claim>,
    ) -> Result<Self, String> {
        let parsed = metadata::parse(json).map_err(|error| error.to_string())?;
        if parsed.has_resource_version {
            let stripped = without_resource_version(json)?;
            return Self::build(key, revision, &stripped, claims);
        }
        let opening = metadata::opening(json).ok_or("metadata is not an object")?;
        let digits = revision.to_string();
        let mut stored = Vec::with_capacity(json.len() + RESOURCE_VERSION.len() + digits.len() + 2);
        stored.extend_from_slice(&json[..opening]);
        stored.extend_from_slice(RESOURCE_VERSION);
        let version_at = stored.len();
        stored.extend_from_slice(digits.as_bytes());
        stored.push(b'"');
        if !metadata::is_empty_object(json, opening) {
            stored.push(b',');
        }
        stored.extend_from_slice(&json[opening..]);
        stored.shrink_to_fit();
        claims.sort();
        claims.dedup();
        Ok(Self { key, revision, meta: parsed.meta, json: stored.into(), claims: claims.into(), version_at })
    }

    /// The object read back from a snapshot, where its bytes were stored as they are.
    pub(crate) fn restore(
        key: ObjectKey,
        revision: Revision,
        json: Bytes,
        claims: Vec<Claim>,
        version_at: usize,
    ) -> Result<Self, String> {
        let parsed = metadata::parse(&json).map_err(|error| error.to_string())?;
        let object = Self { key, revision, meta: parsed.meta, json, claims: claims.into(), version_at };
        let (_, rest) = object.around_version().ok_or("misplaced resourceVersion")?;
        if rest.first() == Some(&b'"') { Ok(object) } else { Err("misplaced resourceVersion".to_owned()) }
    }

    /// The same state at a later revision: what a deletion reports.
    pub(crate) fn at_revision(&self, revision: Revision) -> Self {
        let mut object = self.clone();
        if let Some((before, after)) = self.around_version() {
            let digits = revision.to_string();
            let mut json = Vec::with_capacity(before.len() + digits.len() + after.len());
            json.extend_from_slice(before);
            json.extend_from_slice(digits.as_bytes());
            json.extend_from_slice(after);
            object.json = json.into();
        }
        object.revision = revision;
        object
    }

    fn around_version(&self) -> Option<(&[u8], &[u8])> {
        let digits = self.revision.to_string();
        let before = self.json.get(..self.version_at)?;
        let after = self.json.get(self.version_at..)?;
        Some((before, after.strip_prefix(digits.as_bytes())?))
    }
}

/// The rare path: a caller left a resourceVersion in, so the value is written anew.
fn without_resource_version(json: &[u8]) -> Result<Vec<u8>, String> {
    let mut value: serde_json::Value = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    if let Some(metadata) = value.get_mut("metadata").and_then(|m| m.as_object_mut()) {
        metadata.remove("resourceVersion");
    }
    serde_json::to_vec(&value).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::GroupResource;

    fn key() -> ObjectKey {
        ObjectKey::new(GroupResource::new("", "pods"), "default", "a")
    }

    fn built(json: &str) -> Object {
        Object::build(key(), 42, json.as_bytes(), vec![]).unwrap()
    }

    #[test]
    fn the_revision_is_spliced_into_the_metadata() {
        let object = built(r#"{"kind":"Pod","metadata":{"name":"a"},"spec":{}}"#);
        assert_eq!(object.json, r#"{"kind":"Pod","metadata":{"resourceVersion":"42","name":"a"},"spec":{}}"#);
    }

    #[test]
    fn empty_metadata_takes_the_revision_too() {
        assert_eq!(built(r#"{"metadata":{ }}"#).json, r#"{"metadata":{"resourceVersion":"42" }}"#);
    }

    #[test]
    fn a_resource_version_of_the_caller_is_replaced() {
        for version in [r#""7""#, "null"] {
            let object = built(&format!(r#"{{"metadata":{{"resourceVersion":{version},"uid":"u"}}}}"#));
            let value: serde_json::Value = serde_json::from_slice(&object.json).unwrap();
            assert_eq!(value["metadata"]["resourceVersion"], "42");
            assert_eq!(object.meta.uid, "u");
        }
    }

    #[test]
    fn a_deletion_moves_the_revision_only() {
        let object = built(r#"{"metadata":{"name":"a"}}"#).at_revision(1000);
        assert_eq!(object.json, r#"{"metadata":{"resourceVersion":"1000","name":"a"}}"#);
        assert_eq!(object.revision, 1000);
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for json in ["", "[]", "1", "{}", r#"{"metadata":null}"#, r#"{"metadata":{}"#] {
            assert!(Object::build(key(), 1, json.as_bytes(), vec![]).is_err(), "{json}");
        }
    }
}
