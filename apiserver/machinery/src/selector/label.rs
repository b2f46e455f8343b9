//! Label selectors, from the query string and from `matchLabels`/`matchExpressions`.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use super::SelectorError;
use super::lex::{Token, lex};
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
            _ => {}
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

fn push_key_problem(problems: &mut Vec<String>, path: &str, key: &str) {
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
        let mut parser = Parser { tokens: lex(text), at: 0 };
        parser.selector().map(Self::new).map_err(SelectorError)
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

struct Parser {
    tokens: Vec<(Token, String)>,
    at: usize,
}

impl Parser {
    /// The current token; `words` reads `in` and `notin` as identifiers.
    fn look(&self, words: bool) -> (Token, &str) {
        let (token, text) = match self.tokens.get(self.at).or(self.tokens.last()) {
            Some((token, text)) => (*token, text.as_str()),
            None => (Token::End, ""),
        };
        match token {
            Token::In | Token::NotIn if words => (Token::Identifier, text),
            _ => (token, text),
        }
    }

    fn take(&mut self, words: bool) -> (Token, String) {
        let (token, text) = self.look(words);
        let taken = (token, text.to_owned());
        self.at += 1;
        taken
    }

    fn selector(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.look(true) {
                (Token::Identifier | Token::Not, _) => {
                    let requirement =
                        self.requirement().map_err(|e| format!("unable to parse requirement: {e}"))?;
                    requirements.push(requirement);
                    match self.take(true) {
                        (Token::End, _) => return Ok(requirements),
                        (Token::Comma, _) => match self.look(true) {
                            (Token::Identifier | Token::Not, _) => {}
                            (_, text) => {
                                return Err(format!("found '{text}', expected: identifier after ','"));
                            }
                        },
                        (_, text) => return Err(format!("found '{text}', expected: ',' or 'end of string'")),
                    }
                }
                (Token::End, _) => return Ok(requirements),
                (_, text) => {
                    return Err(format!("found '{text}', expected: !, identifier, or 'end of string'"));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let (mut token, mut key) = self.take(true);
        let negated = token == Token::Not;
        if negated {
            (token, key) = self.take(true);
        }
        if token != Token::Identifier {
            return Err(format!("found '{key}', expected: identifier"));
        }
        let mut problems = Vec::new();
        push_key_problem(&mut problems, "<nil>", &key);
        if let Some(problem) = problems.pop() {
            return Err(problem);
        }
        let alone = matches!(self.look(true).0, Token::End | Token::Comma);
        let (operator, values) = if negated {
            (Operator::DoesNotExist, BTreeSet::new())
        } else if alone {
            (Operator::Exists, BTreeSet::new())
        } else {
            let operator = self.operator()?;
            let values = match operator {
                Operator::In | Operator::NotIn => self.values()?,
                _ => self.exact_value()?,
            };
            (operator, values)
        };
        Requirement::new(&key, operator, values.into_iter().collect()).map_err(|e| e.0)
    }

    fn operator(&mut self) -> Result<Operator, String> {
        Ok(match self.take(false) {
            (Token::In, _) => Operator::In,
            (Token::NotIn, _) => Operator::NotIn,
            (Token::Equals, _) => Operator::Equals,
            (Token::DoubleEquals, _) => Operator::DoubleEquals,
            (Token::NotEquals, _) => Operator::NotEquals,
            (Token::Greater, _) => Operator::GreaterThan,
            (Token::Less, _) => Operator::LessThan,
            (_, text) => return Err(format!("found '{text}', expected: in, notin, =, ==, !=, gt, lt")),
        })
    }

    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        let (token, text) = self.take(true);
        if token != Token::Open {
            return Err(format!("found '{text}' expected: '('"));
        }
        match self.look(true) {
            (Token::Identifier | Token::Comma, text) => {
                let text = text.to_owned();
                let values = self.list()?;
                if self.take(true).0 != Token::Close {
                    return Err(format!("found '{text}', expected: ')'"));
                }
                Ok(values)
            }
            (Token::Close, _) => {
                self.take(true);
                Ok(BTreeSet::from([String::new()]))
            }
            (_, text) => Err(format!("found '{text}', expected: ',', ')' or identifier")),
        }
    }

    /// Identifiers and commas up to the closing parenthesis; nothing between two commas is the empty value.
    fn list(&mut self) -> Result<BTreeSet<String>, String> {
        let mut values = BTreeSet::new();
        loop {
            match self.take(true) {
                (Token::Identifier, text) => {
                    values.insert(text);
                    match self.look(true) {
                        (Token::Comma, _) => {}
                        (Token::Close, _) => return Ok(values),
                        (_, text) => return Err(format!("found '{text}', expected: ',' or ')'")),
                    }
                }
                (Token::Comma, _) => {
                    if values.is_empty() {
                        values.insert(String::new());
                    }
                    match self.look(true).0 {
                        Token::Close => {
                            values.insert(String::new());
                            return Ok(values);
                        }
                        Token::Comma => {
                            values.insert(String::new());
                        }
                        _ => {}
                    }
                }
                (_, text) => return Err(format!("found '{text}', expected: ',', or identifier")),
            }
        }
    }

    fn exact_value(&mut self) -> Result<BTreeSet<String>, String> {
        if matches!(self.look(true).0, Token::End | Token::Comma) {
            return Ok(BTreeSet::from([String::new()]));
        }
        match self.take(true) {
            (Token::Identifier, text) => Ok(BTreeSet::from([text])),
            (_, text) => Err(format!("found '{text}', expected: identifier")),
        }
    }
}
