//! Types, required fields and limits of a schema, with the words of kube-openapi.

use std::collections::BTreeSet;

use serde_json::{Number, Value};

use super::{format, full};
use crate::field::{FieldError, Path};
use crate::schema::{Constraints, Schema, SchemaRef, Type};

/// Appends everything that is wrong.
pub(super) fn check(schema: &Schema, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if full(errors) {
        return;
    }
    if value.is_null() && schema.nullable {
        return;
    }
    if let Some(wanted) = wrong_type(schema.ty, value) {
        let found = json_type(value);
        let detail = format!("{} in body must be of type {wanted}: {found:?}", dotted(path));
        errors.push(FieldError::type_invalid(path, found, detail));
        return;
    }
    if let Some(limits) = &schema.constraints {
        own(limits, value, path, errors);
        junctors(limits, value, path, errors);
    }
    match value {
        Value::Object(fields) => {
            for name in &schema.required {
                if !fields.contains_key(&**name) {
                    errors.push(FieldError::required(path.child(name), ""));
                }
            }
            for (name, value) in fields {
                match schema.property(name) {
                    Some(property) => check(property.schema.get(), value, &path.child(name), errors),
                    None => {
                        if let Some(of) = schema.additional.as_ref().map(SchemaRef::get) {
                            check(of, value, &path.child(name), errors);
                        }
                    }
                }
            }
        }
        Value::Array(items) => {
            if let Some(of) = schema.item() {
                for (at, item) in items.iter().enumerate() {
                    check(of, item, &path.index(at), errors);
                }
            }
        }
        Value::String(text) => {
            if let Some(name) = schema.format.as_deref()
                && !format::matches(name, text)
            {
                let detail = format!("{} in body must be of type {name}: {text:?}", dotted(path));
                errors.push(FieldError::type_invalid(path, text.as_str(), detail));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn wrong_type(ty: Type, value: &Value) -> Option<&'static str> {
    let (wanted, fits) = match ty {
        Type::Any => return None,
        Type::Boolean => ("boolean", value.is_boolean()),
        Type::Integer => ("integer", is_whole(value)),
        Type::Number => ("number", value.is_number()),
        Type::String => ("string", value.is_string()),
        Type::Object => ("object", value.is_object()),
        Type::Array => ("array", value.is_array()),
        Type::IntOrString => ("integer,string", is_whole(value) || value.is_string()),
    };
    (!fits).then_some(wanted)
}

fn is_whole(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_f64().is_some_and(|number| number.fract() == 0.0),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => false,
    }
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The path inside of a text, where the root is empty.
fn dotted(path: &Path<'_>) -> String {
    let text = path.to_string();
    if text == "<nil>" { String::new() } else { text }
}

fn own(limits: &Constraints, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if !limits.enumeration.is_empty() && !limits.enumeration.iter().any(|known| same(known, value)) {
        let known = limits.enumeration.iter().map(crate::jsonpath::text);
        errors.push(FieldError::not_supported(path, value.clone(), known));
    }
    match value {
        Value::String(text) => strings(limits, text, path, errors),
        Value::Number(number) => numbers(limits, number, path, errors),
        Value::Array(items) => arrays(limits, items, path, errors),
        Value::Object(fields) => {
            let count = u64::try_from(fields.len()).unwrap_or(u64::MAX);
            if let Some(min) = limits.min_properties.filter(|&min| count < min) {
                let detail = format!("{} in body should have at least {min} properties", dotted(path));
                errors.push(FieldError::invalid(path, count, detail));
            }
            if let Some(max) = limits.max_properties.filter(|&max| count > max) {
                errors.push(FieldError::too_many(path, fields.len(), usize::try_from(max).unwrap_or(0)));
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// Equality of JSON, where `1` and `1.0` are one number.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

fn strings(limits: &Constraints, text: &str, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let length = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
    if let Some(max) = limits.max_length.filter(|&max| length > max) {
        errors.push(FieldError::too_long(path, usize::try_from(max).unwrap_or(usize::MAX)));
    }
    if let Some(min) = limits.min_length.filter(|&min| length < min) {
        let detail = format!("{} in body should be at least {min} chars long", dotted(path));
        errors.push(FieldError::invalid(path, text, detail));
    }
    if let Some(pattern) = &limits.pattern
        && !pattern.regex().is_some_and(|regex| regex.is_match(text))
    {
        let detail = format!("{} in body should match '{}'", dotted(path), pattern.text);
        errors.push(FieldError::invalid(path, text, detail));
    }
}

fn numbers(limits: &Constraints, number: &Number, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let mut refuse = |what: String| {
        let detail = format!("{} in body should be {what}", dotted(path));
        errors.push(FieldError::invalid(path, Value::Number(number.clone()), detail));
    };
    let value = number.as_f64().unwrap_or(0.0);
    // A bound is a float64 upstream, and Go prints one without a fraction as an integer.
    let bound = |number: &Number| match number.as_f64() {
        Some(whole) if whole.fract() == 0.0 && whole.abs() < 1e21 => format!("{whole:.0}"),
        Some(_) | None => number.to_string(),
    };
    if let Some(min) = &limits.minimum {
        let least = min.as_f64().unwrap_or(0.0);
        if limits.exclusive_minimum && value <= least {
            refuse(format!("greater than {}", bound(min)));
        } else if value < least {
            refuse(format!("greater than or equal to {}", bound(min)));
        }
    }
    if let Some(max) = &limits.maximum {
        let most = max.as_f64().unwrap_or(0.0);
        if limits.exclusive_maximum && value >= most {
            refuse(format!("less than {}", bound(max)));
        } else if value > most {
            refuse(format!("less than or equal to {}", bound(max)));
        }
    }
    if let Some(of) = &limits.multiple_of {
        let factor = value / of.as_f64().unwrap_or(1.0);
        if factor.fract() != 0.0 {
            refuse(format!("a multiple of {}", bound(of)));
        }
    }
}

fn arrays(limits: &Constraints, items: &[Value], path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let count = u64::try_from(items.len()).unwrap_or(u64::MAX);
    if let Some(min) = limits.min_items.filter(|&min| count < min) {
        let detail = format!("{} in body should have at least {min} items", dotted(path));
        errors.push(FieldError::invalid(path, count, detail));
    }
    if let Some(max) = limits.max_items.filter(|&max| count > max) {
        errors.push(FieldError::too_many(path, items.len(), usize::try_from(max).unwrap_or(0)));
    }
    if limits.unique_items {
        let mut seen = BTreeSet::new();
        if !items.iter().all(|item| seen.insert(item.to_string())) {
            let detail = format!("{} in body shouldn't contain duplicates", dotted(path));
            errors.push(FieldError::invalid(path, "", detail));
        }
    }
}

fn junctors(limits: &Constraints, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let valid = |schema: &Schema| {
        let mut inner = Vec::new();
        check(schema, value, path, &mut inner);
        inner.is_empty()
    };
    let name = crate::field::quote(&dotted(path));
    let mut refuse = |text: String| errors.push(FieldError::invalid("<nil>", "", text));
    let mut nested = Vec::new();
    if !limits.any_of.is_empty() && !limits.any_of.iter().any(valid) {
        // What the alternatives say is said too, as far as only one could be meant.
        if let [only] = limits.any_of.as_slice() {
            check(only, value, path, &mut nested);
        }
        refuse(format!("{name} must validate at least one schema (anyOf)"));
    }
    if !limits.one_of.is_empty() {
        match limits.one_of.iter().filter(|schema| valid(schema)).count() {
            1 => {}
            0 => refuse(format!("{name} must validate one and only one schema (oneOf). Found none valid")),
            many => refuse(format!(
                "{name} must validate one and only one schema (oneOf). Found {many} valid alternatives"
            )),
        }
    }
    if !limits.all_of.iter().all(valid) {
        limits.all_of.iter().for_each(|schema| check(schema, value, path, &mut nested));
        let none = if limits.all_of.iter().any(valid) { "" } else { ". None validated" };
        refuse(format!("{name} must validate all the schemas (allOf){none}"));
    }
    if limits.not.as_deref().is_some_and(valid) {
        refuse(format!("{name} must not validate the schema (not)"));
    }
    errors.append(&mut nested);
}
