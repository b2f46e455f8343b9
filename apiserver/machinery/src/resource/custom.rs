//! Resources of a CustomResourceDefinition: one for each served version.

use std::sync::Arc;

use serde_json::Value;

use super::{
    ALL_VERBS, Column, ColumnSource, FieldSelector, NameRule, Resource, ScalePaths, Subresource, kinds,
};
use crate::field::{FieldError, Path};
use crate::jsonpath::JsonPath;
use crate::schema::{Schema, SchemaRef, from_crd_at};

/// The served versions of a definition, in its order; errors when a schema is not structural or a path is not one.
pub fn resources(definition: &Value) -> Result<Vec<Resource>, Vec<FieldError>> {
    let mut errors = Vec::new();
    let mut resources = Vec::new();
    let spec = Path::new("spec");
    let list = spec.child("versions");
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
    for (at, version) in versions.into_iter().flatten().enumerate() {
        let path = list.index(at);
        let resource = one(definition, version, &path, &mut errors);
        if version.get("served") == Some(&Value::Bool(true)) {
            resources.push(resource);
        }
    }
    if errors.is_empty() { Ok(resources) } else { Err(errors) }
}

/// Everything that is wrong with the schemas, columns and paths of a definition.
pub fn validate(definition: &Value) -> Vec<FieldError> {
    resources(definition).err().unwrap_or_default()
}

fn one(definition: &Value, version: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) -> Resource {
    let text = |value: &Value, pointer: &str| -> Arc<str> {
        value.pointer(pointer).and_then(Value::as_str).unwrap_or("").into()
    };
    let list = |pointer: &str| -> Vec<Arc<str>> {
        let items = definition.pointer(pointer).and_then(Value::as_array);
        items.into_iter().flatten().filter_map(Value::as_str).map(Arc::from).collect()
    };
    let kind = text(definition, "/spec/names/kind");
    let or = |name: Arc<str>, other: String| if name.is_empty() { other.into() } else { name };
    let group = text(definition, "/spec/group");
    let name = text(version, "/name");
    let mut resource = Resource {
        list_kind: or(text(definition, "/spec/names/listKind"), format!("{kind}List")),
        singular: or(text(definition, "/spec/names/singular"), kind.to_lowercase()),
        plural: text(definition, "/spec/names/plural"),
        short_names: list("/spec/names/shortNames"),
        categories: list("/spec/names/categories"),
        namespaced: definition.pointer("/spec/scope").and_then(Value::as_str) == Some("Namespaced"),
        verbs: ALL_VERBS.iter().map(|&verb| verb.into()).collect(),
        subresources: Vec::new(),
        schema: schema(version, path, errors),
        columns: columns(version, path, errors),
        field_selectors: selectable(version, path, errors),
        has_status: version.pointer("/subresources/status").is_some_and(|status| !status.is_null()),
        counts_generation: true,
        creates_on_update: false,
        unconditional_update: false,
        name_rule: NameRule::Subdomain,
        stored: None,
        custom: true,
        scale: scale(version),
        deprecation: deprecation(version, &group, &name, &kind),
        group,
        version: name,
        kind,
    };
    resource.subresources = subresources(&resource);
    resource
}

fn schema(version: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) -> SchemaRef {
    let at = path.child("schema");
    let read = match version.pointer("/schema/openAPIV3Schema") {
        Some(schema) => from_crd_at(schema, &at.child("openAPIV3Schema")),
        None => Err(vec![FieldError::required(at.child("openAPIV3Schema"), "schemas are required")]),
    };
    match read {
        Ok(schema) => schema.into(),
        Err(wrong) => {
            errors.extend(wrong);
            Schema::anything().clone().into()
        }
    }
}

fn columns(version: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) -> Vec<Column> {
    let given = version.get("additionalPrinterColumns").and_then(Value::as_array);
    let mut columns = vec![kinds::name_column()];
    let list = path.child("additionalPrinterColumns");
    for (at, column) in given.into_iter().flatten().enumerate() {
        let text = |name: &str| column.get(name).and_then(Value::as_str).unwrap_or("");
        let json_path = match JsonPath::parse(text("jsonPath")) {
            Ok(path) => path,
            Err(error) => {
                let at = list.index(at);
                errors.push(FieldError::invalid(at.child("jsonPath"), text("jsonPath"), error.to_string()));
                continue;
            }
        };
        columns.push(Column {
            name: text("name").into(),
            ty: text("type").into(),
            format: text("format").into(),
            description: text("description").into(),
            priority: column.get("priority").and_then(Value::as_i64).unwrap_or(0),
            source: ColumnSource::Path { path: json_path, absent: "".into() },
        });
    }
    if given.is_none_or(Vec::is_empty) {
        columns.push(kinds::age_column());
    }
    columns
}

fn selectable(version: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) -> Vec<FieldSelector> {
    let list = path.child("selectableFields");
    let mut fields = Vec::new();
    for (at, field) in
        version.get("selectableFields").and_then(Value::as_array).into_iter().flatten().enumerate()
    {
        let text = field.get("jsonPath").and_then(Value::as_str).unwrap_or("");
        match JsonPath::parse(text).ok().and_then(|path| path.plain().map(|names| names.join("."))) {
            Some(names) => {
                fields.push(FieldSelector { label: names.as_str().into(), paths: vec![names.into()] });
            }
            None => {
                let at = list.index(at);
                let detail = "must be a simple path of fields";
                errors.push(FieldError::invalid(at.child("jsonPath"), text, detail));
            }
        }
    }
    fields
}

fn scale(version: &Value) -> Option<ScalePaths> {
    let scale = version.pointer("/subresources/scale").filter(|scale| scale.is_object())?;
    let text = |name: &str| scale.get(name).and_then(Value::as_str).map(Arc::from);
    Some(ScalePaths {
        spec_replicas: text("specReplicasPath")?,
        status_replicas: text("statusReplicasPath")?,
        label_selector: text("labelSelectorPath"),
    })
}

fn deprecation(version: &Value, group: &str, name: &str, kind: &str) -> Option<Arc<str>> {
    if version.get("deprecated") != Some(&Value::Bool(true)) {
        return None;
    }
    let given = version.get("deprecationWarning").and_then(Value::as_str);
    Some(given.map_or_else(|| format!("{group}/{name} {kind} is deprecated").into(), Arc::from))
}

fn subresources(resource: &Resource) -> Vec<Subresource> {
    let verbs: Vec<Arc<str>> = ["get", "patch", "update"].into_iter().map(Arc::from).collect();
    let mut out = Vec::new();
    if resource.scale.is_some() {
        out.push(Subresource {
            name: "scale".into(),
            group: "autoscaling".into(),
            version: "v1".into(),
            kind: "Scale".into(),
            verbs: verbs.clone(),
            schema: crate::schema::TypeName::find("autoscaling/v1.Scale"),
        });
    }
    if resource.has_status {
        out.push(Subresource {
            name: "status".into(),
            group: resource.group.clone(),
            version: resource.version.clone(),
            kind: resource.kind.clone(),
            verbs,
            schema: None,
        });
    }
    out
}
