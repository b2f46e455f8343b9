//! `DELETE` of a collection: every selected object, one by one; what others deleted meanwhile is fine.

use std::sync::Arc;

use bytes::Bytes;
use litek8s_machinery::status::Status;
use litek8s_store::Object;
use serde_json::json;

use super::delete::{Deleted, delete_object, writing};
use super::delete_options::DeleteOptions;
use super::options::ListOptions;
use super::selection::Selection;
use super::{Call, answer, reads};
use crate::response::{Failure, Response};

/// Deletes the selected objects and answers what they were.
pub(crate) async fn delete_collection(call: &Call<'_>, body: &Bytes) -> Result<Response, Failure> {
    let list = ListOptions::parse(&call.ctx.info.query, false)?;
    let selection = Selection::parse(&call.served, &call.ctx.info)?;
    let options = DeleteOptions::parse(call, body)?;
    if options.preconditions.as_ref().is_some_and(|p| p.uid.is_some()) {
        return Err(Status::bad_request("a precondition on the uid makes no sense for a collection"));
    }
    let view = reads::newest(&call.api.replica).await?;
    let namespace = Some(call.namespace()).filter(|n| !n.is_empty());
    let limit = if list.limit == 0 { usize::MAX } else { list.limit };
    let selected: Vec<Arc<Object>> = view
        .list(&call.served.key, namespace)
        .filter(|o| selection.matches(o))
        .take(limit)
        .cloned()
        .collect();
    let writing = writing(call, &options);
    let mut deleted = Vec::with_capacity(selected.len());
    for object in selected {
        match delete_object(&writing, &object.key.name, &object.key.namespace, &options).await {
            Ok(Deleted::Gone(last) | Deleted::Waiting(last)) => deleted.push(last),
            Ok(Deleted::Shown(_)) => deleted.push(object),
            Err(status) if status.code == 404 => {}
            Err(status) => return Err(status),
        }
    }
    let revision = call.api.replica.view().revision();
    answer::list(call, &deleted, json!({"resourceVersion": revision.to_string()}))
}
