//! The part of an object that selectors, owners and watches need, parsed once, and the
//! place of `metadata` in the object's bytes; never the rest of an object.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The parsed metadata of an object.
///
/// Annotations and managed fields stay in the object's JSON: nothing here selects by them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// The object's uid; empty if it was stored without one.
    pub uid: String,
    /// The generation of the desired state.
    pub generation: i64,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The owners.
    pub owners: Vec<OwnerReference>,
    /// The finalizers, in the order of the object.
    pub finalizers: Vec<String>,
    /// When the object was created, as in the object (RFC 3339).
    pub creation_timestamp: Option<String>,
    /// When deletion was asked for, as in the object (RFC 3339).
    pub deletion_timestamp: Option<String>,
    /// How many seconds of grace the deletion grants.
    pub deletion_grace_period_seconds: Option<i64>,
}

impl Meta {
    /// Whether deletion of the object has begun.
    pub fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// The owner that controls the object.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owners.iter().find(|owner| owner.controller)
    }
}

/// One of the owners of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// The owner's group and version.
    pub api_version: String,
    /// The owner's kind.
    pub kind: String,
    /// The owner's name, in the namespace of the object or cluster-scoped.
    pub name: String,
    /// The owner's uid.
    pub uid: String,
    /// Whether this owner controls the object.
    #[serde(deserialize_with = "null_is_default")]
    pub controller: bool,
    /// Whether a foreground deletion of the owner waits for the object.
    #[serde(deserialize_with = "null_is_default")]
    pub block_owner_deletion: bool,
}

#[derive(Deserialize)]
struct Wire {
    metadata: WireMeta,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireMeta {
    #[serde(deserialize_with = "null_is_default")]
    uid: String,
    #[serde(deserialize_with = "null_is_default")]
    generation: i64,
    #[serde(deserialize_with = "null_is_default")]
    labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_is_default")]
    owner_references: Vec<OwnerReference>,
    #[serde(deserialize_with = "null_is_default")]
    finalizers: Vec<String>,
    creation_timestamp: Option<String>,
    deletion_timestamp: Option<String>,
    deletion_grace_period_seconds: Option<i64>,
    #[serde(deserialize_with = "is_there")]
    resource_version: bool,
}

fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// Any value will do, null too: a second key of the name would make the object ambiguous.
fn is_there<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    serde::de::IgnoredAny::deserialize(deserializer).map(|_| true)
}

/// What parsing an object found.
pub(crate) struct Parsed {
    pub(crate) meta: Meta,
    /// Whether the object brought a resourceVersion of its own.
    pub(crate) has_resource_version: bool,
}

/// Checks that `json` is one JSON object and parses its metadata.
pub(crate) fn parse(json: &[u8]) -> Result<Parsed, serde_json::Error> {
    let wire = serde_json::from_slice::<Wire>(json)?.metadata;
    Ok(Parsed {
        has_resource_version: wire.resource_version,
        meta: Meta {
            uid: wire.uid,
            generation: wire.generation,
            labels: wire.labels,
            owners: wire.owner_references,
            finalizers: wire.finalizers,
            creation_timestamp: wire.creation_timestamp,
            deletion_timestamp: wire.deletion_timestamp,
            deletion_grace_period_seconds: wire.deletion_grace_period_seconds,
        },
    })
}

/// The offset just after the `{` that opens the top-level `metadata` of valid JSON.
///
/// `None` if there is no such key or its value is no object.
pub(crate) fn opening(json: &[u8]) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(&byte) = json.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let end = end_of_string(json, at)?;
                if depth == 1 && json.get(at..end) == Some(b"\"metadata\"") {
                    let colon = skip_space(json, end);
                    if json.get(colon) == Some(&b':') {
                        let value = skip_space(json, colon + 1);
                        return (json.get(value) == Some(&b'{')).then_some(value + 1);
                    }
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Whether the object opened before `at` has no member.
pub(crate) fn is_empty_object(json: &[u8], at: usize) -> bool {
    json.get(skip_space(json, at)) == Some(&b'}')
}

fn end_of_string(json: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        match json.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

fn skip_space(json: &[u8], mut at: usize) -> usize {
    while json.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_found_behind_deceptive_strings() {
        let json = br#"{"a":"\"metadata\":{","b":{"metadata":{"x":1}},"metadata" : {"uid":"u"}}"#;
        let at = opening(json).unwrap();
        assert_eq!(&json[at..at + 5], b"\"uid\"");
    }

    #[test]
    fn a_value_called_metadata_is_not_the_key() {
        let json = br#"{"kind":"metadata","list":["metadata"],"metadata":{}}"#;
        let at = opening(json).unwrap();
        assert!(is_empty_object(json, at));
        assert_eq!(&json[at..], b"}}");
    }

    #[test]
    fn nulls_are_defaults() {
        let meta = parse(br#"{"metadata":{"labels":null,"creationTimestamp":null,"ownerReferences":[{"uid":"o","controller":null}]}}"#)
            .unwrap()
            .meta;
        assert!(meta.labels.is_empty());
        assert_eq!(meta.creation_timestamp, None);
        assert_eq!(meta.owners[0].uid, "o");
        assert_eq!(meta.controller(), None);
    }
}
