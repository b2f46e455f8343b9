//! Every path under `/api`, `/apis` and `/openapi`: a request to the verb that answers it; never authentication.

mod answer;
mod continuation;
mod create;
mod delete;
mod delete_collection;
mod delete_options;
mod discovery;
mod eviction;
mod generation;
mod get;
mod input;
pub(crate) mod internal;
mod list;
pub(crate) mod metadata;
mod options;
mod patch;
mod pod_subresources;
mod ratchet;
mod reads;
pub(crate) mod scale;
mod selection;
mod update;
mod watch;
mod write;

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use litek8s_machinery::gvk::{GroupKind, GroupResource};
use litek8s_machinery::status::{Reason, Status};

use crate::api::Api;
use crate::registry::Served;
use crate::request::{RequestContext, RequestInfo};
use crate::response::{self, BoxError, Failure, Offer, Output, Response};

pub(crate) use create::random_name;
pub(crate) use input::{from_yaml, refine};
pub(crate) use options::WriteOptions;
pub(crate) use reads::{newest, too_old};
pub(crate) use selection::Selection;
pub(crate) use write::Writing;

/// The largest body of a request, in bytes.
pub const MAX_BODY: usize = 3 * 1024 * 1024;

/// Answers one request for a resource, a discovery document or an OpenAPI document.
///
/// Failures are answered as `Status` objects: this never fails and never panics on what a client sends.
pub async fn serve<B>(api: Arc<Api>, ctx: RequestContext, request: http::Request<B>) -> Response
where
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (parts, body) = request.into_parts();
    if !ctx.info.is_resource_request {
        return discovery::serve(&api, &ctx, &parts);
    }
    let watching = ctx.info.verb == "watch";
    let served = api.registry.get(&ctx.info.api_group, &ctx.info.api_version, &ctx.info.resource);
    let protobuf = served.is_some_and(|served| !served.resource.custom);
    let offer = Offer { streaming: watching, convertible: true, protobuf };
    let output = Output::negotiate(&parts.headers, &ctx.info.query, offer);
    let shown = output.as_ref().map_or(Output::JSON, |o| *o);
    match dispatch(&api, &ctx, &parts.headers, output, body).await {
        Ok(response) => response,
        Err(status) => response::status(&status, shown),
    }
}

/// One request, with everything that the verbs need to know about it.
pub(crate) struct Call<'a> {
    /// The server.
    pub(crate) api: &'a Arc<Api>,
    /// Who asks, and for what.
    pub(crate) ctx: &'a RequestContext,
    /// The headers.
    pub(crate) headers: &'a HeaderMap,
    /// The resource.
    pub(crate) served: Arc<Served>,
    /// What the answer is to be.
    pub(crate) output: Output,
}

impl Call<'_> {
    /// The namespace of the objects, empty for cluster-scoped ones.
    pub(crate) fn namespace(&self) -> &str {
        if self.served.resource.namespaced { &self.ctx.info.namespace } else { "" }
    }

    /// The name in the URL.
    pub(crate) fn name(&self) -> &str {
        &self.ctx.info.name
    }

    /// The resource, for messages.
    pub(crate) fn group_resource(&self) -> GroupResource {
        self.served.resource.group_resource()
    }

    /// The kind, for messages.
    pub(crate) fn group_kind(&self) -> GroupKind {
        self.served.resource.group_kind()
    }

    /// 404 for the object in the URL.
    pub(crate) fn not_found(&self) -> Failure {
        Status::not_found(&self.group_resource(), self.name())
    }

    /// The `User-Agent`.
    pub(crate) fn user_agent(&self) -> &str {
        self.headers.get(http::header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or_default()
    }
}

async fn dispatch<B>(
    api: &Arc<Api>,
    ctx: &RequestContext,
    headers: &HeaderMap,
    output: Result<Output, Failure>,
    body: B,
) -> Result<Response, Failure>
where
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let info = &ctx.info;
    let served = api
        .registry
        .get(&info.api_group, &info.api_version, &info.resource)
        .ok_or_else(Status::unknown_resource)?;
    check_path(&served, info)?;
    let verbs: &[_] = if info.subresource.is_empty() {
        &served.resource.verbs
    } else {
        &served.resource.subresource(&info.subresource).ok_or_else(Status::unknown_resource)?.verbs
    };
    let gr = served.resource.group_resource();
    if !verbs.iter().any(|verb| **verb == *info.verb) {
        return Err(Status::method_not_allowed(&gr, &info.verb));
    }
    if let Some(text) = &served.resource.deprecation {
        ctx.warnings.add(&**text);
    }
    let call = Call { api, ctx, headers, served: served.clone(), output: output? };
    let reads = matches!(info.verb.as_str(), "get" | "list" | "watch");
    let body = if reads { Bytes::new() } else { read_body(body).await? };
    match (info.subresource.as_str(), info.verb.as_str()) {
        ("" | "status" | "finalize" | "ephemeralcontainers" | "resize" | "approval", "get") => {
            get::get(&call).await
        }
        ("", "list") => list::list(&call).await,
        ("", "watch") => watch::watch(&call).await,
        ("", "create") if pod_subresources::is_bindings(&call.served) => {
            pod_subresources::bind_named(&call, &body).await
        }
        ("", "create") => create::create(&call, &body).await,
        ("" | "status" | "finalize" | "ephemeralcontainers" | "resize" | "approval", "update") => {
            update::update(&call, &body).await
        }
        ("" | "status" | "finalize" | "ephemeralcontainers" | "resize" | "approval", "patch") => {
            patch::patch(&call, &body).await
        }
        ("", "delete") => delete::delete(&call, &body).await,
        ("", "deletecollection") => delete_collection::delete_collection(&call, &body).await,
        ("scale", verb) => scale::scale(&call, verb, &body).await,
        ("binding", "create") => pod_subresources::bind(&call, &body).await,
        ("eviction", "create") => eviction::evict(&call, &body).await,
        _ => Err(Status::method_not_allowed(&gr, &info.verb)),
    }
}

/// 404 or 405 when the path does not fit the resource's scope, or names an object where the verb has none.
///
/// Who may act in a namespace, or on an object, was asked about the namespace and the name of the path: a verb that
/// looks at neither must not be reached by a path that has them.
pub(crate) fn check_path(served: &Served, info: &RequestInfo) -> Result<(), Failure> {
    let not_allowed = || {
        let message = "the server does not allow this method on the requested resource";
        Err(Status::new(405, Reason::MethodNotAllowed, message))
    };
    let verb = info.verb.as_str();
    if !served.resource.namespaced {
        // RequestInfo gives the Namespace resource itself as its namespace.
        let itself = *served.resource.plural == *"namespaces" && info.parts.get(1) == Some(&info.namespace);
        if !info.namespace.is_empty() && !itself {
            return Err(Status::unknown_resource());
        }
    } else if info.namespace.is_empty() && !matches!(verb, "list" | "watch") {
        let of_collection = matches!(verb, "create" | "deletecollection");
        return if of_collection { not_allowed() } else { Err(Status::unknown_resource()) };
    }
    let named = !info.name.is_empty();
    let fits = match verb {
        "create" => named != info.subresource.is_empty(),
        "update" | "patch" => named,
        _ => true,
    };
    if fits { Ok(()) } else { not_allowed() }
}

async fn read_body<B>(body: B) -> Result<Bytes, Failure>
where
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    match Limited::new(body, MAX_BODY).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(Status::request_entity_too_large(format!("limit is {MAX_BODY}")))
        }
        Err(error) => Err(Status::bad_request(format!("the body could not be read: {error}"))),
    }
}

#[cfg(test)]
pub(crate) mod tests;
