//! What decisions are made from: one view, the time, and why the last write was refused.

use jiff::Timestamp;
use litek8s_store::View;

use super::action::{Decision, Failed};
use super::index::Index;
use super::subject::{Duty, Subject};
use super::{deployment, replica_set};

/// What a decision looks at.
pub(super) struct Facts<'a> {
    /// The state.
    pub(super) view: &'a View,
    /// What is selected and what is nobody's, at the same revision.
    pub(super) index: &'a Index,
    /// The time.
    pub(super) now: Timestamp,
    /// A write of this round was refused: only the status is to be brought up to date.
    pub(super) failed: Option<&'a Failed>,
}

/// What is to be done about a subject now. Doing it changes the state so that the same is not decided again.
pub(super) fn decide(facts: &Facts<'_>, subject: &Subject) -> Decision {
    let Some(object) = facts.view.get(&subject.key()) else { return Decision::nothing() };
    match subject.duty {
        Duty::ReplicationController | Duty::ReplicaSet => {
            replica_set::decide(facts, subject.duty.kind(), object)
        }
        Duty::Deployment => deployment::decide(facts, object),
    }
}
