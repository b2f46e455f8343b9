//! The rules of structural schemas that concern more than one keyword.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::super::{Schema, SchemaRef, Type};
use crate::field::{FieldError, Path};

/// Keywords of JSON schema that custom resources may not use.
pub(super) fn unsupported(json: &Map<String, Value>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    for name in ["$ref", "id", "definitions", "dependencies", "patternProperties", "additionalItems"] {
        let there = match json.get(name) {
            None | Some(Value::Null) => false,
            Some(Value::Object(fields)) => !fields.is_empty(),
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Bool(_) | Value::Number(_) | Value::Array(_)) => true,
        };
        if there {
            errors.push(FieldError::forbidden(path.child(name), format!("{name} is not supported")));
        }
    }
    if json.get("uniqueItems") == Some(&Value::Bool(true)) {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(path.child("uniqueItems"), detail));
    }
}

/// The metadata of the root may be restricted in name and generateName only.
pub(super) fn metadata(json: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if json.get("type").and_then(Value::as_str) != Some("object") {
        let found = json.get("type").cloned().unwrap_or_else(|| Value::from(""));
        errors.push(FieldError::invalid(path.child("type"), found, "must be object"));
    }
    let properties = json.get("properties").and_then(Value::as_object);
    let others =
        properties.is_some_and(|all| all.keys().any(|name| name != "name" && name != "generateName"));
    let keywords = json.as_object().is_some_and(|all| {
        all.keys().any(|name| !matches!(name.as_str(), "type" | "properties" | "description"))
    });
    if others || keywords {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(FieldError::forbidden(path, detail));
    }
}

/// An embedded resource is an object that names fields or keeps unknown ones.
pub(super) fn embedded(
    json: &Map<String, Value>,
    schema: &Schema,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if schema.ty != Type::Object {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match json.get("type").and_then(Value::as_str) {
            Some(name) => FieldError::invalid(path.child("type"), name, detail),
            None => FieldError::required(path.child("type"), detail),
        });
    }
    if json.get("additionalProperties").is_some_and(|of| !of.is_null()) {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(path.child("additionalProperties"), detail));
    }
    let named = json.get("properties").and_then(Value::as_object).is_some_and(|all| !all.is_empty());
    if !schema.preserve_unknown && !named {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(path.child("properties"), detail));
    }
}

/// `x-kubernetes-list-type` and its keys.
pub(super) fn list_type(
    list: &str,
    keys: &[Arc<str>],
    schema: &Schema,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if !list.is_empty() {
        if !matches!(list, "atomic" | "set" | "map") {
            let at = path.child("x-kubernetes-list-type");
            errors.push(FieldError::not_supported(at, list, ["atomic", "set", "map"]));
        }
        if schema.ty != Type::Array {
            let detail = "must be array if x-kubernetes-list-type is specified";
            errors.push(FieldError::invalid(path.child("type"), type_text(schema.ty), detail));
        }
    }
    let at = path.child("x-kubernetes-list-map-keys");
    if list != "map" {
        if !keys.is_empty() {
            let detail = "must be empty if x-kubernetes-list-type is not map";
            errors.push(FieldError::invalid(at, keys_value(keys), detail));
        }
        return;
    }
    if keys.is_empty() {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        errors.push(FieldError::required(at, detail));
    }
    let Some(item) = schema.item() else { return };
    if item.ty != Type::Object {
        let at = path.child("items");
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(at.child("type"), type_text(item.ty), detail));
        return;
    }
    if keys.iter().any(|key| item.property(key).is_none()) {
        errors.push(FieldError::invalid(at, keys_value(keys), "must all be names of item properties"));
    }
    list_keys(keys, item, path, errors);
}

fn list_keys(keys: &[Arc<str>], item: &Schema, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let items = path.child("items");
    let properties = items.child("properties");
    for (at, key) in keys.iter().enumerate() {
        if keys[..at].contains(key) {
            let list = path.child("x-kubernetes-list-map-keys");
            errors.push(FieldError::duplicate(list.index(at), &**key));
        }
        let Some(property) = item.property(key) else { continue };
        let schema = property.schema.get();
        let here = properties.key(key);
        if matches!(schema.ty, Type::Array | Type::Object) {
            let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            errors.push(FieldError::invalid(here.child("type"), type_text(schema.ty), detail));
        }
        if schema.nullable {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(here.child("nullable"), detail));
        }
        if property.default().is_none() && !item.required.contains(key) {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(FieldError::required(here.child("default"), detail));
        }
    }
}

/// `x-kubernetes-map-type`.
pub(super) fn map_type(map: &str, schema: &Schema, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if map.is_empty() {
        return;
    }
    if !matches!(map, "atomic" | "granular") {
        let at = path.child("x-kubernetes-map-type");
        errors.push(FieldError::not_supported(at, map, ["atomic", "granular"]));
    }
    if schema.ty != Type::Object {
        let detail = "must be object if x-kubernetes-map-type is specified";
        errors.push(FieldError::invalid(path.child("type"), type_text(schema.ty), detail));
    }
}

fn keys_value(keys: &[Arc<str>]) -> Value {
    keys.iter().map(|key| Value::from(&**key)).collect()
}

fn type_text(ty: Type) -> &'static str {
    match ty {
        Type::Any | Type::IntOrString => "",
        Type::Boolean => "boolean",
        Type::Integer => "integer",
        Type::Number => "number",
        Type::String => "string",
        Type::Object => "object",
        Type::Array => "array",
    }
}

/// Every field that a junctor speaks of is described outside of it as well.
pub(super) fn complete(schema: &Schema, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let Some(limits) = &schema.constraints else { return };
    let lists = [("allOf", &limits.all_of), ("anyOf", &limits.any_of), ("oneOf", &limits.one_of)];
    for (name, nested) in lists {
        let here = path.child(name);
        for (at, nested) in nested.iter().enumerate() {
            covered(schema, nested, path, &here.index(at), errors);
        }
    }
    if let Some(not) = &limits.not {
        covered(schema, not, path, &path.child("not"), errors);
    }
}

fn covered(
    outer: &Schema,
    nested: &Schema,
    path: &Path<'_>,
    nested_path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if outer.additional.is_some() {
        return;
    }
    for (name, property) in &nested.properties {
        let (properties, inner) = (path.child("properties"), nested_path.child("properties"));
        let (here, there) = (properties.key(name), inner.key(name));
        match outer.property(name) {
            Some(known) => covered(known.schema.get(), property.schema.get(), &here, &there, errors),
            None => errors.push(FieldError::required(here, format!("because it is defined in {there}"))),
        }
    }
    if let Some(items) = nested.item() {
        let (here, there) = (path.child("items"), nested_path.child("items"));
        match outer.item() {
            Some(known) => covered(known, items, &here, &there, errors),
            None => errors.push(FieldError::required(here, format!("because it is defined in {there}"))),
        }
    }
}

/// Every default fits its own schema and has no field that would be pruned.
pub(super) fn defaults(schema: &Schema, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if let Some(default) = &schema.default {
        let at = path.child("default");
        let mut pruned = (**default).clone();
        crate::decode::prune(schema, &mut pruned);
        if pruned != **default {
            errors.push(FieldError::invalid(at, (**default).clone(), "must not have unknown fields"));
        }
        let mut filled = (**default).clone();
        crate::defaults::apply(schema, &mut filled);
        errors.extend(crate::validate::structural(schema, &filled, &at));
    }
    let properties = path.child("properties");
    for (name, property) in &schema.properties {
        if let SchemaRef::Inline(schema) = &property.schema {
            defaults(schema, &properties.key(name), errors);
        }
    }
    for (name, of) in [("additionalProperties", &schema.additional), ("items", &schema.items)] {
        if let Some(SchemaRef::Inline(schema)) = of {
            defaults(schema, &path.child(name), errors);
        }
    }
}
