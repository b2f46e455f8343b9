//! Whether a value can be an object of a built-in type at all: the JSON type of every field.

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine as _};
use serde_json::Value;

use crate::field::Path;
use crate::resource::Resource;
use crate::schema::{Schema, Type, TypeName, Wire};
use crate::status::Status;

/// The first field of another type than the schema's makes the whole body a bad request, in the words of Go's decoder.
pub(super) fn decodable(resource: &Resource, value: &Value) -> Result<(), Status> {
    match mismatch(resource.schema.get(), value, &Path::root()) {
        None => Ok(()),
        Some(what) => Err(Status::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: {what}",
            kind = resource.kind,
            version = resource.version,
        ))),
    }
}

/// The same for a custom resource, of which only the metadata has a type of its own.
pub(super) fn metadata(value: &Value) -> Result<(), Status> {
    let Some(meta) = value.get("metadata") else { return Ok(()) };
    let Some(ty) = TypeName::find("meta/v1.ObjectMeta") else { return Ok(()) };
    mismatch(ty.schema(), meta, &Path::new("metadata")).map_or(Ok(()), |what| Err(Status::bad_request(what)))
}

fn mismatch(schema: &Schema, value: &Value, path: &Path<'_>) -> Option<String> {
    match (schema.ty, value) {
        (_, Value::Null) | (Type::Any, _) => None,
        (Type::Object, Value::Object(fields)) => fields.iter().find_map(|(name, value)| {
            let schema = schema.field(name)?;
            mismatch(schema, value, &path.child(name))
        }),
        (Type::Array, Value::Array(items)) => {
            let schema = schema.item()?;
            items.iter().enumerate().find_map(|(at, item)| mismatch(schema, item, &path.index(at)))
        }
        (Type::Boolean, Value::Bool(_)) | (Type::Number, Value::Number(_)) => None,
        (Type::String, Value::String(text)) => scalar(schema, text),
        (Type::Integer, Value::Number(number)) => integer(schema, number, path),
        (Type::IntOrString, Value::Number(_)) => None,
        (Type::IntOrString, Value::String(text)) => {
            let bad = schema.wire == Wire::Quantity && !crate::quantity::is_quantity(text);
            bad.then(|| QUANTITY.to_owned())
        }
        (wanted, found) => Some(format!(
            "json: cannot unmarshal {} into Go struct field {path} of type {}",
            json_type(found),
            go_type(wanted, schema)
        )),
    }
}

const QUANTITY: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

fn scalar(schema: &Schema, text: &str) -> Option<String> {
    if matches!(schema.wire, Wire::Time | Wire::MicroTime) && !text.is_empty() {
        let error = text.parse::<jiff::Timestamp>().err()?;
        return Some(format!("parsing time {}: {error}", crate::field::quote(text)));
    }
    if schema.wire != Wire::Bytes {
        return None;
    }
    let at = match STANDARD.decode(text).err()? {
        DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at,
        DecodeError::InvalidLength(at) => at,
        DecodeError::InvalidPadding => text.len(),
    };
    Some(format!("illegal base64 data at input byte {at}"))
}

fn integer(schema: &Schema, number: &serde_json::Number, path: &Path<'_>) -> Option<String> {
    let format = schema.format.as_deref().unwrap_or("int64");
    let fits = match (number.as_i64(), format) {
        (Some(value), "int32") => i32::try_from(value).is_ok(),
        (Some(_), _) => true,
        (None, _) => false,
    };
    (!fits).then(|| {
        format!("json: cannot unmarshal number {number} into Go struct field {path} of type {format}")
    })
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn go_type(ty: Type, schema: &Schema) -> String {
    match ty {
        Type::Boolean => "bool".to_owned(),
        Type::Integer => schema.format.as_deref().unwrap_or("int64").to_owned(),
        Type::Number => "float64".to_owned(),
        Type::String => "string".to_owned(),
        Type::Array => match schema.item().map(|item| item.ty) {
            Some(Type::String) => "[]string".to_owned(),
            _ => "slice".to_owned(),
        },
        Type::Object if schema.additional.is_some() => "map[string]string".to_owned(),
        Type::Object => "struct".to_owned(),
        Type::Any => "interface {}".to_owned(),
        Type::IntOrString => "intstr.IntOrString".to_owned(),
    }
}
