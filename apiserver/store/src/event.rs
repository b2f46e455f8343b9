//! What a watcher is told.

use std::sync::Arc;

use crate::key::Revision;
use crate::object::Object;

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It was created.
    Added,
    /// It was replaced.
    Modified,
    /// It was removed.
    Deleted,
}

/// One mutation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The mutation's revision.
    pub revision: Revision,
    /// What happened.
    pub kind: EventKind,
    /// The object after it; for [`EventKind::Deleted`] its last state, at this revision.
    pub object: Arc<Object>,
    /// The object before it, if there was one.
    pub previous: Option<Arc<Object>>,
}

/// The window of history no longer, or not yet, holds what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("revision {requested} is outside of the history from {oldest} to {current}")]
pub struct Expired {
    /// The revision asked for.
    pub requested: Revision,
    /// The oldest revision that events can be resumed after.
    pub oldest: Revision,
    /// The newest revision.
    pub current: Revision,
}
