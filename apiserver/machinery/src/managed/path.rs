//! One step from an object to a part of it: a field's name, or what tells a list's element from the others.

use std::cmp::Ordering;

use serde_json::Value;

/// One step of a path.
#[derive(Debug, Clone)]
pub enum PathElement {
    /// A field of an object or a key of a map.
    Field(String),
    /// An element of a keyed list, by its key fields sorted by name.
    Key(Vec<(String, Value)>),
    /// An element of a set.
    Value(Value),
    /// An element by its place; never made here, but kept when met.
    Index(i64),
}

impl PathElement {
    /// The step into a field.
    pub fn field(name: &str) -> Self {
        PathElement::Field(name.to_owned())
    }

    /// The text of this step in messages: `.spec`, `[name="a"]`, `[="x"]`, `[3]`.
    pub fn text(&self) -> String {
        match self {
            PathElement::Field(name) => format!(".{name}"),
            PathElement::Key(fields) => {
                let fields: Vec<String> =
                    fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
                format!("[{}]", fields.join(","))
            }
            PathElement::Value(value) => format!("[={value}]"),
            PathElement::Index(index) => format!("[{index}]"),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            PathElement::Field(_) => 0,
            PathElement::Key(_) => 1,
            PathElement::Value(_) => 2,
            PathElement::Index(_) => 3,
        }
    }
}

/// The text of a whole path.
pub fn path_text(path: &[PathElement]) -> String {
    path.iter().map(PathElement::text).collect()
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (PathElement::Field(a), PathElement::Field(b)) => a.cmp(b),
            (PathElement::Key(a), PathElement::Key(b)) => {
                let pairs =
                    a.iter().zip(b).map(|((an, av), (bn, bv))| an.cmp(bn).then_with(|| value_order(av, bv)));
                pairs.fold(Ordering::Equal, Ordering::then).then(a.len().cmp(&b.len()))
            }
            (PathElement::Value(a), PathElement::Value(b)) => value_order(a, b),
            (PathElement::Index(a), PathElement::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PathElement {}

/// A total order of JSON values in which `1` and `1.0` are equal.
pub(crate) fn value_order(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => a.as_f64().unwrap_or(f64::NAN).total_cmp(&b.as_f64().unwrap_or(f64::NAN)),
        },
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let items = a.iter().zip(b).map(|(a, b)| value_order(a, b)).find(|o| o.is_ne());
            items.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => {
            let fields =
                a.iter().zip(b).map(|((an, av), (bn, bv))| an.cmp(bn).then_with(|| value_order(av, bv)));
            fields.into_iter().find(|o| o.is_ne()).unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        _ => value_rank(a).cmp(&value_rank(b)),
    }
}

fn value_rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

/// Equality in which `1` and `1.0` are equal.
pub(crate) fn same_value(a: &Value, b: &Value) -> bool {
    value_order(a, b).is_eq()
}
