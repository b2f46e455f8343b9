//! Events to watchers: each watcher is a cursor in the shared history and owns no queue; an object is encoded once for all.
//!
//! A watcher that falls off the end of the history gets a 410 in its stream and has to list again.

mod event;
mod shape;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use litek8s_store::{Object, Revision};
use tokio::time::{Instant, Sleep};

pub(crate) use shape::{Encodings, Shape};

use crate::api::Api;
use crate::endpoints::Selection;
use crate::registry::Served;
use crate::response::BoxError;
use event::Writer;

/// How much one frame holds before it is sent, in bytes.
const FRAME: usize = 64 * 1024;
/// How many events are looked at before the server turns to something else.
const BATCH: usize = 500;
/// How often a quiet watcher hears how far it is.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// How long before its end a watch sends a last bookmark.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// What a watch sends.
pub(crate) struct WatchPlan {
    /// The resource.
    pub(crate) served: Arc<Served>,
    /// Which of its objects.
    pub(crate) selection: Selection,
    /// Of one namespace or of all.
    pub(crate) namespace: Option<String>,
    /// How objects are sent.
    pub(crate) shape: Shape,
    /// What is sent as `ADDED` before the first event.
    pub(crate) existing: Vec<Arc<Object>>,
    /// The revision behind which events are sent.
    pub(crate) cursor: Revision,
    /// Whether the client wants bookmarks.
    pub(crate) bookmarks: bool,
    /// Whether a bookmark says when all of `existing` was sent.
    pub(crate) end_of_existing: bool,
    /// When the watch ends.
    pub(crate) deadline: Instant,
}

/// A running watch.
pub(crate) struct Watch {
    api: Arc<Api>,
    writer: Writer,
    selection: Selection,
    namespace: Option<String>,
    existing: Option<std::vec::IntoIter<Arc<Object>>>,
    end_of_existing: bool,
    cursor: Revision,
    /// Wakes for the events of the resource only.
    changes: tokio::sync::watch::Receiver<Revision>,
    /// The resource, and when to look whether it is still served: a changed definition ends its watches.
    served: Arc<Served>,
    registry: tokio::sync::watch::Receiver<()>,
    bookmark_at: Option<Instant>,
    deadline: Instant,
    /// One timer for the life of the watch: a timer for every wait would cost more than the events.
    timer: Pin<Box<Sleep>>,
    ended: bool,
}

impl Watch {
    /// A watch that has sent nothing yet.
    pub(crate) fn new(api: Arc<Api>, plan: WatchPlan) -> Self {
        let changes = api.replica.changes(&plan.served.key);
        let bookmark_at = plan.bookmarks.then(|| next_bookmark(plan.deadline)).flatten();
        Self {
            served: plan.served.clone(),
            registry: api.registry.changes(),
            writer: Writer::new(plan.served, plan.shape, api.clone()),
            selection: plan.selection,
            namespace: plan.namespace,
            existing: Some(plan.existing.into_iter()),
            end_of_existing: plan.end_of_existing,
            cursor: plan.cursor,
            changes,
            timer: Box::pin(tokio::time::sleep_until(bookmark_at.unwrap_or(plan.deadline))),
            bookmark_at,
            deadline: plan.deadline,
            ended: false,
            api,
        }
    }

    /// The frames of the answer, made only as the connection takes them.
    pub(crate) fn into_frames(self) -> impl futures::Stream<Item = Result<Bytes, BoxError>> + Send + 'static {
        futures::stream::unfold(self, |mut watch| async move {
            let frame = watch.next().await?;
            Some((Ok(frame), watch))
        })
    }

    /// The next frame, or the end.
    async fn next(&mut self) -> Option<Bytes> {
        let mut out = BytesMut::new();
        if self.existing.is_some() {
            self.write_existing(&mut out);
        }
        while out.is_empty() && !self.ended {
            let behind = self.write_events(&mut out);
            if behind || !out.is_empty() || self.ended {
                continue;
            }
            self.wait(&mut out).await;
        }
        (!out.is_empty()).then(|| out.freeze())
    }

    fn write_existing(&mut self, out: &mut BytesMut) {
        let Some(existing) = self.existing.as_mut() else { return };
        for object in existing.by_ref() {
            if self.selection.matches(&object) {
                self.writer.write("ADDED", &object, out);
            }
            if out.len() >= FRAME {
                return;
            }
        }
        self.existing = None;
        if self.end_of_existing {
            self.writer.bookmark(self.cursor, true, out);
        }
    }

    /// Writes events behind the cursor; true when there are more than were looked at.
    fn write_events(&mut self, out: &mut BytesMut) -> bool {
        // Marked before the view is taken: what comes between wakes once more.
        self.changes.mark_unchanged();
        let view = self.api.replica.view();
        let events = match view.events_of(&self.served.key, self.cursor, BATCH) {
            Ok(events) => events,
            Err(expired) => {
                self.writer.error(&crate::endpoints::too_old(expired.requested, expired.oldest), out);
                self.ended = true;
                return false;
            }
        };
        let all = events.len() < BATCH;
        for event in &events {
            self.cursor = event.revision;
            self.writer.event(event, &self.selection, self.namespace.as_deref(), out);
            if self.writer.failed {
                self.ended = true;
                return false;
            }
            if out.len() >= FRAME {
                return true;
            }
        }
        if all {
            self.cursor = self.cursor.max(view.revision());
        }
        !all
    }

    /// Waits until there is something to do, and does what is due by time.
    async fn wait(&mut self, out: &mut BytesMut) {
        // Only definitions change what is served.
        let custom = self.served.resource.custom;
        tokio::select! {
            changed = self.changes.changed() => self.ended = changed.is_err(),
            _ = self.registry.changed(), if custom => {
                if !self.api.registry.still_serves(&self.served) {
                    while self.write_events(out) {}
                    self.ended = true;
                }
            }
            () = self.timer.as_mut() => self.due(out),
        }
    }

    /// Does what the timer was set for, and sets it again.
    fn due(&mut self, out: &mut BytesMut) {
        if Instant::now() >= self.deadline {
            self.ended = true;
            return;
        }
        if self.bookmark_at.is_some() {
            // Quiet for this resource is not quiet for all: the cursor moves up to the present first.
            self.write_events(out);
            if self.ended {
                return;
            }
            self.writer.bookmark(self.cursor, false, out);
            self.bookmark_at = next_bookmark(self.deadline);
        }
        self.timer.as_mut().reset(self.bookmark_at.unwrap_or(self.deadline));
    }
}

/// When the next bookmark is due: after a minute, or shortly before the end; `None` when the end is too near.
fn next_bookmark(deadline: Instant) -> Option<Instant> {
    let now = Instant::now();
    let last = deadline.checked_sub(LAST_BOOKMARK).filter(|last| *last > now)?;
    Some(last.min(now + BOOKMARK_EVERY))
}
