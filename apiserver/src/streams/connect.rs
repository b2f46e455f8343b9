//! What admission says of a stream before it begins: its options as an object, operation CONNECT.

use std::sync::Arc;

use litek8s_machinery::status::Status;
use serde_json::Value;

use crate::admission::{self, Attributes, Operation};
use crate::api::Api;
use crate::request::RequestContext;
use crate::response::Failure;
use crate::strategy::WriteContext;

/// Lets webhooks change the options, and policies and webhooks refuse the stream.
pub(super) async fn admit(api: &Arc<Api>, ctx: &RequestContext, options: &mut Value) -> Result<(), Failure> {
    let served = api.registry.get("", "v1", &ctx.info.resource).ok_or_else(Status::unknown_resource)?;
    let view = api.replica.view();
    let cx = WriteContext {
        api,
        view: &view,
        resource: &served.resource,
        subresource: &ctx.info.subresource,
        namespace: &ctx.info.namespace,
        user: &ctx.user,
        warnings: &ctx.warnings,
        annotations: &ctx.annotations,
        now: api.clock.now(),
        dry_run: false,
    };
    let attributes = Attributes {
        cx: &cx,
        served: &served,
        operation: Operation::Connect,
        name: &ctx.info.name,
        old: None,
        options: &Value::Null,
    };
    admission::body(&attributes, options).await
}
