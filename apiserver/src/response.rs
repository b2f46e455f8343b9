//! Answers: negotiation of the media type, encoding, and the body type every answer has; never what is in an object.

mod body;
mod encode;
mod negotiate;
mod transform;

pub use body::{Body, BoxError, full, streamed};
pub(crate) use body::{ListBody, empty};
pub(crate) use encode::{bytes, list, status, value};
pub(crate) use negotiate::{Accepts, Form, Media, Offer, Output, PROTOBUF_STREAM};
pub(crate) use transform::{partial_object, partial_value, table};

/// An answer of the API server.
pub type Response = http::Response<Body>;

/// A failed request: always a `Status` object.
pub type Failure = litek8s_machinery::status::Status;
