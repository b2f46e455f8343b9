//! What became of a command.

use std::sync::Arc;

use crate::command::Claim;
use crate::key::{ObjectKey, Revision};
use crate::object::Object;

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The object now exists.
    Created(Arc<Object>),
    /// The object was replaced by this one.
    Updated(Arc<Object>),
    /// The object is gone; this was its last state, at the deletion's revision.
    Deleted(Arc<Object>),
    /// The outcomes of a batch, in its order.
    Batch(Vec<Outcome>),
    /// Nothing was changed.
    Rejected(Rejection),
}

impl Outcome {
    /// The object of a single change, or why there is none.
    pub fn into_object(self) -> Result<Option<Arc<Object>>, Rejection> {
        match self {
            Self::Created(object) | Self::Updated(object) | Self::Deleted(object) => Ok(Some(object)),
            Self::Batch(_) => Ok(None),
            Self::Rejected(rejection) => Err(rejection),
        }
    }
}

/// Why nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// There is an object of this key.
    #[error("the object already exists")]
    AlreadyExists,
    /// There is no object of this key.
    #[error("the object does not exist")]
    NotFound,
    /// The object is at another revision.
    #[error("the object is at revision {current}")]
    RevisionMismatch {
        /// The revision it is at.
        current: Revision,
    },
    /// The object has another uid.
    #[error("the object has the uid {current}")]
    UidMismatch {
        /// The uid it has.
        current: Arc<str>,
    },
    /// Something that the command claims is held by another object.
    #[error("{claim} is held by {by}")]
    Claimed {
        /// What is held.
        claim: Claim,
        /// Who holds it.
        by: ObjectKey,
    },
    /// The term that the command was bound to is over, or its session has moved past it.
    #[error("the proposer's term is over")]
    Fenced,
    /// The command cannot be applied by anyone.
    #[error("malformed command: {0}")]
    Malformed(String),
}
