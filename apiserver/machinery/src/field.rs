//! Paths into an object and what is wrong there, in the words of kube-apiserver, which clients show and match.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

/// Where in an object one is; borrowed links, so that walking an object allocates nothing until something is wrong.
#[derive(Debug, Clone, Copy)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    segment: Segment<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Segment<'a> {
    Root,
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    /// The object itself; prints as `<nil>` alone and as nothing in front of a field.
    pub const fn root() -> Self {
        Self { parent: None, segment: Segment::Root }
    }

    /// A first field.
    pub const fn new(field: &'a str) -> Self {
        Self { parent: None, segment: Segment::Field(field) }
    }

    /// A field of this.
    #[must_use]
    pub const fn child(&'a self, field: &'a str) -> Self {
        Self { parent: Some(self), segment: Segment::Field(field) }
    }

    /// An item of this list.
    #[must_use]
    pub const fn index(&'a self, index: usize) -> Self {
        Self { parent: Some(self), segment: Segment::Index(index) }
    }

    /// An entry of this map, printed in brackets.
    #[must_use]
    pub const fn key(&'a self, key: &'a str) -> Self {
        Self { parent: Some(self), segment: Segment::Key(key) }
    }

    fn is_root(&self) -> bool {
        matches!(self.segment, Segment::Root)
    }

    /// Whether this is the object itself.
    pub(crate) fn is_top(&self) -> bool {
        self.is_root()
    }

    /// Whether the last part is this field.
    pub(crate) fn ends_with(&self, field: &str) -> bool {
        matches!(self.segment, Segment::Field(name) if name == field)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.parent.filter(|parent| !parent.is_root());
        if let Some(parent) = inner {
            parent.write(f)?;
        }
        match self.segment {
            Segment::Root => Ok(()),
            Segment::Field(name) if inner.is_some() => write!(f, ".{name}"),
            Segment::Field(name) => f.write_str(name),
            Segment::Index(index) => write!(f, "[{index}]"),
            Segment::Key(key) => write!(f, "[{key}]"),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() { f.write_str("<nil>") } else { self.write(f) }
    }
}

/// The sort of a field error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FieldErrorKind {
    /// A value that must be there is not.
    Required,
    /// A malformed value.
    Invalid,
    /// A value that is none of the known ones.
    NotSupported,
    /// A value that must be unique and is not.
    Duplicate,
    /// A value not permitted here and now.
    Forbidden,
    /// Too many bytes or characters.
    TooLong,
    /// Too few bytes or characters.
    TooShort,
    /// Too many items.
    TooMany,
    /// Too few items.
    TooFew,
    /// A value of another type than the schema's.
    TypeInvalid,
    /// A value that names something which is not there.
    NotFound,
    /// Our own fault.
    Internal,
}

impl FieldErrorKind {
    /// The reason of the cause in a Status.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooShort => "FieldValueTooShort",
            Self::TooMany => "FieldValueTooMany",
            Self::TooFew => "FieldValueTooFew",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotFound => "FieldValueNotFound",
            Self::Internal => "InternalError",
        }
    }

    /// The words in front of the value.
    pub fn text(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooShort => "Too short",
            Self::TooMany => "Too many",
            Self::TooFew => "Too few",
            Self::NotFound => "Not found",
            Self::Internal => "Internal error",
        }
    }
}

/// One thing that is wrong with an object.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// The sort of error.
    pub kind: FieldErrorKind,
    /// Where, as in `spec.ports[0].port`.
    pub path: String,
    /// The offending value; `None` prints no value.
    pub bad_value: Option<Value>,
    /// What would be right; may be empty.
    pub detail: String,
}

impl FieldError {
    fn with(
        kind: FieldErrorKind,
        path: impl ToString,
        bad: Option<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self { kind, path: path.to_string(), bad_value: bad, detail: detail.into() }
    }

    /// A value that must be there is not.
    pub fn required(path: impl ToString, detail: impl Into<String>) -> Self {
        Self::with(FieldErrorKind::Required, path, None, detail)
    }

    /// A malformed value.
    pub fn invalid(path: impl ToString, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::with(FieldErrorKind::Invalid, path, Some(value.into()), detail)
    }

    /// A value of another type than the schema's.
    pub fn type_invalid(path: impl ToString, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::with(FieldErrorKind::TypeInvalid, path, Some(value.into()), detail)
    }

    /// A value that is none of the known ones, which are listed.
    pub fn not_supported<S: AsRef<str>>(
        path: impl ToString,
        value: impl Into<Value>,
        supported: impl IntoIterator<Item = S>,
    ) -> Self {
        let known: Vec<String> = supported.into_iter().map(|value| quote(value.as_ref())).collect();
        let detail =
            if known.is_empty() { String::new() } else { format!("supported values: {}", known.join(", ")) };
        Self::with(FieldErrorKind::NotSupported, path, Some(value.into()), detail)
    }

    /// A value that must be unique and is not.
    pub fn duplicate(path: impl ToString, value: impl Into<Value>) -> Self {
        Self::with(FieldErrorKind::Duplicate, path, Some(value.into()), "")
    }

    /// A value not permitted here and now.
    pub fn forbidden(path: impl ToString, detail: impl Into<String>) -> Self {
        Self::with(FieldErrorKind::Forbidden, path, None, detail)
    }

    /// More bytes than allowed.
    pub fn too_long(path: impl ToString, max_bytes: usize) -> Self {
        let unit = if max_bytes == 1 { "byte" } else { "bytes" };
        Self::with(FieldErrorKind::TooLong, path, None, format!("may not be more than {max_bytes} {unit}"))
    }

    /// More items than allowed.
    pub fn too_many(path: impl ToString, actual: usize, max: usize) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        Self::with(
            FieldErrorKind::TooMany,
            path,
            Some(Value::from(actual)),
            format!("must have at most {max} {unit}"),
        )
    }

    /// A value that names something which is not there.
    pub fn not_found(path: impl ToString, value: impl Into<Value>) -> Self {
        Self::with(FieldErrorKind::NotFound, path, Some(value.into()), "")
    }

    /// The text without the path: the message of a cause in a Status.
    pub fn body(&self) -> String {
        let mut text = self.kind.text().to_owned();
        if let (Some(value), true) = (&self.bad_value, self.shows_value()) {
            text.push_str(": ");
            text.push_str(&shown(value));
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }

    fn shows_value(&self) -> bool {
        !matches!(
            self.kind,
            FieldErrorKind::Required
                | FieldErrorKind::Forbidden
                | FieldErrorKind::TooLong
                | FieldErrorKind::TooShort
                | FieldErrorKind::Internal
        )
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.body())
    }
}

impl std::error::Error for FieldError {}

/// All errors as one text: the text of a single one, or `[a, b]` of several, each distinct text once.
pub fn aggregate(errors: &[FieldError]) -> String {
    let mut seen = BTreeSet::new();
    let texts: Vec<String> =
        errors.iter().map(ToString::to_string).filter(|text| seen.insert(text.clone())).collect();
    match texts.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

/// A value as Go shows it in an error: strings quoted, numbers and booleans plain, the rest as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
        }
    }
}

/// A string in double quotes with the escapes of Go's `%q`.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 || c == '\u{7f}' => out.push_str(&format!("\\x{:02x}", c as u32)),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_print_as_upstream_prints_them() {
        let root = Path::root();
        let spec = root.child("spec");
        let ports = spec.child("ports");
        let port = ports.index(2);
        assert_eq!(port.child("port").to_string(), "spec.ports[2].port");
        let labels = Path::new("metadata");
        let labels = labels.child("labels");
        assert_eq!(labels.key("a/b").to_string(), "metadata.labels[a/b]");
        assert_eq!(Path::root().to_string(), "<nil>");
    }

    #[test]
    fn errors_have_the_words_clients_match() {
        let cases = [
            (FieldError::required("spec.x", ""), "spec.x: Required value"),
            (FieldError::invalid("a", "b", "too odd"), r#"a: Invalid value: "b": too odd"#),
            (FieldError::invalid("a", 5, ""), "a: Invalid value: 5"),
            (
                FieldError::invalid("a", json!({"k": "<v>"}), "no"),
                r#"a: Invalid value: {"k":"\u003cv\u003e"}: no"#,
            ),
            (
                FieldError::not_supported("p", "x", ["TCP", "UDP"]),
                r#"p: Unsupported value: "x": supported values: "TCP", "UDP""#,
            ),
            (FieldError::duplicate("p", "x"), r#"p: Duplicate value: "x""#),
            (FieldError::forbidden("p", "no"), "p: Forbidden: no"),
            (FieldError::too_long("p", 253), "p: Too long: may not be more than 253 bytes"),
            (FieldError::too_many("p", 3, 1), "p: Too many: 3: must have at most 1 item"),
        ];
        for (error, text) in cases {
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn several_errors_stand_in_brackets_once_each() {
        let one = FieldError::required("a", "");
        let two = FieldError::required("b", "");
        assert_eq!(aggregate(std::slice::from_ref(&one)), "a: Required value");
        assert_eq!(aggregate(&[one.clone(), two, one]), "[a: Required value, b: Required value]");
    }
}
