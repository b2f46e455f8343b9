//! Field selectors: `metadata.name=a,status.phase!=Running`, with `\` before `,`, `=` and `\` in values.

use std::borrow::Cow;
use std::fmt;

use super::SelectorError;

/// One comparison of a field with a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldTerm {
    /// The field's path as the resource offers it, for example `spec.nodeName`.
    pub field: String,
    /// The text to compare with.
    pub value: String,
    /// `!=`
    pub negated: bool,
}

/// A conjunction of comparisons. Empty selects everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldSelector {
    terms: Vec<FieldTerm>,
}

impl FieldSelector {
    /// Selects every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// The form of the `fieldSelector` query parameter.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut parts = split_terms(text);
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts.into_iter().filter(|p| !p.is_empty()) {
            let Some((field, negated, value)) = split_term(part) else {
                return Err(SelectorError(format!("invalid selector: '{text}'; can't understand '{part}'")));
            };
            terms.push(FieldTerm { field: field.to_owned(), value: unescape(value)?, negated });
        }
        Ok(FieldSelector { terms })
    }

    /// Whether an object is selected; `lookup` gives a field's text, an absent field counts as empty.
    pub fn matches<'a>(&self, lookup: impl Fn(&str) -> Option<Cow<'a, str>>) -> bool {
        self.terms.iter().all(|term| {
            let equal = lookup(&term.field).as_deref().unwrap_or_default() == term.value;
            equal != term.negated
        })
    }

    /// True when every object is selected.
    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// The comparisons, in the order of their text.
    pub fn terms(&self) -> &[FieldTerm] {
        &self.terms
    }

    /// The value that `field` must have for any object to be selected: `metadata.name=x` reads one object.
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.terms.iter().find(|t| t.field == field && !t.negated).map(|t| t.value.as_str())
    }

    /// Refuses fields that the resource does not offer.
    pub fn check(&self, supported: impl Fn(&str) -> bool) -> Result<(), SelectorError> {
        match self.terms.iter().find(|t| !supported(&t.field)) {
            Some(term) => Err(SelectorError(format!("field label not supported: {}", term.field))),
            None => Ok(()),
        }
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let operator = if term.negated { "!=" } else { "=" };
            let value = term.value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
            write!(f, "{comma}{}{operator}{value}", term.field)?;
        }
        Ok(())
    }
}

/// The terms between commas that no backslash protects.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    term.char_indices().find_map(|(at, _)| {
        let rest = &term[at..];
        [("!=", true), ("==", false), ("=", false)].into_iter().find_map(|(operator, negated)| {
            rest.strip_prefix(operator).map(|value| (&term[..at], negated, value))
        })
    })
}

fn unescape(value: &str) -> Result<String, SelectorError> {
    let mut text = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => text.push(escaped),
                other => {
                    let sequence: String = std::iter::once('\\').chain(other).collect();
                    return Err(SelectorError(format!(
                        "invalid field selector: invalid escape sequence: {sequence}"
                    )));
                }
            },
            ',' | '=' => {
                return Err(SelectorError(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(c)
                )));
            }
            _ => text.push(c),
        }
    }
    Ok(text)
}
