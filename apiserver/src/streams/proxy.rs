//! `nodes/NAME/proxy`, `pods/NAME/proxy` and `services/NAME/proxy`: any request to what answers there, by the connection of
//! the node that it is on. As kube-apiserver's `UpgradeAwareHandler`, but links in HTML stay as they are.

mod dial;
mod head;
mod path;
mod target;

use std::sync::Arc;

use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use litek8s_daemon::streams;
use litek8s_machinery::gvk::GroupResource;
use litek8s_machinery::status::Status;
use serde_json::json;

use super::{Open, connect, splice};
use crate::aggregation::{strip_hop_by_hop, upgrade};
use crate::api::Api;
use crate::filters::RequestBody;
use crate::request::RequestContext;
use crate::response::{self, Failure, Response};
use head::Outgoing;
use target::Target;

/// The methods that are passed on.
const METHODS: [Method; 7] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];

/// Passes a request on and its answer back.
pub(super) async fn serve(
    api: &Arc<Api>,
    ctx: &RequestContext,
    request: Request<RequestBody>,
) -> Result<Response, Failure> {
    let info = &ctx.info;
    if !METHODS.contains(request.method()) {
        return Err(Status::method_not_allowed(
            &GroupResource::new("", info.resource.as_str()),
            request.method().as_str(),
        ));
    }
    let kind = match info.resource.as_str() {
        "nodes" => "NodeProxyOptions",
        "pods" => "PodProxyOptions",
        _ => "ServiceProxyOptions",
    };
    let mut options = json!({"kind": kind, "apiVersion": "v1", "path": path::below(info)});
    connect::admit(api, ctx, &mut options).await?;
    let below = options["path"].as_str().unwrap_or_default().to_owned();
    let target = target::find(api, ctx).await?;
    let upgrading = upgrade(request.headers()).is_some();
    if below.is_empty() && !upgrading && matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(to_the_root(&request));
    }
    let before = path::before(info);
    let outgoing = head::outgoing(request, &below).map_err(Status::internal)?;
    match target {
        Target::Agent { node } => of_agent(api, &node, outgoing).await,
        Target::Address { node, to, tls } => {
            let stream = dial::open(api, &node, to, tls).await.map_err(|why| unreachable(&why))?;
            passed(api, ctx, outgoing, stream, &before, &to.to_string()).await
        }
    }
}

/// 503, in kube-apiserver's words.
fn unreachable(why: &str) -> Failure {
    Status::service_unavailable(format!("error trying to reach service: {why}"))
}

/// A path that is empty has to end with a slash, or relative links in the answer lead elsewhere.
fn to_the_root(request: &Request<RequestBody>) -> Response {
    let query = request.uri().query().map_or_else(String::new, |query| format!("?{query}"));
    let mut response = Response::new(response::empty());
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    if let Ok(there) = HeaderValue::try_from(format!("{}/{query}", request.uri().path())) {
        response.headers_mut().insert(header::LOCATION, there);
    }
    response
}

/// What the agent says of itself.
async fn of_agent(api: &Arc<Api>, node: &str, outgoing: Outgoing) -> Result<Response, Failure> {
    let Outgoing { mut request, .. } = outgoing;
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = format!("http://{node}{}{path}", streams::OWN).parse().map_err(Status::internal)?;
    *request.version_mut() = http::Version::HTTP_2;
    strip_hop_by_hop(request.headers_mut(), false);
    request.headers_mut().remove(header::HOST);
    let answer = api.streams.nodes.ask(node, request).await?;
    Ok(answer.map(super::nodes::NodeStream::into_body))
}

/// The request over a connection of its own.
async fn passed(
    api: &Arc<Api>,
    ctx: &RequestContext,
    outgoing: Outgoing,
    stream: dial::Stream,
    before: &str,
    to: &str,
) -> Result<Response, Failure> {
    let Outgoing { request, ours, host, headers } = outgoing;
    let mut answer = dial::send(api, stream, request).await.map_err(|why| unreachable(&why))?;
    let switched = answer.status() == StatusCode::SWITCHING_PROTOCOLS;
    let theirs = switched.then(|| hyper::upgrade::on(&mut answer));
    let (mut parts, body) = answer.into_parts();
    strip_hop_by_hop(&mut parts.headers, switched);
    head::incoming(&mut parts.headers, before, [to, &host]);
    let mut response = Response::from_parts(parts, body.map_err(Into::into).boxed_unsync());
    if let Some(theirs) = theirs {
        let ours = ours.ok_or_else(|| unreachable("it changed protocols unasked"))?;
        let open = Open::new(api, ctx, &headers, &mut response);
        let end = api.shutdown.clone();
        api.streams.tasks.spawn(async move {
            let _open = open;
            tokio::select! {
                () = end.cancelled() => {}
                ended = splice(ours, theirs) => if let Err(error) = ended {
                    tracing::debug!(%error, "an upgraded connection of a proxy ended");
                }
            }
        });
    }
    Ok(response)
}
