//! One-line descriptions of kinds and of the most common fields, for `kubectl explain`.

use std::sync::Arc;

/// Lines `type text` and `type.field text`; `*` stands for any type. Sorted.
const TEXTS: &str = include_str!("descriptions.txt");

/// What a type is.
pub(super) fn kind(name: &str) -> Option<Arc<str>> {
    lookup(name)
}

/// What a field is: what is said of this type's field, or of the field in any type.
pub(super) fn field(owner: &str, field: &str) -> Option<Arc<str>> {
    lookup(&format!("{owner}.{field}")).or_else(|| lookup(&format!("*.{field}")))
}

fn lookup(key: &str) -> Option<Arc<str>> {
    let mut lines = TEXTS.lines();
    lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')).map(Arc::from)
}
