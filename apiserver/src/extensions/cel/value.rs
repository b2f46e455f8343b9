//! JSON as CEL sees it: typed by the schema, with field names that are no identifiers escaped as kube-apiserver does.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube_cel::cel::Value as Cel;
use kube_cel::cel::objects::{Key, Map};
use litek8s_machinery::schema::{Schema, Type};
use serde_json::Value;

const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The name of a field in CEL; `None` when rules cannot name it.
pub(crate) fn escaped(name: &str) -> Option<Cow<'_, str>> {
    let mut chars = name.chars();
    let starts =
        chars.next().is_some_and(|c| c.is_ascii_alphabetic() || matches!(c, '_' | '-' | '.' | '/' | '$'));
    if !starts || !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/')) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(Cow::Owned(format!("__{name}__")));
    }
    if !name.contains("__") && !name.contains(['.', '-', '/']) {
        return Some(Cow::Borrowed(name));
    }
    let name = name.replace("__", "__underscores__");
    Some(Cow::Owned(name.replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__")))
}

/// The name of a field that stands in CEL under this name.
pub(super) fn unescaped(name: &str) -> Cow<'_, str> {
    let reserved = name.strip_prefix("__").and_then(|rest| rest.strip_suffix("__"));
    if let Some(reserved) = reserved.filter(|word| RESERVED.contains(word)) {
        return Cow::Borrowed(reserved);
    }
    if !name.contains("__") {
        return Cow::Borrowed(name);
    }
    let name = name.replace("__dot__", ".").replace("__dash__", "-").replace("__slash__", "/");
    Cow::Owned(name.replace("__underscores__", "__"))
}

/// A value made by an expression as JSON, with sorted fields.
pub(crate) fn to_json(value: &Cel) -> Result<Value, String> {
    Ok(match value {
        Cel::Null => Value::Null,
        Cel::Bool(truth) => Value::Bool(*truth),
        Cel::Int(number) => Value::from(*number),
        Cel::UInt(number) => Value::from(*number),
        Cel::Float(number) => Value::from(*number),
        Cel::String(text) => Value::from(text.as_str()),
        Cel::Bytes(bytes) => Value::from(STANDARD.encode(bytes.as_slice())),
        Cel::Timestamp(time) => Value::from(time.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true)),
        Cel::List(items) => Value::Array(items.iter().map(to_json).collect::<Result<_, _>>()?),
        Cel::Map(map) => {
            let mut fields = BTreeMap::new();
            for (key, value) in map.map.iter() {
                let Key::String(key) = key else {
                    return Err(format!("map key {key} is not a string"));
                };
                fields.insert(key.to_string(), to_json(value)?);
            }
            Value::Object(fields.into_iter().collect())
        }
        Cel::Duration(_) | Cel::Function(..) | Cel::Opaque(_) => {
            return Err(format!("a value of type {} cannot be a part of an object", value.type_of()));
        }
    })
}

/// The value for a rule.
pub(crate) fn to_cel(value: &Value, schema: Option<&Schema>) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(truth) => Cel::Bool(*truth),
        Value::Number(number) => {
            let whole = number.as_i64().filter(|_| schema.is_none_or(|s| s.ty != Type::Number));
            match whole.or_else(|| whole_float(number.as_f64(), schema)) {
                Some(whole) => Cel::Int(whole),
                None => Cel::Float(number.as_f64().unwrap_or(f64::NAN)),
            }
        }
        Value::String(text) => from_text(text, schema),
        Value::Array(items) => {
            let item = schema.and_then(Schema::item);
            Cel::List(Arc::new(items.iter().map(|value| to_cel(value, item)).collect()))
        }
        Value::Object(fields) => {
            let mut map = HashMap::with_capacity(fields.len());
            for (name, value) in fields {
                let is_field = schema.is_some_and(|s| s.property(name).is_some());
                let key = if is_field { escaped(name) } else { Some(Cow::Borrowed(name.as_str())) };
                if let Some(key) = key {
                    let value = to_cel(value, schema.and_then(|s| s.field(name)));
                    map.insert(Key::String(Arc::new(key.into_owned())), value);
                }
            }
            Cel::Map(Map { map: Arc::new(map) })
        }
    }
}

/// `3.0` in a field of whole numbers.
#[expect(clippy::cast_possible_truncation, reason = "the value is whole and within the range of i64")]
fn whole_float(number: Option<f64>, schema: Option<&Schema>) -> Option<i64> {
    let integer = schema.is_some_and(|s| s.ty == Type::Integer);
    number.filter(|n| integer && n.fract() == 0.0 && n.abs() < 9.0e15).map(|n| n as i64)
}

fn from_text(text: &str, schema: Option<&Schema>) -> Cel {
    let format = schema.filter(|s| s.ty == Type::String).and_then(|s| s.format.as_deref());
    let typed = match format {
        Some("date-time") => chrono::DateTime::parse_from_rfc3339(text).ok().map(Cel::Timestamp),
        Some("date") => {
            chrono::DateTime::parse_from_rfc3339(&format!("{text}T00:00:00Z")).ok().map(Cel::Timestamp)
        }
        Some("duration") => go_duration(text).map(Cel::Duration),
        Some("byte") => STANDARD.decode(text).ok().map(|bytes| Cel::Bytes(Arc::new(bytes))),
        _ => None,
    };
    typed.unwrap_or_else(|| Cel::String(Arc::new(text.to_owned())))
}

/// A duration as Go writes it: `1h30m`, `-1.5s`, `0`.
fn go_duration(text: &str) -> Option<chrono::Duration> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(chrono::Duration::zero());
    }
    let mut total = 0f64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest.get(..digits)?.parse().ok()?;
        rest = rest.get(digits..)?;
        let unit = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let nanos = match rest.get(..unit)? {
            "h" => 3.6e12,
            "m" => 6e10,
            "s" => 1e9,
            "ms" => 1e6,
            "us" | "µs" => 1e3,
            "ns" => 1.0,
            _ => return None,
        };
        total += number * nanos;
        rest = rest.get(unit..)?;
    }
    let total = if negative { -total } else { total };
    if text.is_empty() || total.abs() > 9.2e18 {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "checked to be within the range of i64")]
    Some(chrono::Duration::nanoseconds(total as i64))
}
