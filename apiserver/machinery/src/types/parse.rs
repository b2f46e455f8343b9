//! Reads one type of the table into a [`Schema`].

use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::describe;
use crate::schema::{
    Constraints, Inlined, ListType, MapType, Patch, Property, Schema, SchemaRef, Type, TypeName, Wire, Zero,
};

/// A type from its line and the lines of its fields.
pub(super) fn schema(name: &str, flags: &str, fields: &str) -> Schema {
    let mut schema = Schema::of(Type::Object);
    for flag in flags.split(' ') {
        if flag == "atomic" {
            schema.map = MapType::Atomic;
        }
    }
    schema.description = describe::kind(name);
    schema.defaulting = crate::defaults::rules(name);
    for line in fields.lines() {
        let mut words = line.trim_start().splitn(4, ' ');
        let (Some(field), Some(number), Some(ty)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let number = number.parse().unwrap_or(0);
        if field == "+" {
            inline(&mut schema, number, ty);
        } else {
            let flags = Flags::read(words.next().unwrap_or(""));
            if flags.required {
                schema.required.push(field.into());
            }
            schema.properties.insert(field.into(), flags.property(name, field, number, ty));
        }
    }
    schema
}

/// The fields of the inlined type become fields of the outer one, without a number of their own.
fn inline(schema: &mut Schema, number: u32, ty: &str) {
    let Some(ty) = TypeName::find(ty) else { return };
    let inner = ty.schema();
    for (name, property) in &inner.properties {
        schema.properties.insert(name.clone(), Property { number: 0, ..property.clone() });
    }
    schema.required.extend(inner.required.iter().cloned());
    schema.defaulting.extend(inner.defaulting.iter().cloned());
    if number > 0 {
        schema.inlined.push(Inlined { number, ty });
    }
}

/// The words behind the type of a field.
#[derive(Default)]
struct Flags<'a> {
    required: bool,
    zero: Zero,
    list: Option<ListType>,
    map: Option<MapType>,
    merge_key: Option<&'a str>,
    strategy: Option<&'a str>,
    default: Option<Value>,
    enumeration: Vec<Value>,
}

impl<'a> Flags<'a> {
    fn read(text: &'a str) -> Self {
        let mut flags = Self::default();
        for word in text.split(' ') {
            match word.split_once('=').unwrap_or((word, "")) {
                ("r", _) => flags.required = true,
                ("z", _) => flags.zero = Zero::Absent,
                ("mt", "atomic") => flags.map = Some(MapType::Atomic),
                ("mt", _) => flags.map = Some(MapType::Granular),
                ("lt", "set") => flags.list = Some(ListType::Set),
                ("lt", kind) => {
                    let keys = kind.strip_prefix("map:").unwrap_or("");
                    if !keys.is_empty() {
                        flags.list = Some(ListType::Map { keys: keys.split(',').map(Arc::from).collect() });
                    }
                }
                ("mk", key) => flags.merge_key = Some(key),
                ("ps", strategy) => flags.strategy = Some(strategy),
                ("d", json) => flags.default = serde_json::from_str(json).ok(),
                ("e", values) => flags.enumeration = values.split('|').map(Value::from).collect(),
                _ => {}
            }
        }
        flags
    }

    fn property(mut self, owner: &str, field: &str, number: u32, ty: &str) -> Property {
        let patch = self.patch();
        if self.required && self.default.is_none() && !is_message(ty) {
            self.zero = Zero::Written;
        }
        let reference = self.typed(ty);
        Property {
            schema: reference,
            number,
            zero: self.zero,
            patch,
            default: self.default.map(Arc::new),
            description: describe::field(owner, field),
        }
    }

    fn patch(&self) -> Option<Arc<Patch>> {
        if self.merge_key.is_none() && self.strategy.is_none() {
            return None;
        }
        let has = |wanted: &str| self.strategy.is_some_and(|all| all.split(',').any(|one| one == wanted));
        Some(Arc::new(Patch {
            merge_key: self.merge_key.map(Arc::from),
            merge: has("merge"),
            replace: has("replace"),
            retain_keys: has("retainKeys"),
        }))
    }

    /// The type with what the field adds to it: list type, map type, enum.
    fn typed(&self, ty: &str) -> SchemaRef {
        let reference = type_of(ty);
        if self.list.is_none() && self.map.is_none() && self.enumeration.is_empty() {
            return reference;
        }
        let mut schema = reference.get().clone();
        if let Some(list) = &self.list {
            schema.list = list.clone();
        }
        if let Some(map) = self.map {
            schema.map = map;
        }
        if !self.enumeration.is_empty() {
            let constraints = Constraints { enumeration: self.enumeration.clone(), ..Constraints::default() };
            schema.constraints = Some(Box::new(constraints));
        }
        schema.into()
    }
}

/// Whether a value of the type is an object of its own: a pointer where it is required, or anything at all.
fn is_message(ty: &str) -> bool {
    let free = matches!(
        ty,
        "any" | "json" | "object" | "raw" | "schemaOrArray" | "schemaOrBool" | "schemaOrStrings"
    );
    free || TypeName::find(ty).is_some()
}

/// A type expression: `[T]` a list, `{T}` a map, `~[T]` a list in a message of its own, a scalar, or a type's name.
fn type_of(text: &str) -> SchemaRef {
    if let Some(inner) = text.strip_prefix("~[").and_then(|rest| rest.strip_suffix(']')) {
        return Schema { wire: Wire::ItemsMessage, ..list_of(inner) }.into();
    }
    if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return list_of(inner).into();
    }
    if let Some(inner) = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        return Schema { additional: Some(type_of(inner)), ..Schema::of(Type::Object) }.into();
    }
    match SCALARS.iter().position(|(name, ..)| *name == text) {
        Some(place) => SchemaRef::Inline(scalars()[place].clone()),
        None => TypeName::find(text)
            .map_or_else(|| Schema { preserve_unknown: true, ..Schema::default() }.into(), SchemaRef::Type),
    }
}

fn list_of(item: &str) -> Schema {
    Schema { items: Some(type_of(item)), list: ListType::Atomic, ..Schema::of(Type::Array) }
}

/// Names of scalars in the table: JSON type, form in protobuf, format.
const SCALARS: [(&str, Type, Wire, &str); 19] = [
    ("string", Type::String, Wire::Plain, ""),
    ("bool", Type::Boolean, Wire::Plain, ""),
    ("int32", Type::Integer, Wire::Plain, "int32"),
    ("int64", Type::Integer, Wire::Plain, "int64"),
    ("float64", Type::Number, Wire::Double, "double"),
    ("bytes", Type::String, Wire::Bytes, "byte"),
    ("time", Type::String, Wire::Time, "date-time"),
    ("microtime", Type::String, Wire::MicroTime, "date-time"),
    ("duration", Type::String, Wire::Duration, ""),
    ("quantity", Type::IntOrString, Wire::Quantity, "quantity"),
    ("intstr", Type::IntOrString, Wire::IntOrString, "int-or-string"),
    ("raw", Type::Object, Wire::RawExtension, ""),
    ("fieldsv1", Type::Object, Wire::RawJson, ""),
    ("json", Type::Any, Wire::RawJson, ""),
    ("schemaOrArray", Type::Any, Wire::SchemaOrArray, ""),
    ("schemaOrBool", Type::Any, Wire::SchemaOrBool, ""),
    ("schemaOrStrings", Type::Any, Wire::SchemaOrStrings, ""),
    ("object", Type::Object, Wire::Plain, ""),
    ("any", Type::Any, Wire::Plain, ""),
];

/// One shared schema for each scalar.
fn scalars() -> &'static [Arc<Schema>] {
    static SHARED: OnceLock<Vec<Arc<Schema>>> = OnceLock::new();
    SHARED.get_or_init(|| {
        let one = |&(_, ty, wire, format): &(&str, Type, Wire, &str)| {
            Arc::new(Schema {
                wire,
                format: (!format.is_empty()).then(|| format.into()),
                preserve_unknown: matches!(ty, Type::Any)
                    || matches!(wire, Wire::RawExtension | Wire::RawJson),
                map: if wire == Wire::RawJson { MapType::Atomic } else { MapType::Granular },
                ..Schema::of(ty)
            })
        };
        SCALARS.iter().map(one).collect()
    })
}
