//! Protobuf as clients of the API write it: the `k8s\0` envelope and, by the numbers of the table of types, everything
//! in it. Both directions; nothing is generated, a new type is a new entry of the table.

mod message;
pub(crate) mod time;
pub(crate) mod varint;
mod write;

use serde_json::Value;

use crate::decode::{DecodeError, normalize};
use crate::gvk::{GroupVersion, GroupVersionKind};
use crate::schema::{Schema, TypeName};
use varint::{Field, Fields};

pub use write::{encode, put_watch_event, to_protobuf};

/// The first bytes of a body in protobuf.
pub const MAGIC: &[u8] = b"k8s\0";

/// Levels of messages in messages.
pub(crate) const MAX_DEPTH: usize = 100;

/// Reads an object from its envelope. `lookup` gives the type of a kind; [`crate::resource::type_of`] knows the
/// built-in ones. Zero values that mean absent are left out, since such clients always write them.
pub fn from_protobuf(
    bytes: &[u8],
    lookup: &dyn Fn(&GroupVersionKind) -> Option<TypeName>,
) -> Result<Value, DecodeError> {
    enveloped(bytes, lookup, MAX_DEPTH)
}

pub(crate) fn enveloped(
    bytes: &[u8],
    lookup: &dyn Fn(&GroupVersionKind) -> Option<TypeName>,
    depth: usize,
) -> Result<Value, DecodeError> {
    let body = bytes.strip_prefix(MAGIC).ok_or_else(|| {
        malformed("provided data does not appear to be a protobuf message, expected prefix")
    })?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for field in Fields::of(body) {
        match field? {
            (1, Field::Bytes(meta)) => {
                for field in Fields::of(meta) {
                    match field? {
                        (1, Field::Bytes(text)) => api_version = utf8(text)?,
                        (2, Field::Bytes(text)) => kind = utf8(text)?,
                        _ => {}
                    }
                }
            }
            (2, Field::Bytes(body)) => raw = body,
            _ => {}
        }
    }
    let gvk = GroupVersion::parse(&api_version).map(|version| version.with_kind(kind.as_str()));
    let ty = gvk.as_ref().and_then(lookup).ok_or_else(|| {
        malformed(&format!("no kind \"{kind}\" is registered for version \"{api_version}\""))
    })?;
    let reader = message::Reader { lookup };
    let mut value = reader.message(ty.schema(), raw, depth)?;
    normalize(ty.schema(), &mut value);
    if let Value::Object(fields) = &mut value {
        fields.insert("apiVersion".to_owned(), Value::String(api_version));
        fields.insert("kind".to_owned(), Value::String(kind));
    }
    Ok(value)
}

/// Reads a bare message of a known type, without an envelope.
pub fn message(schema: &Schema, bytes: &[u8]) -> Result<Value, DecodeError> {
    let reader = message::Reader { lookup: &crate::resource::type_of };
    let mut value = reader.message(schema, bytes, MAX_DEPTH)?;
    normalize(schema, &mut value);
    Ok(value)
}

pub(crate) fn malformed(text: &str) -> DecodeError {
    DecodeError::Malformed(text.to_owned())
}

pub(crate) fn utf8(bytes: &[u8]) -> Result<String, DecodeError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| malformed("proto: invalid UTF-8"))
}

#[cfg(test)]
mod tests;
