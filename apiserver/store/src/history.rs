//! The window of past mutations that all watchers share, and the way back to older views.

use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;

use crate::event::{Event, EventKind, Expired};
use crate::frame::Frame;
use crate::key::{GroupResource, Revision};

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
    /// Nothing up to this revision was ever here.
    since: Revision,
    /// Revisions are consecutive: every mutation has one event.
    events: OrdMap<Revision, Arc<Event>>,
    /// The same events: who watches one resource does not walk through those of all.
    lines: OrdMap<GroupResource, Line>,
    bytes: usize,
    frames: OrdMap<Revision, Frame>,
}

/// The events of one resource.
#[derive(Clone)]
struct Line {
    events: OrdMap<Revision, Arc<Event>>,
    /// Every later event of the resource is held.
    gone: Revision,
}

impl History {
    /// A history that begins behind `since`.
    pub(crate) fn new(limits: Limits, since: Revision) -> Self {
        Self { limits, since, events: OrdMap::new(), lines: OrdMap::new(), bytes: 0, frames: OrdMap::new() }
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// Adds the event that led to `after`.
    pub(crate) fn push(&mut self, event: Event, after: &Frame) {
        if event.revision.is_multiple_of(self.limits.frame_interval.max(1)) {
            self.frames.insert(event.revision, after.clone());
        }
        self.push_past(event);
    }

    /// Adds an event whose view is not at hand any more.
    pub(crate) fn push_past(&mut self, event: Event) {
        self.bytes += cost(&event);
        let event = Arc::new(event);
        let line = self.lines.entry(event.object.key.resource.clone());
        let line = line.or_insert_with(|| Line { events: OrdMap::new(), gone: self.since });
        line.events.insert(event.revision, event.clone());
        self.events.insert(event.revision, event);
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
            if let Some(line) = self.lines.get_mut(&event.object.key.resource) {
                line.events.remove(&revision);
                line.gone = revision;
            }
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
        between(&self.events, after, upto).take(max)
    }

    /// As [`History::range`], of one resource; the revision behind which all is held if `after` is before it.
    pub(crate) fn range_of(
        &self,
        resource: &GroupResource,
        after: Revision,
        upto: Revision,
        max: usize,
    ) -> Result<impl Iterator<Item = &Arc<Event>>, Revision> {
        let line = self.lines.get(resource);
        let gone = line.map_or(self.since, |line| line.gone);
        if after < gone {
            return Err(gone);
        }
        Ok(line.into_iter().flat_map(move |line| between(&line.events, after, upto)).take(max))
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

/// The events in `(after, upto]`.
fn between(
    events: &OrdMap<Revision, Arc<Event>>,
    after: Revision,
    upto: Revision,
) -> impl Iterator<Item = &Arc<Event>> {
    let range = (Bound::Excluded(after), Bound::Included(upto.max(after)));
    events.range(range).take(if upto > after { usize::MAX } else { 0 }).map(|(_, event)| event)
}

fn cost(event: &Event) -> usize {
    event.object.json.len() + EVENT_OVERHEAD
}
