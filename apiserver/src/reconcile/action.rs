//! What a controller decides: writes, in order, and when to look again; nothing here writes.

use std::sync::Arc;

use jiff::Timestamp;
use litek8s_store::Object;
use serde_json::Value;

use super::kind::Kind;

/// One write.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    /// Creates an object.
    Create {
        /// Its kind.
        kind: Kind,
        /// The object; with a name or a `generateName`.
        object: Value,
        /// What is told about it.
        note: Option<Note>,
    },
    /// Replaces an object, if nobody changed it meanwhile.
    Update {
        /// Its kind.
        kind: Kind,
        /// `status`, or nothing.
        subresource: &'static str,
        /// The object, with the resource version that it replaces.
        object: Value,
        /// What is told about it.
        note: Option<Note>,
    },
    /// Deletes an object, if it is still this one.
    Delete {
        /// Its kind.
        kind: Kind,
        /// The object.
        object: Arc<Object>,
        /// `Foreground`, `Background`, or what the kind does by itself.
        propagation: &'static str,
        /// Whether it goes at once, without the grace that it would have.
        at_once: bool,
        /// What is told about it.
        note: Option<Note>,
    },
}

impl Action {
    /// Replaces the status.
    pub(super) fn status(kind: Kind, object: Value) -> Self {
        Self::Update { kind, subresource: "status", object, note: None }
    }

    /// Replaces the object.
    pub(super) fn update(kind: Kind, object: Value) -> Self {
        Self::Update { kind, subresource: "", object, note: None }
    }

    /// Creates an object.
    pub(super) fn create(kind: Kind, object: Value) -> Self {
        Self::Create { kind, object, note: None }
    }

    /// Deletes an object.
    pub(super) fn delete(kind: Kind, object: &Arc<Object>) -> Self {
        Self::Delete { kind, object: object.clone(), propagation: "", at_once: false, note: None }
    }

    /// Deletes an object that nobody else will end.
    pub(super) fn end(kind: Kind, object: &Arc<Object>) -> Self {
        Self::Delete { kind, object: object.clone(), propagation: "", at_once: true, note: None }
    }

    /// The same, told to whoever describes the controller's object.
    #[must_use]
    pub(super) fn noted(mut self, noted: Note) -> Self {
        match &mut self {
            Self::Create { note, .. } | Self::Update { note, .. } | Self::Delete { note, .. } => {
                *note = Some(noted);
            }
        }
        self
    }

    /// Whether it replaces a status.
    pub(super) fn is_status(&self) -> bool {
        matches!(self, Self::Update { subresource: "status", .. })
    }
}

/// What an Event says about a write once it is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Note {
    /// `Normal` or `Warning`.
    pub(super) ty: &'static str,
    /// The reason, in one word.
    pub(super) reason: String,
    /// The text; `{}` stands for the name of what was written.
    pub(super) text: String,
}

impl Note {
    /// A note.
    pub(super) fn new(reason: impl Into<String>, text: impl Into<String>) -> Self {
        Self { ty: "Normal", reason: reason.into(), text: text.into() }
    }

    /// A note that somebody should look.
    pub(super) fn warning(reason: impl Into<String>, text: impl Into<String>) -> Self {
        Self { ty: "Warning", ..Self::new(reason, text) }
    }
}

/// Why a write of this round was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failed {
    /// `FailedCreate`, `FailedUpdate` or `FailedDelete`.
    pub(super) reason: &'static str,
    /// The server's message.
    pub(super) message: String,
}

/// What is to be done about a subject now.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Decision {
    /// The writes. Neighbours of one sort are made side by side; the first that fails ends the round.
    pub(super) actions: Vec<Action>,
    /// When there may be something to do without any change before.
    pub(super) again: Option<Timestamp>,
}

impl Decision {
    /// Nothing to do.
    pub(super) fn nothing() -> Self {
        Self::default()
    }

    /// Looks again at `at`, or earlier.
    pub(super) fn wake(&mut self, at: Timestamp) {
        self.again = Some(self.again.map_or(at, |known| known.min(at)));
    }
}

impl From<Vec<Action>> for Decision {
    fn from(actions: Vec<Action>) -> Self {
        Self { actions, again: None }
    }
}
