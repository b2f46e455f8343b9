//! One request passed on to its backend: the user in headers, bodies as they flow, upgrades as raw bytes; never retried.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{HOST, HeaderName, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme, Uri};
use http::{Request, StatusCode, Version};
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use hyper::upgrade::OnUpgrade;
use litek8s_machinery::status::Status;
use tokio_util::sync::CancellationToken;

use super::Backend;
use super::headers::{forwarded_for, is_redirect, set_user, strip_hop_by_hop, upgrade};
use crate::api::Api;
use crate::audit::{Source, UntilEnd};
use crate::request::RequestContext;
use crate::response::{Body, BoxError, Failure, Response};
use crate::streams::splice;

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

impl Backend {
    /// The backend's answer to a request of an authorized user.
    ///
    /// # Errors
    /// 503 with the reason when the backend is not available or cannot be reached.
    pub(crate) async fn proxy<B>(
        &self,
        api: &Arc<Api>,
        ctx: &RequestContext,
        mut request: Request<B>,
    ) -> Result<Response, Failure>
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        if let Some(why) = &self.unavailable {
            return Err(self.unreachable(why));
        }
        let endpoint = self.service.pick(&api.replica.view()).map_err(|why| self.unreachable(&why))?;
        let client = self.client().map_err(|why| self.unreachable(&why))?;
        let upgrading = upgrade(request.headers()).is_some();
        let ours = upgrading.then(|| hyper::upgrade::on(&mut request));
        let outgoing = self.outgoing(ctx, request, &endpoint)?;
        let mut answer = client.send(outgoing).await.map_err(|why| self.unreachable(&why))?;
        let mut upgraded = None;
        if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
            let Some(ours) = ours else { return Err(self.unreachable("it changed protocols unasked")) };
            let until = upgraded.insert(UntilEnd::default()).clone();
            join(ours, hyper::upgrade::on(&mut answer), until, api.shutdown.clone());
        }
        if is_redirect(answer.status(), answer.headers()) {
            let why = "the backend attempted to redirect this request, which is not permitted";
            return Err(Status::new(502, litek8s_machinery::status::Reason::Unknown, why));
        }
        let (mut parts, body) = answer.into_parts();
        strip_hop_by_hop(&mut parts.headers, parts.status == StatusCode::SWITCHING_PROTOCOLS);
        upgraded.map(|until| parts.extensions.insert(until));
        let body = body.map_err(Into::into).boxed_unsync();
        let body = match ctx.deadline {
            Some(deadline) => {
                Limited { body, end: Box::pin(tokio::time::sleep_until(deadline)) }.boxed_unsync()
            }
            None => body,
        };
        Ok(Response::from_parts(parts, body))
    }

    fn outgoing<B>(
        &self,
        ctx: &RequestContext,
        request: Request<B>,
        endpoint: &str,
    ) -> Result<Request<Body>, Failure>
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let (mut parts, body) = request.into_parts();
        let source = parts.extensions.get::<Source>().copied();
        parts.extensions.clear();
        parts.version = Version::HTTP_11;
        let path = parts.uri.path_and_query().cloned();
        parts.uri = location(endpoint, path).map_err(Status::internal)?;
        strip_hop_by_hop(&mut parts.headers, true);
        set_user(&mut parts.headers, &ctx.user).map_err(Status::internal)?;
        let host = format!("{}:{}", self.service.host(), self.service.port);
        parts.headers.insert(HOST, HeaderValue::try_from(host).map_err(Status::internal)?);
        if let Ok(id) = HeaderValue::try_from(&*ctx.audit_id) {
            parts.headers.insert(AUDIT_ID, id);
        }
        forwarded_for(&mut parts.headers, source);
        Ok(Request::from_parts(parts, body.map_err(Into::into).boxed_unsync()))
    }

    /// 503: which APIService, and why.
    pub(super) fn unreachable(&self, why: &str) -> Failure {
        let Self { name, service, .. } = self;
        Status::service_unavailable(format!("APIService {name:?} ({service}) is not available: {why}"))
    }
}

/// Where an endpoint has a path.
pub(super) fn location(endpoint: &str, path: Option<PathAndQuery>) -> Result<Uri, http::Error> {
    let mut parts = http::uri::Parts::default();
    parts.scheme = Some(Scheme::HTTPS);
    parts.authority = Some(Authority::try_from(endpoint)?);
    parts.path_and_query = Some(path.unwrap_or(PathAndQuery::from_static("/")));
    Ok(Uri::from_parts(parts)?)
}

/// Passes bytes both ways until one side ends or the server stops; then `until` is let go.
fn join(ours: OnUpgrade, theirs: OnUpgrade, until: UntilEnd, stop: CancellationToken) {
    tokio::spawn(async move {
        let _until = until;
        tokio::select! {
            () = stop.cancelled() => {}
            copied = splice(ours, theirs) => if let Err(error) = copied {
                tracing::debug!(%error, "an upgraded connection to an aggregated server ended");
            }
        }
    });
}

/// A body that ends with an error when its time is up: a client does not take half an answer for a whole one.
struct Limited {
    body: Body,
    end: Pin<Box<tokio::time::Sleep>>,
}

impl HttpBody for Limited {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.end.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(Err("the backend's answer did not end in time".into())));
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
