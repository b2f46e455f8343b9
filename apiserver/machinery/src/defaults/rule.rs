//! One row of the table of defaults.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::special;

/// A default that depends on other fields of the same object.
#[derive(Debug, Clone)]
pub struct DefaultRule {
    action: Action,
    conditions: Box<[Condition]>,
}

#[derive(Debug, Clone)]
enum Action {
    Set { field: Arc<str>, value: Arc<Value> },
    Copy { field: Arc<str>, from: Arc<str> },
    Call(special::Special),
}

#[derive(Debug, Clone)]
enum Condition {
    Is { field: Arc<str>, values: Box<[Arc<str>]> },
    There(Arc<str>),
    Absent(Arc<str>),
    Latest { field: Arc<str>, wanted: bool },
}

impl DefaultRule {
    /// Reads a row without its type: `FIELD VALUE [if CONDITION…]` or `@NAME`.
    pub(super) fn parse(row: &str) -> Option<Self> {
        if let Some(name) = row.strip_prefix('@') {
            let action = Action::Call(special::Special::find(name)?);
            return Some(Self { action, conditions: Box::default() });
        }
        let (set, conditions) = row.split_once(" if ").unwrap_or((row, ""));
        let (field, value) = set.split_once(' ')?;
        let action = match value.strip_prefix('=') {
            Some(from) => Action::Copy { field: field.into(), from: from.into() },
            None => Action::Set { field: field.into(), value: Arc::new(serde_json::from_str(value).ok()?) },
        };
        let words = conditions.split(' ').filter(|word| !word.is_empty());
        Some(Self { action, conditions: words.map(Condition::parse).collect() })
    }

    /// Applies the rule to an object of its type.
    pub(super) fn apply(&self, object: &mut Map<String, Value>) {
        if !self.conditions.iter().all(|condition| condition.holds(object)) {
            return;
        }
        match &self.action {
            Action::Set { field, value } => fill(object, field, value),
            Action::Copy { field, from } => {
                if let Some(value) = at(object, from).cloned() {
                    fill(object, field, &value);
                }
            }
            Action::Call(special) => special.apply(object),
        }
    }
}

impl Condition {
    fn parse(word: &str) -> Self {
        if let Some(field) = word.strip_prefix('!') {
            return Self::Absent(field.into());
        }
        if let Some(field) = word.strip_suffix("!~latest") {
            return Self::Latest { field: field.into(), wanted: false };
        }
        if let Some(field) = word.strip_suffix("~latest") {
            return Self::Latest { field: field.into(), wanted: true };
        }
        match word.split_once('=') {
            Some((field, values)) => {
                Self::Is { field: field.into(), values: values.split('|').map(Arc::from).collect() }
            }
            None => Self::There(word.into()),
        }
    }

    fn holds(&self, object: &Map<String, Value>) -> bool {
        match self {
            Self::Is { field, values } => at(object, field)
                .and_then(Value::as_str)
                .is_some_and(|value| values.iter().any(|wanted| &**wanted == value)),
            Self::There(field) => at(object, field).is_some(),
            Self::Absent(field) => at(object, field).is_none(),
            Self::Latest { field, wanted } => {
                let image = at(object, field).and_then(Value::as_str).unwrap_or_default();
                is_latest(image) == *wanted
            }
        }
    }
}

/// The value at a dotted path; `null` is absent.
fn at<'a>(object: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    let mut names = path.split('.');
    let first = object.get(names.next()?)?;
    names.try_fold(first, |value, name| value.get(name)).filter(|value| !value.is_null())
}

/// Sets the value at a dotted path when there is none and its parents exist.
fn fill(object: &mut Map<String, Value>, path: &str, value: &Value) {
    match path.split_once('.') {
        Some((first, rest)) => {
            if let Some(Value::Object(inner)) = object.get_mut(first) {
                fill(inner, rest, value);
            }
        }
        None => {
            let place = object.entry(path).or_insert(Value::Null);
            if place.is_null() {
                *place = value.clone();
            }
        }
    }
}

/// Whether an image reference means the tag `latest`: it says so, or has neither a tag nor a digest.
fn is_latest(image: &str) -> bool {
    let (name, digest) = match image.split_once('@') {
        Some((name, _)) => (name, true),
        None => (image, false),
    };
    let last = name.rsplit('/').next().unwrap_or(name);
    match last.split_once(':') {
        Some((_, tag)) => tag == "latest",
        None => !digest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_without_tag_and_digest_is_the_latest() {
        for (image, latest) in [
            ("nginx", true),
            ("nginx:latest", true),
            ("registry:5000/nginx", true),
            ("nginx:1.27", false),
            ("registry:5000/a/nginx:1", false),
            ("nginx@sha256:abc", false),
        ] {
            assert_eq!(is_latest(image), latest, "{image}");
        }
    }
}
