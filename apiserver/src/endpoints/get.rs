//! `GET` of one object.

use http::StatusCode;

use super::{Call, answer, options, reads};
use crate::response::{Failure, Response};

/// Answers the object in the URL, at the resource version asked for or later.
pub(crate) async fn get(call: &Call<'_>) -> Result<Response, Failure> {
    let revision = options::revision(call.ctx.info.query.get("resourceVersion").unwrap_or_default())?;
    let view = reads::not_older_than(&call.api.replica, revision).await?;
    let key = call.served.object_key(call.namespace(), call.name());
    let object = view.get(&key).ok_or_else(|| call.not_found())?;
    answer::object(call, StatusCode::OK, object)
}
