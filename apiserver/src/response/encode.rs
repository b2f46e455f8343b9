//! Values and stored bytes to answers in the negotiated media type; never decides what is answered.

use bytes::Bytes;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use litek8s_machinery::protobuf;
use litek8s_machinery::status::Status;
use serde_json::Value;

use super::{Body, ListBody, Media, Output, Response, full};

/// Answers an object whose JSON is at hand: sent as it is unless another media type or indentation is asked for.
pub(crate) fn bytes(code: StatusCode, output: Output, json: Bytes) -> Response {
    if output.media == Media::Json && !output.pretty {
        return with_body(code, output.media.content_type(), full(json));
    }
    match serde_json::from_slice::<Value>(&json) {
        Ok(parsed) => value(code, output, &parsed),
        Err(error) => {
            status(&Status::internal(format!("the stored object cannot be read: {error}")), Output::JSON)
        }
    }
}

/// Answers a value.
pub(crate) fn value(code: StatusCode, output: Output, value: &Value) -> Response {
    match encoded(output, value) {
        Ok(text) => with_body(code, output.media.content_type(), full(text)),
        Err(error) => with_body(StatusCode::INTERNAL_SERVER_ERROR, "text/plain; charset=utf-8", full(error)),
    }
}

/// Answers a failure as a `Status` object, with `Retry-After` when it says when to come again.
pub(crate) fn status(status: &Status, output: Output) -> Response {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let output = Output { form: super::Form::Object, ..output };
    let mut response = value(code, output, &status.to_json());
    let after = status.details.as_ref().map(|d| d.retry_after_seconds).filter(|s| *s > 0);
    if let Some(seconds) = after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Answers a list whose items are encoded already, joined while it is sent.
pub(crate) fn list(output: Output, head: String, items: Vec<Bytes>, tail: &'static [u8]) -> Response {
    use http_body_util::BodyExt;
    if output.media == Media::Json && !output.pretty {
        let body = ListBody::new(Bytes::from(head), items, Bytes::from_static(tail)).boxed_unsync();
        return with_body(StatusCode::OK, output.media.content_type(), body);
    }
    let mut whole = head.into_bytes();
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            whole.push(b',');
        }
        whole.extend_from_slice(item);
    }
    whole.extend_from_slice(tail);
    bytes(StatusCode::OK, output, Bytes::from(whole))
}

fn encoded(output: Output, value: &Value) -> Result<Bytes, String> {
    match output.media {
        Media::Yaml => serde_saphyr::to_string(value).map(Bytes::from).map_err(|e| e.to_string()),
        Media::Protobuf => protobuf::encode(value)
            .map(Bytes::from)
            .ok_or_else(|| format!("{} has no protobuf form", value["kind"])),
        Media::Json if output.pretty => {
            let mut text = serde_json::to_vec_pretty(value).map_err(|e| e.to_string())?;
            text.push(b'\n');
            Ok(Bytes::from(text))
        }
        Media::Json => {
            let mut text = serde_json::to_vec(value).map_err(|e| e.to_string())?;
            text.push(b'\n');
            Ok(Bytes::from(text))
        }
    }
}

fn with_body(code: StatusCode, content_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}
