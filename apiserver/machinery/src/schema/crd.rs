//! Schemas of custom resources: read from the `openAPIV3Schema` of a definition, with the rules that make a schema
//! structural, and the words of kube-apiserver where it is not.

mod check;
mod keywords;
mod nested;

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{ListType, MapType, Property, Rule, Schema, SchemaRef, Type, TypeName};
use crate::field::{FieldError, Path};

/// Reads a schema; errors name paths from `openAPIV3Schema` on.
pub fn from_crd(json_schema: &Value) -> Result<Schema, Vec<FieldError>> {
    from_crd_at(json_schema, &Path::new("openAPIV3Schema"))
}

/// The same, with errors at `path`.
pub fn from_crd_at(json_schema: &Value, path: &Path<'_>) -> Result<Schema, Vec<FieldError>> {
    let mut reader = Reader { errors: Vec::new() };
    let mut schema = reader.schema(json_schema, path, Level::Root);
    implied_fields(&mut schema);
    if reader.errors.is_empty() {
        check::defaults(&schema, path, &mut reader.errors);
    }
    reader.errors.sort_by_cached_key(ToString::to_string);
    if reader.errors.is_empty() { Ok(schema) } else { Err(reader.errors) }
}

/// Every object has `apiVersion`, `kind` and `metadata`, whether its schema says so or not.
fn implied_fields(schema: &mut Schema) {
    for name in ["apiVersion", "kind"] {
        let text = Schema::of(Type::String);
        schema.properties.entry(name.into()).or_insert_with(|| Property::custom(text));
    }
    let Some(meta) = TypeName::find("meta/v1.ObjectMeta") else { return };
    let mut property = Property { schema: SchemaRef::Type(meta), ..Property::custom(Schema::default()) };
    if let Some(given) = schema.properties.get("metadata") {
        let given = given.schema.get();
        if !given.properties.is_empty() {
            let mut merged = meta.schema().clone();
            for (name, restriction) in &given.properties {
                merged.properties.insert(name.clone(), restriction.clone());
            }
            property.schema = merged.into();
        }
    }
    schema.properties.insert("metadata".into(), property);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Field,
    Item,
}

struct Reader {
    errors: Vec<FieldError>,
}

impl Reader {
    /// A schema outside of any `allOf`, `anyOf`, `oneOf` and `not`.
    fn schema(&mut self, json: &Value, path: &Path<'_>, level: Level) -> Schema {
        let Some(json) = json.as_object() else {
            self.errors.push(FieldError::required(path, "schemas are required"));
            return Schema::default();
        };
        let mut schema = Schema { ty: self.type_of(json, path, level), ..Schema::default() };
        self.extensions(json, path, &mut schema);
        schema.nullable = flag(json, "nullable");
        schema.format = text(json, "format");
        schema.description = text(json, "description");
        schema.default = json.get("default").filter(|value| !value.is_null()).cloned().map(Arc::new);
        schema.required = strings(json, "required");
        self.structure(json, path, level, &mut schema);
        self.lists_and_maps(json, path, &mut schema);
        schema.rules = rules(json);
        schema.constraints = self.constraints(json, path, schema.ty == Type::IntOrString);
        check::unsupported(json, path, &mut self.errors);
        check::complete(&schema, path, &mut self.errors);
        schema
    }

    fn type_of(&mut self, json: &Map<String, Value>, path: &Path<'_>, level: Level) -> Type {
        let name = json.get("type").and_then(Value::as_str).unwrap_or("");
        if level == Level::Root && !name.is_empty() && name != "object" {
            self.errors.push(FieldError::invalid(path.child("type"), name, "must be object at the root"));
        }
        if flag(json, "x-kubernetes-int-or-string") {
            if !name.is_empty() {
                let detail = "must be empty if x-kubernetes-int-or-string is true";
                self.errors.push(FieldError::invalid(path.child("type"), name, detail));
            }
            return Type::IntOrString;
        }
        match name {
            "object" => Type::Object,
            "array" => Type::Array,
            "string" => Type::String,
            "integer" => Type::Integer,
            "number" => Type::Number,
            "boolean" => Type::Boolean,
            "" => {
                let detail = match level {
                    Level::Root => "must not be empty at the root",
                    Level::Item => "must not be empty for specified array items",
                    Level::Field => "must not be empty for specified object fields",
                };
                if !flag(json, "x-kubernetes-preserve-unknown-fields") {
                    self.errors.push(FieldError::required(path.child("type"), detail));
                }
                Type::Any
            }
            other => {
                let known = ["array", "boolean", "integer", "number", "object", "string"];
                self.errors.push(FieldError::not_supported(path.child("type"), other, known));
                Type::Any
            }
        }
    }

    fn extensions(&mut self, json: &Map<String, Value>, path: &Path<'_>, schema: &mut Schema) {
        const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
        const EMBEDDED: &str = "x-kubernetes-embedded-resource";
        if json.get(PRESERVE) == Some(&Value::Bool(false)) {
            self.errors.push(FieldError::invalid(path.child(PRESERVE), false, "must be true or undefined"));
        }
        schema.preserve_unknown = flag(json, PRESERVE);
        schema.embedded_resource = flag(json, EMBEDDED);
        if schema.ty == Type::IntOrString {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            for (name, set) in [(PRESERVE, schema.preserve_unknown), (EMBEDDED, schema.embedded_resource)] {
                if set {
                    self.errors.push(FieldError::invalid(path.child(name), true, detail));
                }
            }
        } else if schema.embedded_resource {
            check::embedded(json, schema, path, &mut self.errors);
        }
    }

    fn structure(&mut self, json: &Map<String, Value>, path: &Path<'_>, level: Level, schema: &mut Schema) {
        if let Some(properties) = json.get("properties").and_then(Value::as_object) {
            let here = path.child("properties");
            for (name, property) in properties {
                let at = here.key(name);
                if level == Level::Root && name == "metadata" {
                    check::metadata(property, &at, &mut self.errors);
                }
                let property = self.schema(property, &at, Level::Field);
                schema.properties.insert(name.as_str().into(), Property::custom(property));
            }
        }
        match json.get("additionalProperties") {
            None | Some(Value::Null) => {}
            Some(Value::Bool(allowed)) => {
                self.additional_allowed(path, level, schema);
                if *allowed {
                    schema.additional = Some(Schema::anything().clone().into());
                }
            }
            Some(of) => {
                self.additional_allowed(path, level, schema);
                let of = self.schema(of, &path.child("additionalProperties"), Level::Field);
                schema.additional = Some(of.into());
            }
        }
        match json.get("items") {
            None | Some(Value::Null) if schema.ty == Type::Array => {
                self.errors.push(FieldError::required(path.child("items"), "must be specified"));
            }
            None | Some(Value::Null) => {}
            Some(Value::Array(_)) => {
                let detail = "items must be a schema object and not an array";
                self.errors.push(FieldError::forbidden(path.child("items"), detail));
            }
            Some(of) => {
                let of = self.schema(of, &path.child("items"), Level::Item);
                schema.items = Some(of.into());
            }
        }
    }

    fn additional_allowed(&mut self, path: &Path<'_>, level: Level, schema: &Schema) {
        let at = path.child("additionalProperties");
        if level == Level::Root {
            self.errors.push(FieldError::forbidden(at, "must not be used at the root"));
        } else if !schema.properties.is_empty() {
            let detail = "additionalProperties and properties are mutual exclusive";
            self.errors.push(FieldError::forbidden(at, detail));
        }
    }

    fn lists_and_maps(&mut self, json: &Map<String, Value>, path: &Path<'_>, schema: &mut Schema) {
        let keys = strings(json, "x-kubernetes-list-map-keys");
        let name = |key: &str| json.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
        let (list, map) = (name("x-kubernetes-list-type"), name("x-kubernetes-map-type"));
        check::list_type(&list, &keys, schema, path, &mut self.errors);
        check::map_type(&map, schema, path, &mut self.errors);
        schema.list = match list.as_str() {
            "set" => ListType::Set,
            "map" => ListType::Map { keys: keys.into() },
            "atomic" => ListType::Atomic,
            _ => ListType::Unsaid,
        };
        schema.map = if map == "atomic" { MapType::Atomic } else { MapType::Granular };
    }
}

fn flag(json: &Map<String, Value>, name: &str) -> bool {
    json.get(name).and_then(Value::as_bool).unwrap_or(false)
}

fn text(json: &Map<String, Value>, name: &str) -> Option<Arc<str>> {
    json.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(Arc::from)
}

fn strings(json: &Map<String, Value>, name: &str) -> Vec<Arc<str>> {
    let items = json.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    items.iter().filter_map(Value::as_str).map(Arc::from).collect()
}

fn rules(json: &Map<String, Value>) -> Vec<Rule> {
    let rules = json.get("x-kubernetes-validations").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let one = |rule: &Map<String, Value>| Rule {
        rule: text(rule, "rule").unwrap_or_default(),
        message: text(rule, "message"),
        message_expression: text(rule, "messageExpression"),
        reason: text(rule, "reason"),
        field_path: text(rule, "fieldPath"),
        optional_old_self: flag(rule, "optionalOldSelf"),
    };
    rules.iter().filter_map(Value::as_object).map(one).collect()
}

#[cfg(test)]
mod tests;
