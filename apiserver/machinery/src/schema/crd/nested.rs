//! Schemas under `allOf`, `anyOf`, `oneOf` and `not`: they limit values and describe no structure.

use serde_json::{Map, Value, json};

use super::super::{Constraints, Property, Schema, Type};
use super::{Reader, flag, strings, text};
use crate::field::{FieldError, Path};

impl Reader {
    pub(super) fn junctors(
        &mut self,
        json: &Map<String, Value>,
        path: &Path<'_>,
        int_or_string: bool,
        limits: &mut Constraints,
    ) {
        let list = |name: &str| json.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        // `anyOf: [{type: integer}, {type: string}]` only repeats what int-or-string says.
        if !(int_or_string && is_int_or_string(list("anyOf"))) {
            limits.any_of = self.nested_list(list("anyOf"), "anyOf", path);
        }
        let all = list("allOf");
        let repeated = all.first().and_then(|first| first.get("anyOf")).and_then(Value::as_array);
        let skip = int_or_string && repeated.is_some_and(|any| is_int_or_string(any));
        limits.all_of = if skip {
            let rest: Vec<Value> = all.iter().skip(1).cloned().collect();
            self.nested_list(&rest, "allOf", path)
        } else {
            self.nested_list(all, "allOf", path)
        };
        limits.one_of = self.nested_list(list("oneOf"), "oneOf", path);
        if let Some(not) = json.get("not").filter(|not| !not.is_null()) {
            limits.not = Some(Box::new(self.nested(not, &path.child("not"))));
        }
    }

    fn nested_list(&mut self, schemas: &[Value], name: &str, path: &Path<'_>) -> Vec<Schema> {
        let here = path.child(name);
        schemas.iter().enumerate().map(|(at, schema)| self.nested(schema, &here.index(at))).collect()
    }

    fn nested(&mut self, json: &Value, path: &Path<'_>) -> Schema {
        let Some(json) = json.as_object() else { return Schema::default() };
        self.forbid(json, path);
        let mut schema = Schema {
            format: text(json, "format"),
            required: strings(json, "required"),
            preserve_unknown: true,
            ..Schema::default()
        };
        if let Some(properties) = json.get("properties").and_then(Value::as_object) {
            let here = path.child("properties");
            for (name, property) in properties {
                let property = self.nested(property, &here.key(name));
                schema.properties.insert(name.as_str().into(), Property::custom(property));
            }
            if properties.contains_key("metadata") {
                let detail = "must not be specified in a nested context";
                self.errors.push(FieldError::forbidden(here.key("metadata"), detail));
            }
        }
        if let Some(items) = json.get("items").filter(|items| items.is_object()) {
            schema.items = Some(self.nested(items, &path.child("items")).into());
        }
        schema.constraints = self.constraints(json, path, false);
        schema.ty = Type::Any;
        schema
    }

    fn forbid(&mut self, json: &Map<String, Value>, path: &Path<'_>) {
        let empty = "must be empty to be structural";
        let undefined = "must be undefined to be structural";
        let falsy = "must be false to be structural";
        let there = |name: &str| json.get(name).is_some_and(|value| !value.is_null());
        let rules = [
            ("type", empty, there("type")),
            ("additionalProperties", undefined, there("additionalProperties")),
            ("default", undefined, there("default")),
            ("title", empty, there("title")),
            ("description", empty, there("description")),
            ("nullable", falsy, flag(json, "nullable")),
            (
                "x-kubernetes-preserve-unknown-fields",
                falsy,
                flag(json, "x-kubernetes-preserve-unknown-fields"),
            ),
            ("x-kubernetes-embedded-resource", falsy, flag(json, "x-kubernetes-embedded-resource")),
            ("x-kubernetes-int-or-string", falsy, flag(json, "x-kubernetes-int-or-string")),
            ("x-kubernetes-list-map-keys", empty, there("x-kubernetes-list-map-keys")),
            ("x-kubernetes-list-type", undefined, there("x-kubernetes-list-type")),
            ("x-kubernetes-map-type", undefined, there("x-kubernetes-map-type")),
            ("x-kubernetes-validations", empty, there("x-kubernetes-validations")),
        ];
        let broken = rules.into_iter().filter(|(.., broken)| *broken);
        self.errors.extend(broken.map(|(name, detail, _)| FieldError::forbidden(path.child(name), detail)));
    }
}

fn is_int_or_string(any: &[Value]) -> bool {
    any == [json!({"type": "integer"}), json!({"type": "string"})]
}
