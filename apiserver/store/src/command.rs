//! What the log holds: one self-contained change an entry.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::key::{ObjectKey, Revision};

/// Something only one object of the cluster may hold: an address, a port, a number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    /// What is divided up, such as `service-ip`.
    pub space: Arc<str>,
    /// The value held, in one spelling only, such as `10.43.0.7`.
    pub value: Arc<str>,
}

impl Claim {
    /// A claim of `value` in `space`.
    pub fn new(space: &str, value: &str) -> Self {
        Self { space: space.into(), value: value.into() }
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.space, self.value)
    }
}

/// What must hold of the current object for a change to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Precondition {
    /// The uid it must have.
    pub uid: Option<Arc<str>>,
    /// The revision it must be at.
    pub revision: Option<Revision>,
}

impl Precondition {
    /// The object must still be at `revision`.
    pub fn at(revision: Revision) -> Self {
        Self { uid: None, revision: Some(revision) }
    }
}

/// A change, with everything that was decided about it: names, times and allocations too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Adds an object that does not exist.
    Create {
        /// Its key.
        key: ObjectKey,
        /// Its JSON without resourceVersion.
        object: Bytes,
        /// What it holds.
        claims: Vec<Claim>,
    },
    /// Replaces an object.
    Update {
        /// Its key.
        key: ObjectKey,
        /// The new JSON without resourceVersion.
        object: Bytes,
        /// What must hold of the current object.
        precondition: Precondition,
        /// All it holds from now on; what it held and is not named is released.
        claims: Vec<Claim>,
    },
    /// Removes an object and releases what it held.
    Delete {
        /// Its key.
        key: ObjectKey,
        /// What must hold of the current object.
        precondition: Precondition,
    },
    /// All of the changes in order, or none of them. A batch holds no batch.
    Batch(Vec<Command>),
}

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The proposer; zero if it does not ask for its proposals to be remembered.
    pub session: u128,
    /// The number of the proposal in its session, from 1.
    pub sequence: u64,
    /// Every proposal of the session up to this one is answered and will not be repeated.
    pub acknowledged: u64,
    /// The only term of the log in which the command may be applied.
    pub bound_term: Option<u64>,
    /// The change.
    pub command: Command,
}
