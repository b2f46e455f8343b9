//! Reads messages by the numbers of their schema.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value};

use super::varint::{Field, Fields, varint};
use super::{MAGIC, enveloped, malformed, time, utf8};
use crate::decode::DecodeError;
use crate::gvk::GroupVersionKind;
use crate::schema::{Schema, Type, TypeName, Wire};

pub(super) struct Reader<'a> {
    pub(super) lookup: &'a dyn Fn(&GroupVersionKind) -> Option<TypeName>,
}

impl Reader<'_> {
    /// A message with named fields.
    pub(super) fn message(&self, schema: &Schema, bytes: &[u8], depth: usize) -> Result<Value, DecodeError> {
        let mut out = Map::new();
        self.fields(schema, bytes, depth, &mut out)?;
        Ok(Value::Object(out))
    }

    fn fields(
        &self,
        schema: &Schema,
        bytes: &[u8],
        depth: usize,
        out: &mut Map<String, Value>,
    ) -> Result<(), DecodeError> {
        let depth = depth.checked_sub(1).ok_or(DecodeError::TooDeep { limit: super::MAX_DEPTH })?;
        for field in Fields::of(bytes) {
            let (number, field) = field?;
            if let Some(inlined) = schema.inlined.iter().find(|inlined| inlined.number == number) {
                if let Field::Bytes(bytes) = field {
                    self.fields(inlined.ty.schema(), bytes, depth, out)?;
                }
                continue;
            }
            // A number that the table does not know is a field of a newer client: left out, as unknown JSON is.
            let Some((name, property)) =
                schema.properties.iter().find(|(_, property)| property.number == number)
            else {
                continue;
            };
            let place = out.entry(&**name).or_insert(Value::Null);
            self.merge(property.schema.get(), field, depth, place)?;
        }
        Ok(())
    }

    /// Puts a field into its place: appended to a list, added to a map, set otherwise.
    fn merge(
        &self,
        schema: &Schema,
        field: Field<'_>,
        depth: usize,
        place: &mut Value,
    ) -> Result<(), DecodeError> {
        match (schema.ty, schema.wire) {
            (Type::Array, Wire::Plain) => {
                if !place.is_array() {
                    *place = Value::Array(Vec::new());
                }
                let Value::Array(items) = place else { return Ok(()) };
                self.append(schema.item().unwrap_or(Schema::anything()), field, depth, items)
            }
            (Type::Object, Wire::Plain) if schema.additional.is_some() && schema.properties.is_empty() => {
                if !place.is_object() {
                    *place = Value::Object(Map::new());
                }
                let Value::Object(entries) = place else { return Ok(()) };
                self.entry(schema, field, depth, entries)
            }
            _ => {
                *place = self.value(schema, field, depth)?;
                Ok(())
            }
        }
    }

    fn append(
        &self,
        item: &Schema,
        field: Field<'_>,
        depth: usize,
        items: &mut Vec<Value>,
    ) -> Result<(), DecodeError> {
        let packed = matches!(item.ty, Type::Integer | Type::Boolean);
        match field {
            Field::Bytes(mut rest) if packed => {
                while !rest.is_empty() {
                    let number = varint(&mut rest)?;
                    items.push(self.value(item, Field::Varint(number), depth)?);
                }
            }
            Field::Varint(_) | Field::Fixed64(_) | Field::Bytes(_) | Field::Fixed32(_) => {
                items.push(self.value(item, field, depth)?);
            }
        }
        Ok(())
    }

    fn entry(
        &self,
        schema: &Schema,
        field: Field<'_>,
        depth: usize,
        entries: &mut Map<String, Value>,
    ) -> Result<(), DecodeError> {
        let Field::Bytes(bytes) = field else { return Err(mismatch()) };
        let of = schema.additional.as_ref().map_or(Schema::anything(), |of| of.get());
        let (mut key, mut value) = (String::new(), None);
        for field in Fields::of(bytes) {
            match field? {
                (1, Field::Bytes(text)) => key = utf8(text)?,
                (2, field) => value = Some(self.value(of, field, depth)?),
                _ => {}
            }
        }
        let value = match value {
            Some(value) => value,
            None => zero(of),
        };
        entries.insert(key, value);
        Ok(())
    }

    fn value(&self, schema: &Schema, field: Field<'_>, depth: usize) -> Result<Value, DecodeError> {
        let value = match (schema.wire, field) {
            (Wire::Plain, field) => return self.plain(schema, field, depth),
            (Wire::Double, Field::Fixed64(bits)) => {
                Number::from_f64(f64::from_bits(bits)).map_or(Value::Null, Value::Number)
            }
            (Wire::Bytes, Field::Bytes(bytes)) => Value::String(STANDARD.encode(bytes)),
            (Wire::Time, Field::Bytes(bytes)) => instant(bytes, time::seconds_text)?,
            (Wire::MicroTime, Field::Bytes(bytes)) => instant(bytes, time::micros_text)?,
            (Wire::Duration, Field::Bytes(bytes)) => {
                let nanos = number_in(bytes, 1)?.unwrap_or(0);
                Value::String(time::duration_text(nanos.cast_signed()))
            }
            (Wire::Quantity, Field::Bytes(bytes)) => match bytes_in(bytes, 1)? {
                Some(text) => Value::String(utf8(text)?),
                None => Value::from("0"),
            },
            (Wire::IntOrString, Field::Bytes(bytes)) => int_or_string(bytes)?,
            (Wire::ItemsMessage, Field::Bytes(bytes)) => {
                let item = schema.item().unwrap_or(Schema::anything());
                let mut items = Vec::new();
                for field in Fields::of(bytes) {
                    if let (1, field) = field? {
                        self.append(item, field, depth, &mut items)?;
                    }
                }
                Value::Array(items)
            }
            (Wire::RawExtension, Field::Bytes(bytes)) => match bytes_in(bytes, 1)? {
                Some(raw) if raw.starts_with(MAGIC) => {
                    let depth =
                        depth.checked_sub(1).ok_or(DecodeError::TooDeep { limit: super::MAX_DEPTH })?;
                    enveloped(raw, self.lookup, depth)?
                }
                Some(raw) => json(raw)?,
                None => Value::Null,
            },
            (Wire::RawJson, Field::Bytes(bytes)) => match bytes_in(bytes, 1)? {
                Some(raw) => json(raw)?,
                None => Value::Null,
            },
            (Wire::SchemaOrArray, Field::Bytes(bytes)) => self.schema_or(bytes, depth, Or::Schemas)?,
            (Wire::SchemaOrBool, Field::Bytes(bytes)) => self.schema_or(bytes, depth, Or::Bool)?,
            (Wire::SchemaOrStrings, Field::Bytes(bytes)) => self.schema_or(bytes, depth, Or::Strings)?,
            _ => return Err(mismatch()),
        };
        Ok(value)
    }

    fn plain(&self, schema: &Schema, field: Field<'_>, depth: usize) -> Result<Value, DecodeError> {
        Ok(match (schema.ty, field) {
            (Type::Boolean, Field::Varint(number)) => Value::Bool(number != 0),
            (Type::Integer, Field::Varint(number)) => Value::from(number.cast_signed()),
            (Type::String, Field::Bytes(text)) => Value::String(utf8(text)?),
            (Type::Object | Type::Array, field @ Field::Bytes(bytes)) => {
                if schema.properties.is_empty() && (schema.additional.is_some() || schema.items.is_some()) {
                    let mut place = Value::Null;
                    self.merge(schema, field, depth, &mut place)?;
                    place
                } else {
                    self.message(schema, bytes, depth)?
                }
            }
            (Type::Any, _) => Value::Null,
            _ => return Err(mismatch()),
        })
    }

    fn schema_or(&self, bytes: &[u8], depth: usize, or: Or) -> Result<Value, DecodeError> {
        let props = TypeName::find("apiextensions/v1.JSONSchemaProps").ok_or_else(mismatch)?.schema();
        let (schema_number, other) = if matches!(or, Or::Bool) { (2, 1) } else { (1, 2) };
        let (mut schema, mut flag, mut list) = (None, false, Vec::new());
        for field in Fields::of(bytes) {
            match field? {
                (number, Field::Bytes(bytes)) if number == schema_number => {
                    schema = Some(self.message(props, bytes, depth)?);
                }
                (number, Field::Varint(value)) if number == other => flag = value != 0,
                (number, Field::Bytes(bytes)) if number == other => list.push(match or {
                    Or::Strings => Value::String(utf8(bytes)?),
                    Or::Schemas | Or::Bool => self.message(props, bytes, depth)?,
                }),
                _ => {}
            }
        }
        Ok(match (schema, or) {
            (Some(schema), _) => schema,
            (None, Or::Bool) => Value::Bool(flag),
            (None, Or::Schemas | Or::Strings) => Value::Array(list),
        })
    }
}

#[derive(Clone, Copy)]
enum Or {
    Schemas,
    Bool,
    Strings,
}

fn mismatch() -> DecodeError {
    malformed("proto: wrong wireType for field")
}

/// What a map's entry holds when its value was left out as the zero value.
fn zero(schema: &Schema) -> Value {
    match (schema.ty, schema.wire) {
        (_, Wire::Quantity) => Value::from("0"),
        (Type::String, _) => Value::from(""),
        (Type::Boolean, _) => Value::Bool(false),
        (Type::Integer | Type::Number, _) => Value::from(0),
        (Type::Array, _) => Value::Array(Vec::new()),
        (Type::Object, _) => Value::Object(Map::new()),
        (Type::Any | Type::IntOrString, _) => Value::Null,
    }
}

fn number_in(bytes: &[u8], wanted: u32) -> Result<Option<u64>, DecodeError> {
    let mut found = None;
    for field in Fields::of(bytes) {
        if let (number, Field::Varint(value)) = field?
            && number == wanted
        {
            found = Some(value);
        }
    }
    Ok(found)
}

fn bytes_in(bytes: &[u8], wanted: u32) -> Result<Option<&[u8]>, DecodeError> {
    let mut found = None;
    for field in Fields::of(bytes) {
        if let (number, Field::Bytes(value)) = field?
            && number == wanted
        {
            found = Some(value);
        }
    }
    Ok(found)
}

/// An empty message is no time at all.
fn instant(bytes: &[u8], text: fn(i64, i32) -> Option<String>) -> Result<Value, DecodeError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let seconds = number_in(bytes, 1)?.unwrap_or(0).cast_signed();
    let nanos = i32::try_from(number_in(bytes, 2)?.unwrap_or(0).cast_signed()).unwrap_or(-1);
    text(seconds, nanos).map(Value::String).ok_or_else(|| malformed("proto: time out of range"))
}

fn int_or_string(bytes: &[u8]) -> Result<Value, DecodeError> {
    if number_in(bytes, 1)? == Some(1) {
        return Ok(Value::String(bytes_in(bytes, 3)?.map(utf8).transpose()?.unwrap_or_default()));
    }
    Ok(Value::from(number_in(bytes, 2)?.unwrap_or(0).cast_signed()))
}

fn json(bytes: &[u8]) -> Result<Value, DecodeError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(bytes).map_err(|error| malformed(&error.to_string()))
}
