//! The table of built-in types: one text file of facts, indexed at the first use, each type parsed at its first use.
//!
//! A type opens a line with its short name and flags; its fields follow, one a line, indented by a space:
//! ` name number type flags…`, or ` + number type` for a message that JSON inlines.

mod describe;
mod parse;

use std::sync::{Arc, OnceLock};

use crate::schema::{Schema, TypeName};

const TABLE: &str = include_str!("types/builtin.txt");

struct Entry {
    name: &'static str,
    flags: &'static str,
    fields: &'static str,
    schema: OnceLock<Box<Schema>>,
}

/// Sorted by name, as the file is.
fn entries() -> &'static [Entry] {
    static ENTRIES: OnceLock<Vec<Entry>> = OnceLock::new();
    ENTRIES.get_or_init(|| index(TABLE))
}

fn index(table: &'static str) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut rest = table;
    while !rest.is_empty() {
        let (head, after) = rest.split_once('\n').unwrap_or((rest, ""));
        let length = fields_length(after);
        let (fields, next) = after.split_at(length);
        let (name, flags) = head.split_once(' ').unwrap_or((head, ""));
        entries.push(Entry { name, flags, fields, schema: OnceLock::new() });
        rest = next;
    }
    entries
}

/// How many bytes at the start of `text` are indented lines.
fn fields_length(text: &str) -> usize {
    text.split_inclusive('\n').take_while(|line| line.starts_with(' ')).map(str::len).sum()
}

/// What is said of a field that types of all kinds have, as `metadata`.
pub(crate) fn description(field: &str) -> Option<Arc<str>> {
    describe::field("*", field)
}

/// The type of this short name, as in `core/v1.Pod`.
pub fn find(name: &str) -> Option<TypeName> {
    let place = entries().binary_search_by(|entry| entry.name.cmp(name)).ok()?;
    u16::try_from(place).ok().map(TypeName)
}

/// The short name of a type.
pub fn name(ty: TypeName) -> &'static str {
    entries().get(usize::from(ty.0)).map_or("", |entry| entry.name)
}

/// A type, parsed when it is first asked for.
pub fn schema(ty: TypeName) -> &'static Schema {
    match entries().get(usize::from(ty.0)) {
        Some(entry) => {
            entry.schema.get_or_init(|| Box::new(parse::schema(entry.name, entry.flags, entry.fields)))
        }
        None => Schema::anything(),
    }
}

/// Every type, in the order of names.
pub fn all() -> impl Iterator<Item = TypeName> {
    (0..=u16::MAX).take(entries().len()).map(TypeName)
}

/// Splits a short name into group, version and kind: `apps/v1.Deployment` → `apps`, `v1`, `Deployment`.
/// The group is the last part of the package path (`core`, `meta`, `rbac`), not the API group.
pub fn parts(name: &str) -> Option<(&str, &str, &str)> {
    let (package, kind) = name.split_once('.')?;
    let (group, version) = package.split_once('/')?;
    Some((group, version, kind))
}
