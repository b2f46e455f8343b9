//! The form in which a watcher gets objects, and the encodings that watchers share; never events.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use bytes::{BufMut, Bytes, BytesMut};
use litek8s_machinery::protobuf;
use litek8s_machinery::status::Status;
use litek8s_machinery::table::IncludeObject;
use litek8s_store::{Object, Revision};
use serde_json::{Value, json};

use crate::registry::Served;
use crate::response::{self, Failure, Form, Media};

/// How many encodings a resource keeps: as many events as a burst has, for watchers that are not quite together.
const KEPT: usize = 512;

/// The form of the objects of one watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The media type: JSON or protobuf.
    pub(crate) media: Media,
    /// The form.
    pub(crate) form: Form,
    /// What the rows of a table carry.
    pub(crate) include: IncludeObject,
}

/// Encodings that are not the stored bytes, by revision and shape; the oldest give way.
#[derive(Default)]
pub(crate) struct Encodings(Mutex<BTreeMap<(Revision, u8), Bytes>>);

impl Encodings {
    fn get_or(
        &self,
        revision: Revision,
        shape: u8,
        make: impl FnOnce() -> Result<Bytes, Failure>,
    ) -> Result<Bytes, Failure> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = lock().get(&(revision, shape)) {
            return Ok(found.clone());
        }
        let made = make()?;
        let mut kept = lock();
        kept.insert((revision, shape), made.clone());
        while kept.len() > KEPT {
            kept.pop_first();
        }
        Ok(made)
    }
}

impl Shape {
    /// A number of this shape, for the key of an encoding.
    fn number(self) -> u8 {
        let form = match self.form {
            Form::Object => 0,
            Form::Partial | Form::PartialList => 1,
            Form::Table => 2,
        };
        let include = match self.include {
            IncludeObject::None => 0,
            IncludeObject::Metadata => 1,
            IncludeObject::Object => 2,
        };
        let media = if self.media == Media::Protobuf { 9 } else { 0 };
        media + form * 3 + include
    }

    /// The object in this shape: encoded once for all watchers of the resource.
    pub(crate) fn encode(
        self,
        served: &Served,
        object: &Object,
        first: bool,
        now: jiff::Timestamp,
    ) -> Result<Bytes, Failure> {
        if self.media == Media::Json && self.form == Form::Object && served.is_stored_form(object) {
            return Ok(object.json.clone());
        }
        // The first table of a watch differs from the others: it defines the columns.
        if first && self.form == Form::Table {
            return self.encode_value(served, served.value(object)?, first, now);
        }
        served.encodings.get_or(object.revision, self.number(), || {
            self.encode_value(served, served.value(object)?, first, now)
        })
    }

    /// A value in this shape, for this watcher alone.
    pub(crate) fn encode_value(
        self,
        served: &Served,
        value: Value,
        first: bool,
        now: jiff::Timestamp,
    ) -> Result<Bytes, Failure> {
        let value = match self.form {
            Form::Object => value,
            Form::Partial | Form::PartialList => response::partial_value(value),
            Form::Table => {
                let list = json!({"resourceVersion": value["metadata"]["resourceVersion"]});
                let mut table = response::table(&served.resource, &[value], self.include, now, list);
                if !first {
                    table["columnDefinitions"] = Value::Null;
                }
                table
            }
        };
        self.written(&value)
    }

    /// A value that has its form already, in the media type.
    pub(crate) fn written(self, value: &Value) -> Result<Bytes, Failure> {
        if self.media != Media::Protobuf {
            return Ok(Bytes::from(value.to_string()));
        }
        let encoded = protobuf::encode(value).map(Bytes::from);
        encoded.ok_or_else(|| Status::internal(format!("{} has no protobuf form", value["kind"])))
    }

    /// Appends one event to what is sent.
    pub(crate) fn put(self, kind: &str, object: &Bytes, out: &mut BytesMut) {
        if self.media == Media::Protobuf {
            return protobuf::put_watch_event(out, kind, object);
        }
        out.reserve(object.len() + 32);
        out.put_slice(b"{\"type\":\"");
        out.put_slice(kind.as_bytes());
        out.put_slice(b"\",\"object\":");
        out.put_slice(object);
        out.put_slice(b"}\n");
    }
}
