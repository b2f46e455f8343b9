//! How apply sees a value: as one leaf, as fields owned one by one, or as elements owned one by one.
//!
//! Where a schema says nothing, the value itself decides: maps are granular, lists are leaves.

use std::sync::OnceLock;

use serde_json::Value;

use crate::managed::PathElement;
use crate::schema::{ListType, MapType, Schema, Type, TypeName};

/// A value's kind. `Map` and `List` are the granular ones only.
#[derive(Clone, Copy)]
pub(super) enum Shape<'a> {
    Leaf,
    Map(Option<&'a Schema>),
    List(&'a Schema),
}

impl Shape<'_> {
    pub(super) fn same_kind(&self, other: &Shape<'_>) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

pub(super) fn shape<'a>(schema: Option<&'a Schema>, value: Option<&Value>) -> Shape<'a> {
    let Some(schema) = schema.filter(|s| s.ty != Type::Any) else {
        return if value.is_some_and(Value::is_object) { Shape::Map(None) } else { Shape::Leaf };
    };
    let fits = |is: fn(&Value) -> bool| value.is_none_or(|v| v.is_null() || is(v));
    if schema.ty == Type::Object && schema.map == MapType::Granular && fits(Value::is_object) {
        Shape::Map(Some(schema))
    } else if schema.ty == Type::Array && !schema.list.is_atomic() && fits(Value::is_array) {
        Shape::List(schema)
    } else {
        Shape::Leaf
    }
}

/// The schema of a field, and whether it is a declared one and not an entry of a map.
pub(super) fn field<'a>(schema: Option<&'a Schema>, name: &str, is_root: bool) -> (Option<&'a Schema>, bool) {
    let Some(schema) = schema else { return (None, false) };
    let declared = schema.property(name).map(|p| p.schema.get());
    if is_root || schema.embedded_resource {
        let plain = declared.is_none_or(|s| s.properties.is_empty());
        match name {
            "metadata" if plain => return (object_meta(), true),
            "apiVersion" | "kind" => return (declared, true),
            _ => {}
        }
    }
    match declared {
        Some(declared) => (Some(declared), true),
        None => (schema.additional.as_ref().map(|values| values.get()), false),
    }
}

fn object_meta() -> Option<&'static Schema> {
    static NAME: OnceLock<Option<TypeName>> = OnceLock::new();
    NAME.get_or_init(|| TypeName::find("meta/v1.ObjectMeta")).map(TypeName::schema)
}

/// What tells an element of a keyed list or a set from the others.
pub(super) fn element(list: &Schema, item: &Value) -> Result<PathElement, String> {
    let ListType::Map { keys } = &list.list else {
        return match item {
            Value::Object(_) => {
                Err("associative list without keys has an element that's a map type".to_owned())
            }
            Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
            Value::Null => {
                Err("associative list without keys has an element that's an explicit null".to_owned())
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(PathElement::Value(item.clone())),
        };
    };
    let Value::Object(fields) = item else {
        let what = if item.is_null() { "a null element" } else { "non-map elements" };
        return Err(format!("associative list with keys may not have {what}"));
    };
    let default = |key: &str| list.item().and_then(|i| i.property(key)).and_then(|p| p.default());
    let mut found: Vec<(String, Value)> = keys
        .iter()
        .filter_map(|key| {
            fields.get(&**key).or_else(|| default(key)).map(|value| (key.to_string(), value.clone()))
        })
        .collect();
    if found.is_empty() {
        return Err(format!(
            "associative list with keys has an element that omits all key fields {keys:?} (and doesn't have default \
             values for any key fields)"
        ));
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(PathElement::Key(found))
}
