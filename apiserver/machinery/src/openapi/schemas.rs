//! The schemas of a document: every type that its resources reach.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::dialect::Dialect;
use super::names::{list_name, model_name, resource_name, wire_name};
use crate::resource::Resource;
use crate::schema::{
    Constraints, ListType, MapType, Patch, Property, Schema, SchemaRef, Type, TypeName, Wire,
};
use crate::types;

/// Types that paths mention whatever their resource is.
const ALWAYS: [&str; 4] =
    ["meta/v1.DeleteOptions", "meta/v1.Status", "meta/v1.ObjectMeta", "meta/v1.ListMeta"];
/// The body of a patch.
pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

pub(super) struct Schemas {
    dialect: Dialect,
    done: BTreeMap<String, Value>,
    waiting: Vec<TypeName>,
}

impl Schemas {
    pub(super) fn new(dialect: Dialect) -> Self {
        let mut schemas = Self { dialect, done: BTreeMap::new(), waiting: Vec::new() };
        schemas.waiting.extend(ALWAYS.iter().filter_map(|name| TypeName::find(name)));
        let patch =
            json!({"type": "object", "description": "A patch in one of the formats of its content type."});
        schemas.done.insert(PATCH.to_owned(), patch);
        schemas
    }

    /// Everything, the types that are still waited for included.
    pub(super) fn finish(mut self) -> Map<String, Value> {
        while let Some(ty) = self.waiting.pop() {
            let name = model_name(ty.as_str());
            if !self.done.contains_key(&name) {
                self.done.insert(name.clone(), Value::Null);
                let schema = self.object(ty.schema());
                self.done.insert(name, schema);
            }
        }
        self.done.into_iter().collect()
    }

    /// The schemas of a resource, of a list of it and of its subresources.
    pub(super) fn add_resource(&mut self, resource: &Resource) {
        let name = resource_name(resource);
        let mut schema = match &resource.schema {
            SchemaRef::Type(ty) => self.object(ty.schema()),
            SchemaRef::Inline(schema) => self.custom(schema),
        };
        let gvk = |kind: &str| json!([{"group": resource.group, "version": resource.version, "kind": kind}]);
        schema["x-kubernetes-group-version-kind"] = gvk(&resource.kind);
        if !resource.field_selectors.is_empty() && resource.custom {
            let fields = resource.field_selectors.iter().map(|field| json!({"fieldPath": field.label}));
            schema["x-kubernetes-selectable-fields"] = fields.collect();
        }
        self.done.insert(name.clone(), schema);
        if resource.has_verb("list") {
            let mut list = self.list(&name, resource);
            list["x-kubernetes-group-version-kind"] = gvk(&resource.list_kind);
            self.done.insert(list_name(resource), list);
        }
        for sub in &resource.subresources {
            if let Some(ty) = sub.schema {
                let name = model_name(ty.as_str());
                if !self.done.contains_key(&name) {
                    let mut schema = self.object(ty.schema());
                    schema["x-kubernetes-group-version-kind"] =
                        json!([{"group": sub.group, "version": sub.version, "kind": sub.kind}]);
                    self.done.insert(name, schema);
                }
            }
        }
    }

    fn list(&mut self, item: &str, resource: &Resource) -> Value {
        self.waiting.extend(TypeName::find("meta/v1.ListMeta"));
        json!({
            "type": "object", "required": ["items"],
            "description": format!("{} is a list of {}.", resource.list_kind, resource.kind),
            "properties": {
                "apiVersion": described("apiVersion"),
                "kind": described("kind"),
                "metadata": self.dialect.reference("io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"),
                "items": {"type": "array", "items": self.dialect.reference(item)},
            },
        })
    }

    fn custom(&mut self, schema: &Schema) -> Value {
        if self.dialect == Dialect::V2 && schema.preserve_unknown {
            return json!({"type": "object"});
        }
        let mut out = self.object(schema);
        self.identify(&mut out["properties"]);
        out
    }

    /// Adds what every object has to the properties of one.
    fn identify(&self, properties: &mut Value) {
        for name in ["apiVersion", "kind"] {
            properties[name] = described(name);
        }
        let name = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
        properties["metadata"] = self.dialect.extended_reference(name);
        properties["metadata"]["description"] = json!(types::description("metadata"));
    }

    fn property(&mut self, property: &Property) -> Value {
        let said = property.default().is_some() || property.patch.is_some() || property.description.is_some();
        let mut out = match self.named(&property.schema) {
            Some(name) if said => self.dialect.extended_reference(&name),
            Some(name) => self.dialect.reference(&name),
            None => self.object(property.schema.get()),
        };
        if let Some(description) = &property.description {
            out["description"] = json!(description);
        }
        if let Some(default) = property.default() {
            out["default"] = default.clone();
        }
        if let Some(patch) = &property.patch {
            patch_extensions(patch, &mut out);
        }
        out
    }

    /// The name to refer to, when the type has one.
    fn named(&mut self, reference: &SchemaRef) -> Option<String> {
        match reference {
            SchemaRef::Type(ty) => {
                self.waiting.push(*ty);
                Some(model_name(ty.as_str()))
            }
            SchemaRef::Inline(schema) => {
                let name = wire_name(schema.wire)?;
                if !self.done.contains_key(name) {
                    let schema = scalar(schema.wire, self.dialect);
                    self.done.insert(name.to_owned(), schema);
                }
                Some(name.to_owned())
            }
        }
    }

    fn reference(&mut self, reference: &SchemaRef) -> Value {
        match self.named(reference) {
            Some(name) => self.dialect.reference(&name),
            None => self.object(reference.get()),
        }
    }

    fn object(&mut self, schema: &Schema) -> Value {
        let mut out = Map::new();
        let v2 = self.dialect == Dialect::V2;
        if let Some(description) = &schema.description {
            out.insert("description".into(), json!(description));
        }
        // Version 2 cannot say that null is a value: it says nothing of the value then.
        let silent = v2 && schema.nullable;
        if let Some(ty) = type_name(schema.ty).filter(|_| !silent) {
            out.insert("type".into(), json!(ty));
        }
        if let Some(format) = &schema.format {
            out.insert("format".into(), json!(format));
        }
        if let Some(default) = schema.default.as_deref().filter(|_| !v2) {
            out.insert("default".into(), default.clone());
        }
        let open = v2 && (schema.preserve_unknown || silent);
        if !open {
            self.structure(schema, &mut out);
        }
        extensions(schema, v2, &mut out);
        if let Some(limits) = &schema.constraints {
            self.limits(limits, &mut out);
        }
        Value::Object(out)
    }

    fn structure(&mut self, schema: &Schema, out: &mut Map<String, Value>) {
        if !schema.properties.is_empty() {
            let mut properties = Map::new();
            for (name, property) in &schema.properties {
                let value = self.property(property);
                properties.insert(name.to_string(), value);
            }
            out.insert("properties".into(), Value::Object(properties));
        }
        if schema.embedded_resource {
            self.identify(out.entry("properties").or_insert_with(|| json!({})));
        }
        if !schema.required.is_empty() {
            out.insert("required".into(), json!(schema.required));
        }
        if let Some(items) = &schema.items {
            let items = self.reference(items);
            out.insert("items".into(), items);
        }
        if let Some(values) = &schema.additional {
            let values = self.reference(values);
            out.insert("additionalProperties".into(), values);
        }
    }

    fn limits(&mut self, limits: &Constraints, out: &mut Map<String, Value>) {
        let numbers =
            [("minimum", &limits.minimum), ("maximum", &limits.maximum), ("multipleOf", &limits.multiple_of)];
        for (name, number) in numbers {
            if let Some(number) = number {
                out.insert(name.into(), Value::Number(number.clone()));
            }
        }
        let counts = [
            ("minLength", limits.min_length),
            ("maxLength", limits.max_length),
            ("minItems", limits.min_items),
            ("maxItems", limits.max_items),
            ("minProperties", limits.min_properties),
            ("maxProperties", limits.max_properties),
        ];
        for (name, count) in counts {
            if let Some(count) = count {
                out.insert(name.into(), json!(count));
            }
        }
        let flags = [
            ("exclusiveMinimum", limits.exclusive_minimum),
            ("exclusiveMaximum", limits.exclusive_maximum),
            ("uniqueItems", limits.unique_items),
        ];
        for (name, _) in flags.into_iter().filter(|(_, set)| *set) {
            out.insert(name.into(), json!(true));
        }
        if let Some(pattern) = &limits.pattern {
            out.insert("pattern".into(), json!(pattern.text));
        }
        if !limits.enumeration.is_empty() {
            out.insert("enum".into(), json!(limits.enumeration));
        }
        if self.dialect == Dialect::V2 {
            return;
        }
        let junctors = [("allOf", &limits.all_of), ("anyOf", &limits.any_of), ("oneOf", &limits.one_of)];
        for (name, nested) in junctors {
            if !nested.is_empty() {
                let nested = nested.iter().map(|schema| self.nested(schema)).collect();
                out.insert(name.into(), Value::Array(nested));
            }
        }
        if let Some(not) = &limits.not {
            let not = self.nested(not);
            out.insert("not".into(), not);
        }
    }

    /// A schema under a junctor says nothing of unknown fields.
    fn nested(&mut self, schema: &Schema) -> Value {
        let mut out = self.object(schema);
        if let Value::Object(fields) = &mut out {
            fields.remove("x-kubernetes-preserve-unknown-fields");
            if let Some(Value::Object(properties)) = fields.get_mut("properties") {
                for property in properties.values_mut().filter_map(Value::as_object_mut) {
                    property.remove("x-kubernetes-preserve-unknown-fields");
                }
            }
        }
        out
    }
}

/// A text of the object itself.
fn described(field: &str) -> Value {
    json!({"type": "string", "description": types::description(field)})
}

fn type_name(ty: Type) -> Option<&'static str> {
    Some(match ty {
        Type::Any | Type::IntOrString => return None,
        Type::Boolean => "boolean",
        Type::Integer => "integer",
        Type::Number => "number",
        Type::String => "string",
        Type::Object => "object",
        Type::Array => "array",
    })
}

fn scalar(wire: Wire, dialect: Dialect) -> Value {
    let time = || json!({"type": "string", "format": "date-time"});
    match (wire, dialect) {
        (Wire::Time | Wire::MicroTime, _) => time(),
        (Wire::Quantity, Dialect::V2) => json!({"type": "string"}),
        (Wire::Quantity, Dialect::V3) => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        (Wire::IntOrString, Dialect::V2) => json!({"type": "string", "format": "int-or-string"}),
        (Wire::IntOrString, Dialect::V3) => {
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
        }
        (Wire::RawExtension, _) => json!({"type": "object"}),
        _ => json!({}),
    }
}

fn patch_extensions(patch: &Patch, out: &mut Value) {
    if let Some(key) = &patch.merge_key {
        out["x-kubernetes-patch-merge-key"] = json!(key);
    }
    let strategies = [("merge", patch.merge), ("replace", patch.replace), ("retainKeys", patch.retain_keys)];
    let named: Vec<&str> = strategies.into_iter().filter(|(_, set)| *set).map(|(name, _)| name).collect();
    if !named.is_empty() {
        out["x-kubernetes-patch-strategy"] = json!(named.join(","));
    }
}

fn extensions(schema: &Schema, v2: bool, out: &mut Map<String, Value>) {
    let list = match &schema.list {
        ListType::Unsaid => None,
        ListType::Atomic => Some("atomic"),
        ListType::Set => Some("set"),
        ListType::Map { keys } => {
            out.insert("x-kubernetes-list-map-keys".into(), json!(&**keys));
            Some("map")
        }
    };
    if let Some(name) = list {
        out.insert("x-kubernetes-list-type".into(), json!(name));
    }
    if schema.map == MapType::Atomic {
        out.insert("x-kubernetes-map-type".into(), json!("atomic"));
    }
    let flags = [
        ("x-kubernetes-preserve-unknown-fields", schema.preserve_unknown),
        ("x-kubernetes-embedded-resource", schema.embedded_resource),
        ("x-kubernetes-int-or-string", schema.ty == Type::IntOrString),
        ("nullable", schema.nullable && !v2),
    ];
    for (name, _) in flags.into_iter().filter(|(_, set)| *set) {
        out.insert(name.into(), json!(true));
    }
    if !schema.rules.is_empty() {
        let rules = schema.rules.iter().map(|rule| {
            let mut out = json!({"rule": rule.rule});
            let texts = [
                ("message", &rule.message),
                ("messageExpression", &rule.message_expression),
                ("reason", &rule.reason),
                ("fieldPath", &rule.field_path),
            ];
            for (name, text) in texts {
                if let Some(text) = text {
                    out[name] = json!(text);
                }
            }
            out
        });
        out.insert("x-kubernetes-validations".into(), rules.collect());
    }
}
