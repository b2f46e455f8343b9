//! Reads any self-describing format into a value, and notes the fields that stand twice.

use std::cell::{Cell, RefCell};
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::Decoded;
use crate::field::Path;

/// Reads one value; an error comes with whether the depth was the reason.
pub(super) fn read<'de, D: Deserializer<'de>>(reader: D, depth: usize) -> Result<Decoded, (D::Error, bool)> {
    let notes = Notes::default();
    let root = Path::root();
    match (Node { notes: &notes, path: &root, depth }).deserialize(reader) {
        Ok(value) => Ok(Decoded { value, duplicate_keys: notes.duplicates.into_inner() }),
        Err(error) => Err((error, notes.too_deep.get())),
    }
}

#[derive(Default)]
struct Notes {
    duplicates: RefCell<Vec<String>>,
    too_deep: Cell<bool>,
}

/// Duplicates beyond this many are not listed.
const MAX_DUPLICATES: usize = 100;

#[derive(Clone, Copy)]
struct Node<'a> {
    notes: &'a Notes,
    path: &'a Path<'a>,
    /// Levels that may still follow.
    depth: usize,
}

impl Node<'_> {
    fn deeper<E: Error>(&self) -> Result<usize, E> {
        self.depth.checked_sub(1).ok_or_else(|| {
            self.notes.too_deep.set(true);
            E::custom("too deep")
        })
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number must be finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        self.deserialize(reader)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let depth = self.deeper()?;
        let mut out = Vec::new();
        loop {
            let path = self.path.index(out.len());
            match items.next_element_seed(Node { path: &path, depth, ..self })? {
                Some(item) => out.push(item),
                None => return Ok(Value::Array(out)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let depth = self.deeper()?;
        let mut out = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            let path = self.path.child(&name);
            let value = fields.next_value_seed(Node { path: &path, depth, ..self })?;
            if out.contains_key(&name) {
                let mut duplicates = self.notes.duplicates.borrow_mut();
                if duplicates.len() < MAX_DUPLICATES {
                    duplicates.push(path.to_string());
                }
            }
            out.insert(name, value);
        }
        Ok(Value::Object(out))
    }
}
