//! The keywords that limit a value.

use serde_json::{Map, Value};

use super::super::{Constraints, Pattern};
use super::{Reader, flag};
use crate::field::{FieldError, Path};

impl Reader {
    /// The limits of a schema, its junctors included; `None` when there are none.
    pub(super) fn constraints(
        &mut self,
        json: &Map<String, Value>,
        path: &Path<'_>,
        int_or_string: bool,
    ) -> Option<Box<Constraints>> {
        let number = |name: &str| match json.get(name) {
            Some(Value::Number(number)) => Some(number.clone()),
            _ => None,
        };
        let count = |name: &str| json.get(name).and_then(Value::as_u64);
        let mut limits = Constraints {
            enumeration: json.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
            pattern: self.pattern(json, path),
            minimum: number("minimum"),
            maximum: number("maximum"),
            exclusive_minimum: flag(json, "exclusiveMinimum"),
            exclusive_maximum: flag(json, "exclusiveMaximum"),
            multiple_of: number("multipleOf"),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
            unique_items: flag(json, "uniqueItems"),
            ..Constraints::default()
        };
        self.junctors(json, path, int_or_string, &mut limits);
        is_anything(&limits).then(|| Box::new(limits))
    }

    fn pattern(&mut self, json: &Map<String, Value>, path: &Path<'_>) -> Option<Pattern> {
        let text = json.get("pattern").and_then(Value::as_str).filter(|text| !text.is_empty())?;
        let pattern = Pattern::new(text);
        if let Err(error) = regex::Regex::new(text) {
            let detail = format!("must be a valid regular expression, but isn't: {error}");
            self.errors.push(FieldError::invalid(path.child("pattern"), text, detail));
        }
        Some(pattern)
    }
}

fn is_anything(limits: &Constraints) -> bool {
    let numbers = [&limits.minimum, &limits.maximum, &limits.multiple_of];
    let counts = [
        limits.min_length,
        limits.max_length,
        limits.min_items,
        limits.max_items,
        limits.min_properties,
        limits.max_properties,
    ];
    let junctors = [&limits.all_of, &limits.any_of, &limits.one_of];
    !limits.enumeration.is_empty()
        || limits.pattern.is_some()
        || limits.unique_items
        || limits.not.is_some()
        || numbers.iter().any(|number| number.is_some())
        || counts.iter().any(Option::is_some)
        || junctors.iter().any(|junctor| !junctor.is_empty())
}
