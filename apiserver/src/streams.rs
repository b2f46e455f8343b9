//! The streams of pods: logs, exec, attach and port-forward, and the proxies of nodes, pods and Services, carried to the
//! node's agent by the connection it opened.
//!
//! ```text
//! client ── HTTP, WebSocket or SPDY ──► this server ── HTTP/2, the agent being its server ──► agent
//! ```
//! Nothing is kept of a stream but what its windows and one message hold: a slow reader slows the writer down.

mod client;
mod connect;
mod log;
mod nodes;
mod pod;
mod port_forward;
mod proxy;
mod remote;
mod spdy;
mod tunnel;
mod upgrade;
mod websocket;

use std::sync::Arc;

use http::HeaderMap;
use litek8s_daemon::streams;
use litek8s_machinery::gvk::GroupResource;
use litek8s_machinery::status::Status;
use tokio_util::task::TaskTracker;

use crate::api::Api;
use crate::audit::UntilEnd;
use crate::authorization::Attributes;
use crate::filters::{RequestBody, failure};
use crate::metrics::{Counted, RequestLabels};
use crate::request::{RequestContext, RequestInfo};
use crate::response::{Failure, Response};

pub(crate) use upgrade::splice;

/// The connections of nodes, and what runs over upgraded connections.
#[derive(Debug, Default)]
pub struct Streams {
    nodes: nodes::Nodes,
    tasks: TaskTracker,
}

impl Streams {
    /// Waits for the end of everything; it ends when the server drains.
    pub(crate) async fn ended(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Whether a request is for a stream, or from a node that offers some.
pub(crate) fn handles(info: &RequestInfo) -> bool {
    if !info.is_resource_request {
        return streams::node_of(&info.path).is_some();
    }
    if !info.api_group.is_empty() || info.api_version != "v1" {
        return false;
    }
    let scoped = info.namespace.is_empty() == (info.resource == "nodes");
    match (info.resource.as_str(), info.subresource.as_str()) {
        ("nodes" | "pods" | "services", "proxy") => scoped,
        ("pods", "log" | "exec" | "attach" | "portforward") => scoped && info.parts.len() == 3,
        _ => false,
    }
}

/// Answers one.
pub(crate) async fn serve(
    api: &Arc<Api>,
    ctx: RequestContext,
    request: http::Request<RequestBody>,
) -> Response {
    answered(api, &ctx, request).await.unwrap_or_else(|status| failure(&status))
}

async fn answered(
    api: &Arc<Api>,
    ctx: &RequestContext,
    request: http::Request<RequestBody>,
) -> Result<Response, Failure> {
    if let Some(node) = streams::node_of(&ctx.info.path) {
        return nodes::connect(api, node, request);
    }
    let pods = GroupResource::new("", "pods");
    match (ctx.info.subresource.as_str(), ctx.info.verb.as_str()) {
        ("log", "get") => log::log(api, ctx).await,
        ("exec" | "attach", "get" | "create") => {
            may_create(api, ctx)?;
            remote::serve(api, ctx, request).await
        }
        ("portforward", "get" | "create") => {
            may_create(api, ctx)?;
            port_forward::serve(api, ctx, request).await
        }
        ("proxy", _) => proxy::serve(api, ctx, request).await,
        (_, verb) => Err(Status::method_not_allowed(&pods, verb)),
    }
}

/// An upgraded connection: counted among the open streams, and its record in the audit log not over, as long as this lives.
struct Open {
    _counted: Counted,
    _until: UntilEnd,
}

impl Open {
    /// The connection that begins with `response`.
    fn new(api: &Api, ctx: &RequestContext, headers: &HeaderMap, response: &mut Response) -> Self {
        let served = api.registry.get("", "v1", &ctx.info.resource);
        let labels = RequestLabels::of(&ctx.info, served.as_deref(), headers);
        let until = UntilEnd::default();
        response.extensions_mut().insert(until.clone());
        Self { _counted: api.metrics.long_running(&labels), _until: until }
    }
}

/// A WebSocket begins with a GET: whoever may only `get` must not get a shell by it.
fn may_create(api: &Arc<Api>, ctx: &RequestContext) -> Result<(), Failure> {
    let wanted = Attributes { verb: "create", ..Attributes::from(&ctx.info) };
    api.authorizer.demand(&ctx.user, &wanted, &api.replica.view())
}
