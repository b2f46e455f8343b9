//! One event to one line (JSON) or frame (protobuf) of a watch; decides what a selector makes of it, never when it is sent.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use litek8s_machinery::status::Status;
use litek8s_store::{Event, EventKind, Object, Revision};
use serde_json::{Value, json};

use super::Shape;
use crate::api::Api;
use crate::endpoints::Selection;
use crate::metrics::Sent;
use crate::registry::Served;

/// The annotation of the bookmark that ends the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Writes the events of one watcher.
pub(super) struct Writer {
    api: Arc<Api>,
    served: Arc<Served>,
    shape: Shape,
    /// Whether an object could not be written: the client was told, and must not go on.
    pub(super) failed: bool,
    /// Whether the next table is the first, which alone has column definitions.
    first: bool,
    sent: Sent,
}

impl Writer {
    /// A writer of objects of `served` in `shape`.
    pub(super) fn new(served: Arc<Served>, shape: Shape, api: Arc<Api>) -> Self {
        let sent = api.metrics.watch_events(&served);
        Self { api, served, shape, failed: false, first: true, sent }
    }

    /// Writes what `event`, which is of the resource, is to a watcher with this selection, which may be nothing.
    pub(super) fn event(
        &mut self,
        event: &Event,
        selection: &Selection,
        namespace: Option<&str>,
        out: &mut BytesMut,
    ) {
        if namespace.is_some_and(|only| *event.object.key.namespace != *only) {
            return;
        }
        let is = event.kind != EventKind::Deleted && selection.matches(&event.object);
        let before =
            if event.kind == EventKind::Deleted { Some(&event.object) } else { event.previous.as_ref() };
        let was = event.kind != EventKind::Added && before.is_some_and(|o| selection.matches(o));
        match (was, is) {
            (false, false) => {}
            (false, true) => self.write("ADDED", &event.object, out),
            (true, true) => self.write("MODIFIED", &event.object, out),
            (true, false) if event.kind == EventKind::Deleted => self.write("DELETED", &event.object, out),
            (true, false) => {
                if let Some(previous) = before {
                    self.write_left(previous, event.revision, out);
                }
            }
        }
    }

    /// Writes an object as it is.
    pub(super) fn write(&mut self, kind: &str, object: &Object, out: &mut BytesMut) {
        let first = std::mem::take(&mut self.first);
        match self.shape.encode(&self.served, object, first, self.api.clock.now()) {
            Ok(object) => self.put(kind, &object, out),
            Err(status) => self.error(&status, out),
        }
    }

    /// Writes that an object is no longer selected: its last selected state, at the revision that changed it.
    fn write_left(&mut self, previous: &Object, revision: Revision, out: &mut BytesMut) {
        let first = std::mem::take(&mut self.first);
        let encoded = self.served.value(previous).and_then(|mut value| {
            value["metadata"]["resourceVersion"] = Value::from(revision.to_string());
            self.shape.encode_value(&self.served, value, first, self.api.clock.now())
        });
        match encoded {
            Ok(object) => self.put("DELETED", &object, out),
            Err(status) => self.error(&status, out),
        }
    }

    /// Writes how far the watcher is: everything up to `revision` was sent.
    pub(super) fn bookmark(&mut self, revision: Revision, end_of_existing: bool, out: &mut BytesMut) {
        let resource = &self.served.resource;
        let mut object = json!({
            "kind": *resource.kind,
            "apiVersion": *self.served.api_version,
            "metadata": {"resourceVersion": revision.to_string(), "creationTimestamp": null},
        });
        if end_of_existing {
            object["metadata"]["annotations"] = json!({INITIAL_EVENTS_END: "true"});
        }
        let first = std::mem::take(&mut self.first);
        match self.shape.encode_value(&self.served, object, first, self.api.clock.now()) {
            Ok(object) => self.put("BOOKMARK", &object, out),
            Err(status) => self.error(&status, out),
        }
    }

    /// Writes a failure; the watch ends behind it.
    pub(super) fn error(&mut self, status: &Status, out: &mut BytesMut) {
        self.failed = true;
        // A Status has a form in every media type.
        if let Ok(status) = self.shape.written(&status.to_json()) {
            self.put("ERROR", &status, out);
        }
    }

    fn put(&self, kind: &str, object: &Bytes, out: &mut BytesMut) {
        let before = out.len();
        self.shape.put(kind, object, out);
        self.sent.event(out.len() - before);
    }
}
