//! The part of JSONPath that printer columns and selectable fields use: fields, indices, slices of all, filters by
//! equality and recursive descent; as kubectl's dialect, where `.spec.x` and `{.spec.x}` are the same.

use std::fmt::Write as _;

use serde_json::Value;

/// A parsed path.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath {
    steps: Box<[Step]>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(Box<str>),
    Index(i64),
    Slice(Option<i64>, Option<i64>),
    Wildcard,
    Descend,
    Filter { left: Box<[Step]>, operator: Operator, right: Value },
    Exists(Box<[Step]>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Why a path is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JsonPathError(String);

impl JsonPath {
    /// Plain fields joined by dots; never fails. A leading dot is ignored.
    pub fn fields(path: &str) -> Self {
        let steps = path.split('.').filter(|name| !name.is_empty()).map(|name| Step::Field(name.into()));
        Self { steps: steps.collect() }
    }

    /// Reads a path, with or without braces around it.
    pub fn parse(text: &str) -> Result<Self, JsonPathError> {
        let inner = text.trim();
        let inner = inner.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(inner);
        let inner = inner.strip_prefix('$').unwrap_or(inner);
        if inner.is_empty() {
            return Err(JsonPathError("unexpected end of path".to_owned()));
        }
        let mut reader = Reader { rest: inner };
        let steps = reader.steps("")?;
        Ok(Self { steps: steps.into() })
    }

    /// The names of the fields when the path is nothing but fields.
    pub fn plain(&self) -> Option<Vec<&str>> {
        self.steps
            .iter()
            .map(|step| if let Step::Field(name) = step { Some(&**name) } else { None })
            .collect()
    }

    /// The values that the path leads to, in order; none when it leads nowhere.
    pub fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        walk(&self.steps, value)
    }
}

/// A value as a cell shows it: strings plain, everything else as JSON.
pub fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// Several values joined by commas, as kubectl prints a list of results.
pub fn joined(values: &[&Value]) -> String {
    let mut out = String::new();
    for (at, value) in values.iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        let _ = write!(out, "{comma}{}", text(value));
    }
    out
}

fn walk<'a>(steps: &[Step], value: &'a Value) -> Vec<&'a Value> {
    let mut current = vec![value];
    for step in steps {
        let mut next = Vec::new();
        for value in current {
            advance(step, value, &mut next);
        }
        current = next;
    }
    current
}

fn advance<'a>(step: &Step, value: &'a Value, out: &mut Vec<&'a Value>) {
    match step {
        Step::Field(name) => out.extend(value.get(&**name)),
        Step::Wildcard => children(value, out),
        Step::Descend => descend(value, out),
        Step::Index(index) => {
            let items = value.as_array().map_or(&[][..], Vec::as_slice);
            out.extend(position(*index, items.len()).and_then(|at| items.get(at)));
        }
        Step::Slice(from, to) => {
            let items = value.as_array().map_or(&[][..], Vec::as_slice);
            let length = items.len();
            let bound = |at: &Option<i64>, absent| at.map_or(absent, |at| clamp(at, length));
            let (from, to) = (bound(from, 0), bound(to, length));
            out.extend(items.get(from..to.max(from)).unwrap_or(&[]));
        }
        Step::Filter { left, operator, right } => {
            let mut items = Vec::new();
            children(value, &mut items);
            out.extend(items.into_iter().filter(|item| {
                walk(left, item).first().is_some_and(|found| compare(found, *operator, right))
            }));
        }
        Step::Exists(path) => {
            let mut items = Vec::new();
            children(value, &mut items);
            out.extend(items.into_iter().filter(|item| !walk(path, item).is_empty()));
        }
    }
}

fn children<'a>(value: &'a Value, out: &mut Vec<&'a Value>) {
    match value {
        Value::Array(items) => out.extend(items),
        Value::Object(fields) => out.extend(fields.values()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn descend<'a>(value: &'a Value, out: &mut Vec<&'a Value>) {
    out.push(value);
    let mut below = Vec::new();
    children(value, &mut below);
    for child in below {
        descend(child, out);
    }
}

fn position(index: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).ok()?;
    usize::try_from(if index < 0 { index + length } else { index }).ok()
}

fn clamp(index: i64, length: usize) -> usize {
    position(index, length).unwrap_or(0).min(length)
}

fn compare(found: &Value, operator: Operator, wanted: &Value) -> bool {
    let order = match (found, wanted) {
        (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        _ => Some(text(found).cmp(&text(wanted))),
    };
    let Some(order) = order else { return false };
    match operator {
        Operator::Equal => order.is_eq(),
        Operator::NotEqual => order.is_ne(),
        Operator::Less => order.is_lt(),
        Operator::LessOrEqual => order.is_le(),
        Operator::Greater => order.is_gt(),
        Operator::GreaterOrEqual => order.is_ge(),
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    /// Steps up to the end or to one of the characters of `stop`.
    fn steps(&mut self, stop: &str) -> Result<Vec<Step>, JsonPathError> {
        let mut steps = Vec::new();
        while let Some(first) = self.rest.chars().next() {
            if stop.contains(first) {
                break;
            }
            if self.take("..") {
                steps.push(Step::Descend);
                if !self.rest.starts_with('[') {
                    steps.push(self.name()?);
                }
            } else if self.take(".") {
                if !self.rest.is_empty() && !self.rest.starts_with('[') {
                    steps.push(self.name()?);
                }
            } else if self.take("[") {
                steps.push(self.bracket()?);
            } else {
                steps.push(self.name()?);
            }
        }
        Ok(steps)
    }

    fn take(&mut self, prefix: &str) -> bool {
        match self.rest.strip_prefix(prefix) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn name(&mut self) -> Result<Step, JsonPathError> {
        let mut name = String::new();
        let mut chars = self.rest.char_indices();
        let mut end = self.rest.len();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => name.extend(chars.next().map(|(_, escaped)| escaped)),
                '.' | '[' | ']' | '{' | '}' | '=' | '!' | '<' | '>' | ' ' | ')' => {
                    end = at;
                    break;
                }
                c => name.push(c),
            }
        }
        self.rest = &self.rest[end..];
        match name.as_str() {
            "" => Err(JsonPathError(format!("unrecognized character in action: {}", self.rest))),
            "*" => Ok(Step::Wildcard),
            _ => Ok(Step::Field(name.into())),
        }
    }

    fn bracket(&mut self) -> Result<Step, JsonPathError> {
        let unterminated = || JsonPathError("unterminated array".to_owned());
        if self.take("?(") {
            let step = self.filter()?;
            return if self.take(")]") { Ok(step) } else { Err(JsonPathError("unterminated filter".into())) };
        }
        if let Some(quote) = self.rest.chars().next().filter(|c| matches!(c, '\'' | '"')) {
            let text = self.quoted(quote)?;
            return if self.take("]") { Ok(Step::Field(text.into())) } else { Err(unterminated()) };
        }
        let (inner, rest) = self.rest.split_once(']').ok_or_else(unterminated)?;
        self.rest = rest;
        let number = |text: &str| -> Result<Option<i64>, JsonPathError> {
            if text.is_empty() {
                return Ok(None);
            }
            text.parse().map(Some).map_err(|_| JsonPathError(format!("invalid array index {inner}")))
        };
        match inner.trim() {
            "*" => Ok(Step::Wildcard),
            range if range.contains(':') => {
                let (from, to) = range.split_once(':').unwrap_or((range, ""));
                Ok(Step::Slice(number(from)?, number(to)?))
            }
            index => number(index)?.map(Step::Index).ok_or_else(|| JsonPathError("empty array index".into())),
        }
    }

    fn quoted(&mut self, quote: char) -> Result<String, JsonPathError> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => text.extend(chars.next().map(|(_, escaped)| escaped)),
                c if c == quote => {
                    self.rest = &self.rest[at + c.len_utf8()..];
                    return Ok(text);
                }
                c => text.push(c),
            }
        }
        Err(JsonPathError("unterminated quoted string".to_owned()))
    }

    fn filter(&mut self) -> Result<Step, JsonPathError> {
        self.spaces();
        if !self.take("@") {
            return Err(JsonPathError("a filter compares a path that starts with @".to_owned()));
        }
        let left = self.steps("=!<> )")?.into();
        self.spaces();
        let operators = [
            ("==", Operator::Equal),
            ("!=", Operator::NotEqual),
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ];
        let Some((_, operator)) = operators.into_iter().find(|(text, _)| self.take(text)) else {
            return Ok(Step::Exists(left));
        };
        self.spaces();
        let right = match self.rest.chars().next() {
            Some(quote @ ('\'' | '"')) => Value::from(self.quoted(quote)?),
            _ => {
                let end = self.rest.find([')', ' ']).unwrap_or(self.rest.len());
                let (word, rest) = self.rest.split_at(end);
                self.rest = rest;
                serde_json::from_str(word).unwrap_or_else(|_| Value::from(word))
            }
        };
        self.spaces();
        Ok(Step::Filter { left, operator, right })
    }

    fn spaces(&mut self) {
        self.rest = self.rest.trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(path: &str) -> String {
        let object = json!({
            "spec": {"replicas": 3, "hosts": ["a", "b", "c"], "a.b/c": "dotted"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Old", "status": "False"}]},
        });
        joined(&JsonPath::parse(path).unwrap().find(&object))
    }

    #[test]
    fn paths_lead_where_kubectl_goes() {
        let cases = [
            (".spec.replicas", "3"),
            ("{.spec.replicas}", "3"),
            ("$.spec.replicas", "3"),
            (".spec.hosts[0]", "a"),
            (".spec.hosts[-1]", "c"),
            (".spec.hosts[*]", "a,b,c"),
            (".spec.hosts[1:]", "b,c"),
            (".spec.hosts", r#"["a","b","c"]"#),
            (r".spec.a\.b/c", "dotted"),
            (".spec['a.b/c']", "dotted"),
            (r#".status.conditions[?(@.type=="Ready")].status"#, "True"),
            (".status.conditions[?(@.type != 'Ready')].type", "Old"),
            (".status.conditions[?(@.missing)].type", ""),
            ("..type", "Ready,Old"),
            (".nowhere.at.all", ""),
        ];
        for (path, expected) in cases {
            assert_eq!(found(path), expected, "{path}");
        }
    }

    #[test]
    fn broken_paths_are_refused() {
        for path in ["", "{}", ".a[", ".a[x]", ".a[?(@.b", ".a['b"] {
            assert!(JsonPath::parse(path).is_err(), "{path:?}");
        }
    }
}
