//! Objects to answers in the form the client asked for; never stores or changes one.

use std::sync::Arc;

use http::StatusCode;
use litek8s_machinery::status::Status;
use litek8s_store::Object;
use serde_json::{Value, json};

use super::{Call, metadata, options};
use crate::response::{self, Failure, Form, Response};

/// Answers a stored object.
pub(crate) fn object(call: &Call<'_>, code: StatusCode, object: &Arc<Object>) -> Result<Response, Failure> {
    match call.output.form {
        Form::Object => Ok(response::bytes(code, call.output, call.served.read(object)?.into_owned())),
        Form::Partial => {
            Ok(response::bytes(code, call.output, response::partial_object(&call.served.read(object)?)?))
        }
        Form::PartialList => Err(not_a_list()),
        Form::Table => self::value(call, code, call.served.value(object)?),
    }
}

/// Answers an object that is not, or not quite, what is stored.
pub(crate) fn value(call: &Call<'_>, code: StatusCode, object: Value) -> Result<Response, Failure> {
    match call.output.form {
        Form::Object => Ok(response::value(code, call.output, &object)),
        Form::Partial => {
            let partial = response::partial_object(object.to_string().as_bytes())?;
            Ok(response::bytes(code, call.output, partial))
        }
        Form::PartialList => Err(not_a_list()),
        Form::Table => {
            let include = options::include_object(&call.ctx.info.query)?;
            let list = json!({"resourceVersion": metadata::text(&object, "resourceVersion")});
            let table =
                response::table(&call.served.resource, &[object], include, call.api.clock.now(), list);
            Ok(response::value(code, call.output, &table))
        }
    }
}

/// Answers a `Status` or another object that has no table, whatever form was asked for.
pub(crate) fn plain(call: &Call<'_>, code: StatusCode, object: &Value) -> Response {
    response::value(code, call.output, object)
}

/// Answers a list of stored objects: `kind` and `items` in the form asked for, `list` as its metadata.
pub(crate) fn list(call: &Call<'_>, objects: &[Arc<Object>], list: Value) -> Result<Response, Failure> {
    let served = &call.served;
    let (kind, api_version): (&str, &str) = match call.output.form {
        Form::Object => (&served.resource.list_kind, &served.api_version),
        Form::PartialList => ("PartialObjectMetadataList", "meta.k8s.io/v1"),
        Form::Partial => {
            let message = "you requested PartialObjectMetadata, but the requested object is a list";
            return Err(Status::new(406, litek8s_machinery::status::Reason::NotAcceptable, message));
        }
        Form::Table => {
            let include = options::include_object(&call.ctx.info.query)?;
            let values = served.values(objects)?;
            let table = response::table(&served.resource, &values, include, call.api.clock.now(), list);
            return Ok(response::value(StatusCode::OK, call.output, &table));
        }
    };
    let mut encoded = served.read_all(objects)?;
    if call.output.form == Form::PartialList {
        encoded = encoded.iter().map(|json| response::partial_object(json)).collect::<Result<_, _>>()?;
    }
    let head = format!(
        r#"{{"kind":{},"apiVersion":{},"metadata":{list},"items":["#,
        Value::from(kind),
        Value::from(api_version)
    );
    Ok(response::list(call.output, head, encoded, b"]}\n"))
}

fn not_a_list() -> Failure {
    let message = "you requested PartialObjectMetadataList, but the requested object is not a list";
    Status::new(406, litek8s_machinery::status::Reason::NotAcceptable, message)
}
