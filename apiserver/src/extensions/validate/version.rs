//! One version of a definition: its schema and rules, subresources, columns and selectable fields.

use litek8s_machinery::field::{FieldError, Path};
use litek8s_machinery::jsonpath::JsonPath;
use litek8s_machinery::schema::{Schema, SchemaRef, Type, from_crd_at};
use serde_json::Value;

use super::super::cel::Rules;
use super::{list, text};

/// Most fields that selectors may name.
const MAX_SELECTABLE: usize = 8;
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];

/// Checks a version; what did not change since `before` is not compiled again.
pub(super) fn check_version(
    version: &Value,
    before: Option<&Value>,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    check_deprecation(version, path, errors);
    let schema = check_schema(version, before, path, errors);
    check_subresources(version, path, errors);
    for (index, column) in list(version, "/additionalPrinterColumns").iter().enumerate() {
        let columns = path.child("additionalPrinterColumns");
        check_column(column, &columns.index(index), errors);
    }
    if let Some(schema) = schema {
        check_selectable(version, schema.get(), path, errors);
    }
}

fn check_deprecation(version: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let warning = version.get("deprecationWarning").and_then(Value::as_str);
    let Some(warning) = warning else { return };
    let detail = if version["deprecated"] != true {
        "can only be set for deprecated versions"
    } else if warning.len() > 256 {
        "must be <= 256 characters long"
    } else if warning.is_empty() {
        "must not be an empty string"
    } else if warning.chars().any(char::is_control) {
        "must only contain printable UTF-8 characters"
    } else {
        return;
    };
    errors.push(FieldError::invalid(path.child("deprecationWarning"), warning, detail));
}

fn check_schema(
    version: &Value,
    before: Option<&Value>,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) -> Option<SchemaRef> {
    let parent = path.child("schema");
    let path = parent.child("openAPIV3Schema");
    let Some(json) = version.pointer("/schema/openAPIV3Schema").filter(|s| !s.is_null()) else {
        errors.push(FieldError::required(path, "schemas are required"));
        return None;
    };
    let schema = match from_crd_at(json, &path) {
        Ok(schema) => SchemaRef::from(schema),
        Err(found) => {
            errors.extend(found);
            return None;
        }
    };
    let unchanged = before.and_then(|b| b.pointer("/schema/openAPIV3Schema")) == Some(json);
    if !unchanged {
        let (_, found) = Rules::compile(&schema, &path.to_string());
        errors.extend(found);
    }
    Some(schema)
}

fn check_subresources(version: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let Some(scale) = version.pointer("/subresources/scale").filter(|s| !s.is_null()) else { return };
    let subresources = path.child("subresources");
    let path = subresources.child("scale");
    for (field, prefixes, optional) in [
        ("specReplicasPath", [".spec.", ".spec."], false),
        ("statusReplicasPath", [".status.", ".status."], false),
        ("labelSelectorPath", [".spec.", ".status."], true),
    ] {
        let given = text(scale, &format!("/{field}"));
        if given.is_empty() {
            if !optional {
                errors.push(FieldError::required(path.child(field), ""));
            }
            continue;
        }
        let simple = given.split('.').skip(1).all(|part| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
        });
        if !simple {
            let detail = "must be a valid JSONPath with only simple fields".to_owned();
            errors.push(FieldError::invalid(path.child(field), given, detail));
        } else if !prefixes.iter().any(|prefix| given.starts_with(prefix)) {
            let wanted = match field {
                "specReplicasPath" => "should be a json path under .spec",
                "statusReplicasPath" => "should be a json path under .status",
                _ => "should be a json path under either .spec or .status",
            };
            errors.push(FieldError::invalid(path.child(field), given, wanted));
        }
    }
}

fn check_column(column: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if text(column, "/name").is_empty() {
        errors.push(FieldError::required(path.child("name"), ""));
    }
    let ty = text(column, "/type");
    if ty.is_empty() {
        let detail = format!("must be one of {}", COLUMN_TYPES.join(","));
        errors.push(FieldError::required(path.child("type"), detail));
    } else if !COLUMN_TYPES.contains(&ty) {
        let detail = format!("must be one of {}", COLUMN_TYPES.join(","));
        errors.push(FieldError::invalid(path.child("type"), ty, detail));
    }
    let given = text(column, "/jsonPath");
    if given.is_empty() {
        errors.push(FieldError::required(path.child("jsonPath"), ""));
    } else if let Err(error) = JsonPath::parse(given) {
        errors.push(FieldError::invalid(path.child("jsonPath"), given, error.to_string()));
    }
}

fn check_selectable(version: &Value, schema: &Schema, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let fields = list(version, "/selectableFields");
    let path = path.child("selectableFields");
    if fields.len() > MAX_SELECTABLE {
        errors.push(FieldError::too_many(path, fields.len(), MAX_SELECTABLE));
    }
    let mut seen = Vec::new();
    for (index, field) in fields.iter().enumerate() {
        let item = path.index(index);
        let path = item.child("jsonPath");
        let given = text(field, "/jsonPath");
        if given.is_empty() {
            errors.push(FieldError::required(path, ""));
        } else if seen.contains(&given) {
            errors.push(FieldError::duplicate(path, given));
        } else if given.starts_with(".metadata.") {
            errors.push(FieldError::invalid(path, given, "must not point to fields in metadata"));
        } else if !points_to_scalar(schema, given) {
            let detail = "is an invalid path: does not refer to a valid field";
            errors.push(FieldError::invalid(path, given, detail));
        }
        seen.push(given);
    }
}

fn points_to_scalar(schema: &Schema, path: &str) -> bool {
    let Some(path) = path.strip_prefix('.') else { return false };
    let field =
        path.split('.').try_fold(schema, |schema, name| schema.property(name).map(|p| p.schema.get()));
    field.is_some_and(|f| matches!(f.ty, Type::String | Type::Boolean | Type::Integer))
}
