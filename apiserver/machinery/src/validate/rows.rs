//! Reads and applies the rows of `types/validations.txt`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use serde_json::Value;

use super::full;
use super::meta::{self, IMMUTABLE};
use super::name::{name_errors, qualified_name_errors};
use super::special;
use crate::field::{FieldError, Path};
use crate::resource::NameRule;
use crate::schema::{Schema, SchemaRef, TypeName};

const TABLE: &str = include_str!("../types/validations.txt");

/// Applies the rows of every type in an object, outer types first. Statuses are not looked into.
pub(super) fn check(
    schema: &Schema,
    new: &Value,
    old: Option<&Value>,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let kind = new.get("kind").and_then(Value::as_str).unwrap_or("");
    let version = new.get("apiVersion").and_then(Value::as_str).unwrap_or("");
    let ty = crate::gvk::GroupVersion::parse(version)
        .and_then(|version| crate::resource::type_of(&version.with_kind(kind)));
    if let Some(ty) = ty {
        apply(ty, new, old, path, errors);
    }
    walk(schema, new, path, errors);
}

fn walk(schema: &Schema, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if full(errors) {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if name == "status" || name == "metadata" && path.is_top() {
                    continue;
                }
                match schema.property(name) {
                    Some(property) => enter(&property.schema, value, &path.child(name), errors),
                    None => {
                        if let Some(of) = &schema.additional {
                            enter(of, value, &path.key(name), errors);
                        }
                    }
                }
            }
        }
        Value::Array(items) => {
            if let Some(of) = &schema.items {
                for (at, item) in items.iter().enumerate() {
                    enter(of, item, &path.index(at), errors);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn enter(schema: &SchemaRef, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if let SchemaRef::Type(ty) = schema
        && value.is_object()
    {
        apply_inlined(*ty, value, path, errors);
    }
    walk(schema.get(), value, path, errors);
}

/// The rows of a type and of those it inlines.
fn apply_inlined(ty: TypeName, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    apply(ty, value, None, path, errors);
    for inlined in &ty.schema().inlined {
        apply_inlined(inlined.ty, value, path, errors);
    }
}

fn apply(ty: TypeName, new: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    for row in rows().get(ty.as_str()).into_iter().flatten() {
        row.check(new, old, path, errors);
    }
}

fn rows() -> &'static BTreeMap<&'static str, Vec<Row>> {
    static ROWS: OnceLock<BTreeMap<&'static str, Vec<Row>>> = OnceLock::new();
    ROWS.get_or_init(|| {
        let mut rows: BTreeMap<&'static str, Vec<Row>> = BTreeMap::new();
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            if let Some((ty, rest)) = line.split_once(' ')
                && let Some(row) = Row::parse(rest)
            {
                rows.entry(ty).or_default().push(row);
            }
        }
        rows
    })
}

/// One rule about one field.
struct Row {
    field: &'static str,
    rule: Rule,
    condition: Option<(&'static str, Vec<&'static str>, bool)>,
}

enum Rule {
    Required,
    Range(i64, i64),
    Min(i64),
    Unique(Vec<&'static str>),
    Name(NameRule),
    Qualified,
    Labels,
    OneOf(Vec<&'static str>),
    Enum(Vec<&'static str>),
    Immutable,
    ImmutableOnceSet,
    FrozenBy(&'static str),
    Call(special::Check),
    Each(Box<Rule>),
}

impl Row {
    /// `FIELD RULE [ARGUMENT] [if FIELD=a|b]`.
    fn parse(text: &'static str) -> Option<Self> {
        let (text, condition) = match text.split_once(" if ") {
            Some((text, condition)) => (text, Some(condition)),
            None => (text, None),
        };
        let condition = condition.and_then(|text| {
            let (positive, text) = match text.split_once("!=") {
                Some(parts) => (false, parts),
                None => (true, text.split_once('=')?),
            };
            Some((text.0, text.1.split('|').collect(), positive))
        });
        let (field, rule) = text.split_once(' ')?;
        let rule = Rule::parse(rule)?;
        Some(Self { field, rule, condition })
    }

    fn check(&self, new: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
        if let Some((field, values, positive)) = &self.condition {
            let value = at(new, field).map(crate::jsonpath::text).unwrap_or_default();
            if values.contains(&value.as_str()) != *positive {
                return;
            }
        }
        nested(self.field, path, &mut |path| {
            self.rule.check(self.field, new, old, path, errors);
        });
    }
}

/// Calls `then` with the path of a dotted field.
fn nested(field: &str, path: &Path<'_>, then: &mut dyn FnMut(&Path<'_>)) {
    match field.split_once('.') {
        Some((first, rest)) => nested(rest, &path.child(first), then),
        None if field == "-" => then(path),
        None => then(&path.child(field)),
    }
}

/// The value of a dotted field; `-` is the object itself, and `null` is absent.
fn at<'a>(object: &'a Value, field: &str) -> Option<&'a Value> {
    if field == "-" {
        return Some(object);
    }
    field.split('.').try_fold(object, |value, name| value.get(name)).filter(|value| !value.is_null())
}

impl Rule {
    /// `RULE [ARGUMENT]`.
    fn parse(text: &'static str) -> Option<Self> {
        let (rule, argument) = text.split_once(' ').unwrap_or((text, ""));
        Some(match rule {
            "required" => Self::Required,
            "range" => {
                let (low, high) = argument.split_once("..")?;
                Self::Range(low.parse().ok()?, high.parse().ok()?)
            }
            "min" => Self::Min(argument.parse().ok()?),
            "unique" => Self::Unique(argument.split('+').collect()),
            "name" if argument == "qualified" => Self::Qualified,
            "name" => Self::Name(match argument {
                "label" => NameRule::Label,
                "dns1035" => NameRule::Dns1035,
                "path" => NameRule::PathSegment,
                _ => NameRule::Subdomain,
            }),
            "labels" => Self::Labels,
            "one-of" => Self::OneOf(argument.split('|').collect()),
            "enum" => Self::Enum(argument.split('|').collect()),
            "immutable" => Self::Immutable,
            "immutable-once-set" => Self::ImmutableOnceSet,
            "frozen-by" => Self::FrozenBy(argument),
            "each" => Self::Each(Box::new(Self::parse(argument)?)),
            "call" => Self::Call(special::Check::find(argument)?),
            _ => return None,
        })
    }

    fn check(
        &self,
        field: &str,
        object: &Value,
        old: Option<&Value>,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) {
        let value = at(object, field);
        let before = old.map(|old| at(old, field));
        match (self, value) {
            (Self::Required, value) => {
                if value.is_none_or(is_empty) {
                    errors.push(FieldError::required(path, ""));
                }
            }
            (Self::Immutable, value) => {
                if before.is_some_and(|before| before != value) {
                    errors.push(FieldError::invalid(path, value.cloned().unwrap_or_default(), IMMUTABLE));
                }
            }
            (Self::ImmutableOnceSet, value) => {
                if before.flatten().is_some_and(|before| !is_empty(before) && Some(before) != value) {
                    errors.push(FieldError::invalid(path, value.cloned().unwrap_or_default(), IMMUTABLE));
                }
            }
            (Self::FrozenBy(flag), value) => {
                let was_set = old.is_some_and(|old| old.get(*flag) == Some(&Value::Bool(true)));
                let loosened = !path.ends_with(flag) || object.get(*flag) != Some(&Value::Bool(true));
                if was_set && loosened && before.is_some_and(|before| before != value) {
                    let detail = format!("field is immutable when `{flag}` is set");
                    errors.push(FieldError::forbidden(path, detail));
                }
            }
            (Self::OneOf(names), Some(value)) => one_of(names, value, path, errors),
            (Self::Call(call), value) => call.run(value, before.flatten(), object, path, errors),
            (_, None) => {}
            (Self::Each(rule), Some(value)) => {
                for (at, item) in value.as_array().into_iter().flatten().enumerate() {
                    rule.check("-", item, None, &path.index(at), errors);
                }
            }
            (Self::Qualified, Some(value)) => {
                let name = value.as_str().unwrap_or("");
                for detail in qualified_name_errors(name).into_iter().filter(|_| !name.is_empty()) {
                    errors.push(FieldError::invalid(path, name, detail));
                }
            }
            (Self::Range(low, high), Some(value)) => {
                if value.as_i64().is_some_and(|number| !(*low..=*high).contains(&number)) {
                    let detail = format!("must be between {low} and {high}, inclusive");
                    errors.push(FieldError::invalid(path, value.clone(), detail));
                }
            }
            (Self::Min(low), Some(value)) => {
                if value.as_i64().is_some_and(|number| number < *low) {
                    let detail = match low {
                        0 => "must be greater than or equal to 0".to_owned(),
                        low => format!("must be greater than {}", low - 1),
                    };
                    errors.push(FieldError::invalid(path, value.clone(), detail));
                }
            }
            (Self::Unique(keys), Some(value)) => unique(keys, value, path, errors),
            (Self::Name(rule), Some(value)) => {
                let name = value.as_str().unwrap_or("");
                for detail in name_errors(*rule, name, false).into_iter().filter(|_| !name.is_empty()) {
                    errors.push(FieldError::invalid(path, name, detail));
                }
            }
            (Self::Labels, Some(value)) => meta::labels(Some(value), path, errors),
            (Self::Enum(known), Some(value)) => {
                if value.as_str().is_some_and(|text| !known.contains(&text)) {
                    errors.push(FieldError::not_supported(path, value.clone(), known));
                }
            }
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(_) | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Exactly one of these fields, as for the source of a volume or the action of a probe.
fn one_of(names: &[&'static str], value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let mut there = names.iter().filter(|name| value.get(**name).is_some_and(|value| !value.is_null()));
    if there.next().is_none() {
        errors.push(FieldError::required(path, format!("must specify one of: {}", names.join(", "))));
    }
    for extra in there {
        errors.push(FieldError::forbidden(path.child(extra), "may not specify more than 1 of these fields"));
    }
}

fn unique(keys: &[&'static str], list: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let items = list.as_array().map_or(&[][..], Vec::as_slice);
    let mut seen = BTreeSet::new();
    for (at, item) in items.iter().enumerate() {
        let this: Vec<Value> = keys.iter().map(|key| item.get(*key).cloned().unwrap_or_default()).collect();
        if this.iter().all(Value::is_null) || seen.insert(Value::from(this.clone()).to_string()) {
            continue;
        }
        if full(errors) {
            return;
        }
        let here = path.index(at);
        match (keys, this.as_slice()) {
            ([name], [value]) => errors.push(FieldError::duplicate(here.child(name), value.clone())),
            _ => {
                let fields = keys.iter().map(|&key| key.to_owned()).zip(this);
                errors.push(FieldError::duplicate(here, fields.collect::<Value>()));
            }
        }
    }
}
