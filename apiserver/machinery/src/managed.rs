//! `metadata.managedFields`: which field manager owns which fields of an object, in memory and on the wire.
//!
//! The sets and their algebra are those of structured-merge-diff; `apply` decides what changes in them.

mod entries;
mod fields_v1;
mod path;
mod set;

pub use entries::{EntryError, Managers, Operation, Owned, OwnerId};
pub use path::{PathElement, path_text};
pub use set::FieldSet;

pub(crate) use entries::is_reset;
pub(crate) use path::same_value;

#[cfg(test)]
mod tests;
