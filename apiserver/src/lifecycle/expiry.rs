//! Events end an hour after they last happened, however late they say that was.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use litek8s_store::{Event, EventKind, Object, ObjectKey};
use serde_json::Value;

use super::edit;
use crate::time::after;

/// How long an Event stays.
const TTL: SignedDuration = SignedDuration::from_hours(1);
/// Events ending within this time end together.
const TOGETHER: SignedDuration = SignedDuration::from_secs(5);

/// When each Event ends.
#[derive(Default)]
pub(super) struct Expiries {
    by_time: BTreeSet<(Timestamp, ObjectKey)>,
    by_key: BTreeMap<ObjectKey, Timestamp>,
}

impl Expiries {
    /// An Event that is there.
    pub(super) fn note(&mut self, object: &Object, now: Timestamp) {
        if *object.key.resource.resource != *"events"
            || !matches!(&*object.key.resource.group, "" | "events.k8s.io")
        {
            return;
        }
        self.forget(&object.key);
        if let Some(last) = edit::value(object).and_then(|value| last_seen(&value)) {
            // What happens later than now happened now at the latest.
            self.insert(object.key.clone(), after(last.min(now), TTL));
        }
    }

    fn insert(&mut self, key: ObjectKey, end: Timestamp) {
        self.by_time.insert((end, key.clone()));
        self.by_key.insert(key, end);
    }

    /// An Event that was due and is still there; one that was renewed meanwhile keeps its new time.
    pub(super) fn put_back(&mut self, key: ObjectKey, now: Timestamp) {
        if !self.by_key.contains_key(&key) {
            self.insert(key, now);
        }
    }

    /// A change of any object.
    pub(super) fn follow(&mut self, event: &Event, now: Timestamp) {
        match event.kind {
            EventKind::Deleted => self.forget(&event.object.key),
            EventKind::Added | EventKind::Modified => self.note(&event.object, now),
        }
    }

    fn forget(&mut self, key: &ObjectKey) {
        if let Some(end) = self.by_key.remove(key) {
            self.by_time.remove(&(end, key.clone()));
        }
    }

    /// How long until the next Event ends; a little longer, so that its neighbours end with it.
    pub(super) fn wait(&self, now: Timestamp) -> Option<Duration> {
        let (end, _) = self.by_time.first()?;
        Some(Duration::try_from(after(*end, TOGETHER).duration_since(now)).unwrap_or(Duration::ZERO))
    }

    /// Every Event whose time has come.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Vec<ObjectKey> {
        let mut due = Vec::new();
        while let Some((end, key)) = self.by_time.first().cloned() {
            if end > now {
                break;
            }
            self.forget(&key);
            due.push(key);
        }
        due
    }
}

/// The last time an Event tells of.
fn last_seen(event: &Value) -> Option<Timestamp> {
    let pointers =
        ["/lastTimestamp", "/eventTime", "/series/lastObservedTime", "/metadata/creationTimestamp"];
    let times = pointers.into_iter().filter_map(|pointer| event.pointer(pointer)?.as_str()?.parse().ok());
    times.max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_latest_of_an_events_times_counts() {
        let event = json!({
            "metadata": {"creationTimestamp": "2024-01-01T00:00:00Z"},
            "eventTime": "2024-01-01T00:00:01.500000Z",
            "series": {"lastObservedTime": "2024-01-01T02:00:00.000000Z"},
            "lastTimestamp": null,
        });
        assert_eq!(last_seen(&event), Some("2024-01-01T02:00:00Z".parse().unwrap()));
        assert_eq!(last_seen(&json!({})), None);
    }
}
