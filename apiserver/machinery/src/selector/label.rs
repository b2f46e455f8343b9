//! Label selectors, from the query string and from `matchLabels`/`matchExpressions`.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use super::SelectorError;
use super::parse;
use super::syntax::{key_problems, value_problems};

/// How a requirement relates a label to its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operator {
    /// `key in (a,b)`
    In,
    /// `key notin (a,b)`; also true without the label.
    NotIn,
    /// `key=a`
    Equals,
    /// `key==a`
    DoubleEquals,
    /// `key!=a`; also true without the label.
    NotEquals,
    /// `key`
    Exists,
    /// `!key`
    DoesNotExist,
    /// `key>5`
    GreaterThan,
    /// `key<5`
    LessThan,
}

/// One condition on one label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// The label's key.
    pub key: String,
    /// The relation.
    pub operator: Operator,
    /// Sorted, without duplicates.
    pub values: Vec<String>,
}

/// A conjunction of requirements, ordered by key. Empty selects everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
    nothing: bool,
}

impl Requirement {
    /// Checks key and values; the errors are kube-apiserver's.
    pub fn new(key: &str, operator: Operator, values: Vec<String>) -> Result<Self, SelectorError> {
        let mut problems = Vec::new();
        let rendered = || serde_json::to_string(&values).unwrap_or_default();
        push_key_problem(&mut problems, "key", key);
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => problems.push(format!(
                "values: Invalid value: {}: for 'in', 'notin' operators, values set can't be empty",
                rendered()
            )),
            Operator::Equals | Operator::DoubleEquals | Operator::NotEquals if values.len() != 1 => {
                problems.push(format!(
                    "values: Invalid value: {}: exact-match compatibility requires one single value",
                    rendered()
                ));
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => problems.push(format!(
                "values: Invalid value: {}: values set must be empty for exists and does not exist",
                rendered()
            )),
            Operator::GreaterThan | Operator::LessThan => {
                if values.len() != 1 {
                    problems.push(format!(
                        "values: Invalid value: {}: for 'Gt', 'Lt' operators, exactly one value is required",
                        rendered()
                    ));
                }
                for (index, value) in values.iter().enumerate().filter(|(_, v)| v.parse::<i64>().is_err()) {
                    problems.push(format!(
                        "values[{index}]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
                    ));
                }
            }
            Operator::In
            | Operator::NotIn
            | Operator::Equals
            | Operator::DoubleEquals
            | Operator::NotEquals
            | Operator::Exists
            | Operator::DoesNotExist => {}
        }
        for (index, value) in values.iter().enumerate() {
            let found = value_problems(value);
            if !found.is_empty() {
                problems
                    .push(format!("values[{index}][{key}]: Invalid value: {value:?}: {}", found.join("; ")));
            }
        }
        match problems.len() {
            0 => Ok(Requirement { key: key.to_owned(), operator, values }),
            1 => Err(SelectorError(problems.remove(0))),
            _ => Err(SelectorError(format!("[{}]", problems.join(", ")))),
        }
    }

    fn admits(&self, label: Option<&str>) -> bool {
        let held = |value: &str| self.values.iter().any(|v| v == value);
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => label.is_some_and(held),
            Operator::NotIn | Operator::NotEquals => !label.is_some_and(held),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::GreaterThan | Operator::LessThan => {
                let number = |text: &str| text.parse::<i64>().ok();
                let (Some(have), Some(bound)) =
                    (label.and_then(number), self.values.first().and_then(|v| number(v)))
                else {
                    return false;
                };
                if self.operator == Operator::GreaterThan { have > bound } else { have < bound }
            }
        }
    }
}

pub(super) fn push_key_problem(problems: &mut Vec<String>, path: &str, key: &str) {
    let found = key_problems(key);
    if !found.is_empty() {
        problems.push(format!("{path}: Invalid value: {key:?}: {}", found.join("; ")));
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.values.join(",");
        let key = &self.key;
        match self.operator {
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.requirements.iter().map(ToString::to_string).collect();
        f.write_str(&parts.join(","))
    }
}

impl LabelSelector {
    /// Selects every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Selects no object, as an absent selector does.
    pub fn nothing() -> Self {
        LabelSelector { requirements: Vec::new(), nothing: true }
    }

    /// A conjunction of `requirements`.
    pub fn new(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        LabelSelector { requirements, nothing: false }
    }

    /// The form of the `labelSelector` query parameter: `a=b,c in (d,e),!f,g>5`.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        parse::selector(text).map(Self::new).map_err(SelectorError)
    }

    /// A `LabelSelector` object. `null` selects nothing, `{}` everything.
    pub fn from_json(value: &Value) -> Result<Self, SelectorError> {
        let Value::Object(fields) = value else {
            return if value.is_null() {
                Ok(Self::nothing())
            } else {
                Err(SelectorError("a label selector must be an object".to_owned()))
            };
        };
        let mut requirements = Vec::new();
        if let Some(Value::Object(labels)) = fields.get("matchLabels") {
            for (key, value) in labels {
                let text = value.as_str().unwrap_or_default().to_owned();
                requirements.push(Requirement::new(key, Operator::Equals, vec![text])?);
            }
        }
        if let Some(Value::Array(expressions)) = fields.get("matchExpressions") {
            for expression in expressions {
                let text = |name: &str| expression.get(name).and_then(Value::as_str).unwrap_or_default();
                let operator = match text("operator") {
                    "In" => Operator::In,
                    "NotIn" => Operator::NotIn,
                    "Exists" => Operator::Exists,
                    "DoesNotExist" => Operator::DoesNotExist,
                    other => {
                        return Err(SelectorError(format!(
                            "{other:?} is not a valid label selector operator"
                        )));
                    }
                };
                let values: BTreeSet<String> = expression
                    .get("values")
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
                    .filter_map(|v| v.as_str().map(str::to_owned))
                    .collect();
                requirements.push(Requirement::new(text("key"), operator, values.into_iter().collect())?);
            }
        }
        Ok(Self::new(requirements))
    }

    /// Whether an object with these labels is selected.
    pub fn matches<K, V>(&self, labels: &BTreeMap<K, V>) -> bool
    where
        K: Borrow<str> + Ord,
        V: AsRef<str>,
    {
        self.matches_with(|key| labels.get(key).map(AsRef::as_ref))
    }

    /// Whether an object is selected whose labels `lookup` knows.
    pub fn matches_with<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        !self.nothing && self.requirements.iter().all(|r| r.admits(lookup(&r.key)))
    }

    /// True when every object is selected.
    pub fn is_everything(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    /// The requirements, ordered by key.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }
}
