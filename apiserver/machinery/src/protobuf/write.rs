//! Writes objects of built-in types as protobuf, fields in the order of their numbers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::varint::{put_bytes, put_number, put_varint};
use super::{MAGIC, time};
use crate::gvk::GroupVersion;
use crate::schema::{Schema, Type, TypeName, Wire};

/// An object of a built-in type in its envelope. What does not fit the schema is left out.
pub fn to_protobuf(schema: &Schema, object: &Value) -> Vec<u8> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let mut meta = Vec::new();
    put_bytes(&mut meta, 1, text("apiVersion").as_bytes());
    put_bytes(&mut meta, 2, text("kind").as_bytes());
    let mut raw = Vec::new();
    message(&mut raw, schema, object);
    let mut out = MAGIC.to_vec();
    put_bytes(&mut out, 1, &meta);
    put_bytes(&mut out, 2, &raw);
    put_bytes(&mut out, 3, b"");
    put_bytes(&mut out, 4, b"");
    out
}

/// Any object, list or `Status` of a built-in kind in its envelope; `None` when its type is not in the table.
pub fn encode(object: &Value) -> Option<Vec<u8>> {
    let text = |field: &str| object.get(field).and_then(Value::as_str);
    let kind = GroupVersion::parse(text("apiVersion")?)?.with_kind(text("kind")?);
    Some(to_protobuf(crate::resource::type_of(&kind)?.schema(), object))
}

/// Appends one frame of a watch: its length in four bytes, the most significant first, and a `WatchEvent` that holds an
/// object in its envelope.
pub fn put_watch_event(out: &mut impl Extend<u8>, kind: &str, object: &[u8]) {
    let mut raw = Vec::with_capacity(object.len() + 8);
    put_bytes(&mut raw, 1, object);
    let mut event = Vec::with_capacity(raw.len() + 24);
    put_bytes(&mut event, 1, kind.as_bytes());
    put_bytes(&mut event, 2, &raw);
    // An object is far below 4 GiB.
    out.extend(u32::try_from(event.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend(event);
}

fn message(out: &mut Vec<u8>, schema: &Schema, object: &Value) {
    let Value::Object(fields) = object else { return };
    let mut parts: Vec<(u32, Vec<u8>)> = Vec::new();
    for (name, property) in &schema.properties {
        if property.number > 0
            && let Some(value) = fields.get(&**name).filter(|value| !value.is_null())
        {
            let mut part = Vec::new();
            field(&mut part, property.number, property.schema.get(), value);
            parts.push((property.number, part));
        }
    }
    for inlined in &schema.inlined {
        let mut inner = Vec::new();
        message(&mut inner, inlined.ty.schema(), object);
        let mut part = Vec::new();
        put_bytes(&mut part, inlined.number, &inner);
        parts.push((inlined.number, part));
    }
    parts.sort_by_key(|(number, _)| *number);
    parts.iter().for_each(|(_, part)| out.extend_from_slice(part));
}

fn field(out: &mut Vec<u8>, number: u32, schema: &Schema, value: &Value) {
    match (schema.ty, schema.wire, value) {
        (Type::Array, Wire::Plain, Value::Array(items)) => {
            let of = schema.item().unwrap_or(Schema::anything());
            items.iter().for_each(|item| single(out, number, of, item));
        }
        (Type::Object, Wire::Plain, Value::Object(entries))
            if schema.properties.is_empty() && schema.additional.is_some() =>
        {
            let of = schema.additional.as_ref().map_or(Schema::anything(), |of| of.get());
            for (key, value) in entries {
                let mut entry = Vec::new();
                put_bytes(&mut entry, 1, key.as_bytes());
                single(&mut entry, 2, of, value);
                put_bytes(out, number, &entry);
            }
        }
        _ => single(out, number, schema, value),
    }
}

fn single(out: &mut Vec<u8>, number: u32, schema: &Schema, value: &Value) {
    let mut inner = Vec::new();
    match (schema.wire, value) {
        (Wire::Plain, Value::Bool(flag)) => return put_number(out, number, u64::from(*flag)),
        (Wire::Plain, Value::Number(value)) => {
            let value = value.as_i64().map(i64::cast_unsigned).or_else(|| value.as_u64()).unwrap_or(0);
            return put_number(out, number, value);
        }
        (Wire::Plain, Value::String(text)) => inner.extend_from_slice(text.as_bytes()),
        (Wire::Plain, object) => message(&mut inner, schema, object),
        (Wire::Double, value) => {
            put_varint(out, (u64::from(number) << 3) | 1);
            out.extend_from_slice(&value.as_f64().unwrap_or(0.0).to_le_bytes());
            return;
        }
        (Wire::Bytes, Value::String(text)) => inner = STANDARD.decode(text).unwrap_or_default(),
        (Wire::Time | Wire::MicroTime, Value::String(text)) => {
            let Some((seconds, nanos)) = time::parse(text) else { return };
            put_number(&mut inner, 1, seconds.cast_unsigned());
            let nanos = if schema.wire == Wire::Time { 0 } else { nanos };
            put_number(&mut inner, 2, i64::from(nanos).cast_unsigned());
        }
        (Wire::Duration, Value::String(text)) => {
            put_number(&mut inner, 1, time::duration(text).unwrap_or(0).cast_unsigned());
        }
        (Wire::Quantity, value) => put_bytes(&mut inner, 1, crate::jsonpath::text(value).as_bytes()),
        (Wire::IntOrString, Value::String(text)) => {
            put_number(&mut inner, 1, 1);
            put_number(&mut inner, 2, 0);
            put_bytes(&mut inner, 3, text.as_bytes());
        }
        (Wire::IntOrString, value) => {
            put_number(&mut inner, 1, 0);
            put_number(&mut inner, 2, value.as_i64().unwrap_or(0).cast_unsigned());
            put_bytes(&mut inner, 3, b"");
        }
        (Wire::ItemsMessage, Value::Array(items)) => {
            let of = schema.item().unwrap_or(Schema::anything());
            items.iter().for_each(|item| single(&mut inner, 1, of, item));
        }
        (Wire::RawExtension | Wire::RawJson, value) => {
            put_bytes(&mut inner, 1, value.to_string().as_bytes());
        }
        (Wire::SchemaOrArray | Wire::SchemaOrBool | Wire::SchemaOrStrings, value) => {
            schema_or(&mut inner, schema.wire, value);
        }
        (Wire::Bytes | Wire::Time | Wire::MicroTime | Wire::Duration | Wire::ItemsMessage, _) => return,
    }
    put_bytes(out, number, &inner);
}

fn schema_or(out: &mut Vec<u8>, wire: Wire, value: &Value) {
    let props =
        TypeName::find("apiextensions/v1.JSONSchemaProps").map_or(Schema::anything(), TypeName::schema);
    let (schema_number, other) = if wire == Wire::SchemaOrBool { (2, 1) } else { (1, 2) };
    if wire == Wire::SchemaOrBool {
        put_number(out, other, u64::from(value.as_bool().unwrap_or(true)));
    }
    match value {
        Value::Object(_) => {
            let mut inner = Vec::new();
            message(&mut inner, props, value);
            put_bytes(out, schema_number, &inner);
        }
        Value::Array(items) => items.iter().for_each(|item| match item {
            Value::String(text) => put_bytes(out, other, text.as_bytes()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                let mut inner = Vec::new();
                message(&mut inner, props, item);
                put_bytes(out, other, &inner);
            }
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
