//! The bytes of entries and outcomes: our own format, versioned, without framing or checksum.
//!
//! Numbers are LEB128, strings and bytes carry their length, variants a tag of one byte.

mod entry;
mod outcome;
mod primitive;

pub use primitive::{DecodeError, Reader, Writer};

pub(crate) use entry::{read_claims, read_key, write_claims, write_key};
pub(crate) use outcome::{read_object, read_outcome, write_object, write_outcome};
