//! Reading objects held as JSON: what is absent, null, zero or empty says the same.

use std::collections::BTreeMap;

use jiff::Timestamp;
use litek8s_store::Object;
use serde_json::{Map, Value};

/// An object as JSON; `None` when it is none, which the store does not let happen.
pub(super) fn value(object: &Object) -> Option<Value> {
    serde_json::from_slice(&object.json).ok()
}

/// A text, empty when missing.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A time.
pub(super) fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// The elements of a list; none when it is missing.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The entries of a map of texts.
pub(super) fn texts(value: &Value) -> BTreeMap<String, String> {
    let entries = value.as_object().into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// Whether both say the same.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let covers = |a: &Map<String, Value>, b: &Map<String, Value>| {
                a.iter().all(|(key, value)| match b.get(key) {
                    Some(other) => same(value, other),
                    None => says_nothing(value),
                })
            };
            covers(a, b) && b.iter().all(|(key, value)| a.contains_key(key) || says_nothing(value))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        _ => a == b || (says_nothing(a) && says_nothing(b)),
    }
}

fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(truth) => !truth,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(says_nothing),
    }
}

/// A number or a percentage of `total`, rounded up or down; `otherwise` when it is neither.
pub(super) fn share(value: &Value, total: i64, up: bool, otherwise: i64) -> i64 {
    if let Some(number) = value.as_i64() {
        return number;
    }
    let percent = value.as_str().and_then(|text| text.strip_suffix('%')?.parse::<i64>().ok());
    let Some(percent) = percent else { return otherwise };
    let product = percent.saturating_mul(total);
    if up { (product + 99).div_euclid(100) } else { product.div_euclid(100) }
}

/// A wanted number of things, none when it is negative.
pub(super) fn size(number: i64) -> usize {
    usize::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn absent_and_empty_is_the_same_and_nothing_else() {
        let same_cases = [
            (json!({"a": 0, "b": {"c": ""}}), json!({})),
            (json!({"a": null}), json!({"a": []})),
            (json!({"a": [1, {"b": false}]}), json!({"a": [1, {}]})),
        ];
        for (a, b) in same_cases {
            assert!(same(&a, &b) && same(&b, &a), "{a} {b}");
        }
        for (a, b) in [(json!({"a": 1}), json!({})), (json!([1]), json!([])), (json!("x"), json!("y"))] {
            assert!(!same(&a, &b) && !same(&b, &a), "{a} {b}");
        }
    }

    #[test]
    fn shares_are_numbers_or_percentages() {
        let cases = [
            (json!(3), 10, true, 3),
            (json!("25%"), 10, true, 3),
            (json!("25%"), 10, false, 2),
            (json!("0%"), 10, true, 0),
            (json!(null), 10, true, 7),
            (json!("x"), 10, true, 7),
        ];
        for (value, total, up, wanted) in cases {
            assert_eq!(share(&value, total, up, 7), wanted, "{value}");
        }
    }
}
