//! The window of past mutations that all watchers share, and the way back to older views.

use std::sync::Arc;

use imbl::OrdMap;

use crate::event::{Event, EventKind, Expired};
use crate::frame::Frame;
use crate::key::Revision;

/// How much of the past is kept.
///
/// Servers may differ in these: they bound what can be asked, never what is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most events.
    pub events: usize,
    /// The most bytes of objects in events.
    pub bytes: usize,
    /// A whole view is kept every this many revisions, to start the way back from.
    pub frame_interval: Revision,
    /// The most of those views; they hold on to maps that would be free otherwise.
    pub frames: usize,
}

impl Default for Limits {
    /// At 600 mutations a second, 83 seconds: more than the 75 a kube-apiserver keeps.
    fn default() -> Self {
        Self { events: 50_000, bytes: 48 << 20, frame_interval: 512, frames: 16 }
    }
}

/// What an event costs beside its JSON: the parsed metadata, keys and map nodes.
const EVENT_OVERHEAD: usize = 512;

/// The past. A clone costs a few reference counts; the map's nodes are the shared chunks.
#[derive(Clone)]
pub(crate) struct History {
    limits: Limits,
    /// Revisions are consecutive: every mutation has one event.
    events: OrdMap<Revision, Arc<Event>>,
    bytes: usize,
    frames: OrdMap<Revision, Frame>,
}

impl History {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, events: OrdMap::new(), bytes: 0, frames: OrdMap::new() }
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// Adds the event that led to `after`.
    pub(crate) fn push(&mut self, event: Event, after: &Frame) {
        self.bytes += cost(&event);
        if event.revision.is_multiple_of(self.limits.frame_interval.max(1)) {
            self.frames.insert(event.revision, after.clone());
        }
        self.events.insert(event.revision, Arc::new(event));
        self.trim();
    }

    /// Adds an event whose view is not at hand any more.
    pub(crate) fn push_past(&mut self, event: Event) {
        self.bytes += cost(&event);
        self.events.insert(event.revision, Arc::new(event));
        self.trim();
    }

    fn trim(&mut self) {
        while self.events.len() > self.limits.events.max(1)
            || (self.bytes > self.limits.bytes && self.events.len() > 1)
        {
            let Some((revision, event)) = self.events.get_min().cloned() else {
                break;
            };
            self.bytes = self.bytes.saturating_sub(cost(&event));
            self.events.remove(&revision);
        }
        while let Some((revision, _)) = self.frames.get_min() {
            let revision = *revision;
            let unreachable = self.oldest().is_none_or(|oldest| revision < oldest);
            if !unreachable && self.frames.len() <= self.limits.frames {
                break;
            }
            self.frames.remove(&revision);
        }
    }

    /// The revision of the oldest event.
    pub(crate) fn oldest(&self) -> Option<Revision> {
        self.events.get_min().map(|(revision, _)| *revision)
    }

    /// The events in `(after, upto]`, at most `max` of them; the caller checked the window.
    pub(crate) fn range(
        &self,
        after: Revision,
        upto: Revision,
        max: usize,
    ) -> impl Iterator<Item = &Arc<Event>> {
        let upto = upto.max(after);
        self.events
            .range((std::ops::Bound::Excluded(after), std::ops::Bound::Included(upto)))
            .take(if upto == after { 0 } else { max })
            .map(|(_, event)| event)
    }

    /// The newest events, at most `count` of them and `bytes` large, in order.
    pub(crate) fn tail(&self, count: usize, bytes: usize) -> Vec<Arc<Event>> {
        let mut room = bytes;
        let mut tail: Vec<_> = self
            .events
            .iter()
            .rev()
            .take(count)
            .map_while(|(_, event)| {
                room = room.checked_sub(cost(event))?;
                Some(event.clone())
            })
            .collect();
        tail.reverse();
        tail
    }

    /// What there was at `revision`, found by undoing events from the next kept frame.
    pub(crate) fn frame_at(&self, current: &Frame, revision: Revision) -> Result<Frame, Expired> {
        let oldest = self.oldest().unwrap_or(current.revision + 1);
        if revision > current.revision || revision + 1 < oldest {
            return Err(Expired {
                requested: revision,
                oldest: oldest.saturating_sub(1),
                current: current.revision,
            });
        }
        let start = self.frames.get_next(&revision).map(|(_, frame)| frame);
        let mut frame = start.unwrap_or(current).clone();
        let undone: Vec<_> = self.range(revision, frame.revision, usize::MAX).cloned().collect();
        for event in undone.iter().rev() {
            match (&event.previous, event.kind) {
                (Some(previous), EventKind::Modified | EventKind::Deleted) => {
                    frame.put(previous.clone());
                }
                _ => {
                    frame.remove(&event.object.key);
                }
            }
        }
        frame.revision = revision;
        Ok(frame)
    }
}

fn cost(event: &Event) -> usize {
    event.object.json.len() + EVENT_OVERHEAD
}
