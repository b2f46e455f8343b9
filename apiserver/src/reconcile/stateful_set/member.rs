//! One pod of a StatefulSet.

use jiff::Timestamp;

use super::super::pod::Pod;
use super::{REVISION, identity};

/// A pod that is there, with its number.
pub(super) struct Member<'a> {
    /// Its number.
    pub(super) ordinal: i64,
    /// The pod.
    pub(super) pod: Pod<'a>,
}

impl<'a> Member<'a> {
    /// The pod as a member; `None` when its name has no number.
    pub(super) fn of(pod: Pod<'a>) -> Option<Self> {
        let (_, ordinal) = identity::split(&pod.object.key.name)?;
        Some(Self { ordinal, pod })
    }

    /// The name.
    pub(super) fn name(&self) -> &str {
        &self.pod.object.key.name
    }

    /// The name of the revision that it was made from.
    pub(super) fn revision(&self) -> &str {
        self.pod.object.meta.labels.get(REVISION).map_or("", String::as_str)
    }

    /// Whether its deletion has begun.
    pub(super) fn is_terminating(&self) -> bool {
        self.pod.object.meta.is_terminating()
    }

    /// Whether it runs and is ready.
    pub(super) fn is_ready(&self) -> bool {
        self.pod.status.phase == "Running" && self.pod.is_ready()
    }

    /// Whether it has been ready for so many seconds.
    pub(super) fn is_available(&self, seconds: i64, now: Timestamp) -> bool {
        self.pod.available_from(seconds).is_some_and(|from| from <= now)
    }

    /// Whether nobody can count on it.
    pub(super) fn is_unavailable(&self, seconds: i64, now: Timestamp) -> bool {
        self.is_terminating() || !self.is_available(seconds, now)
    }
}
