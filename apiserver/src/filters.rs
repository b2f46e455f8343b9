//! What every request passes before a handler sees it, in order: who, as whom, whether, how many, how long.

mod compression;
mod deadline;
mod ending;
mod impersonation;
mod inflight;
pub(crate) mod route;
mod unread;

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt;
use http::header::{CACHE_CONTROL, HeaderName, HeaderValue, RETRY_AFTER, WARNING};
use hyper::body::{Body, Incoming};
use litek8s_machinery::status::{Reason, Status};
use tokio::time::Instant;

pub use inflight::InFlight;
pub(crate) use unread::RequestBody;

use crate::api::Api;
use crate::audit::{Audit, Recording, UntilEnd};
use crate::authentication::{self, Caller, InProcess, PeerCertificate};
use crate::authorization::{Attributes, Authorizer, Decision};
use crate::flow_control::{Flow, FlowControl};
use crate::health::Health;
use crate::join::Join;
use crate::metrics::{RequestLabels, dry_run as requested_dry_run};
use crate::request::{Annotations, RequestContext, RequestInfo, UserInfo, Warnings};
use crate::response::{self, Output, Response};
use crate::server::Handler;

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
const FLOW_SCHEMA: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const PRIORITY_LEVEL: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");
/// The longest audit id that is taken from a client.
const MAX_AUDIT_ID: usize = 64;

/// Everything between a connection and the verbs.
pub struct Stack {
    /// The server's parts.
    pub api: Arc<Api>,
    /// The controllers' identity.
    pub in_process: InProcess,
    /// The join endpoints.
    pub join: Join,
    /// The health endpoints.
    pub health: Arc<Health>,
    /// The audit log.
    pub audit: Audit,
    /// What a request is of.
    pub flow_control: FlowControl,
    /// How many requests at a time.
    pub in_flight: InFlight,
    /// How long a request may take that is no watch.
    pub request_timeout: Duration,
}

impl Handler for Stack {
    async fn handle(
        self: Arc<Self>,
        peer: Option<Arc<PeerCertificate>>,
        request: http::Request<Incoming>,
    ) -> Response {
        let started = Instant::now();
        let audit_id = audit_id(&request);
        let (warnings, annotations) = (Warnings::default(), Annotations::default());
        let info = match RequestInfo::parse(request.method(), request.uri()) {
            Ok(info) => info,
            Err(error) => {
                return finish(failure(&Status::internal(error)), &audit_id, &warnings);
            }
        };
        let registry = &self.api.registry;
        let served = info
            .is_resource_request
            .then(|| registry.get(&info.api_group, &info.api_version, &info.resource))
            .flatten();
        let labels = RequestLabels::of(&info, served.as_deref(), request.headers());
        let gzip = compression::wanted(request.headers());
        let dry_run = requested_dry_run(&info);
        let long_running = info.is_long_running();
        let method = request.method().clone();
        let path = info.path.clone();
        let recording = self.audit.record(&info, &request, &audit_id, &annotations, self.api.clock.now());
        let flow = Arc::<OnceLock<Arc<Flow>>>::default();
        let pass = Pass {
            stack: self.clone(),
            peer,
            info,
            audit_id: audit_id.clone(),
            warnings: warnings.clone(),
            annotations,
            recording: recording.clone(),
            flow: flow.clone(),
        };
        let (parts, body) = request.into_parts();
        let (body, unread) = unread::watched(body);
        let mut response = pass.guarded(http::Request::from_parts(parts, body)).await;
        unread.read().await;
        let took = started.elapsed();
        let code = response.status().as_u16();
        tracing::debug!(%method, path, code, ?took, audit_id, "answered");
        let whole = !long_running;
        let size = whole.then(|| response.body().size_hint().exact()).flatten();
        self.api.metrics.answered(labels.clone(), dry_run, code, whole.then_some(took), size);
        if let Some(flow) = flow.get() {
            classified(&mut response, flow);
        }
        let (mut response, mut at_end) = match &recording {
            Some(recording) => recording.answered(response, long_running).await,
            None => (response, None),
        };
        if let Some(until) = response.extensions_mut().remove::<UntilEnd>()
            && let Some(at_end) = at_end.take()
        {
            until.set(at_end);
        }
        let response = if long_running && response.status().is_success() {
            let counted = self.api.metrics.long_running(&labels);
            response.map(|body| ending::until(body, self.api.shutdown.clone(), counted, at_end))
        } else if whole && gzip {
            compression::compressed(response)
        } else {
            response
        };
        finish(response, &audit_id, &warnings)
    }
}

/// One request on its way through the filters.
struct Pass {
    stack: Arc<Stack>,
    peer: Option<Arc<PeerCertificate>>,
    info: RequestInfo,
    audit_id: String,
    warnings: Warnings,
    annotations: Annotations,
    recording: Option<Arc<Recording>>,
    /// What it is of, once somebody is known to ask.
    flow: Arc<OnceLock<Arc<Flow>>>,
}

impl Pass {
    /// A panic becomes a 500, and a write goes on when its client hangs up half-way.
    async fn guarded(self, request: http::Request<RequestBody>) -> Response {
        let recording = self.recording.clone();
        let read_only = self.info.is_read_only() || !self.info.is_resource_request;
        let answering = AssertUnwindSafe(self.answer(request)).catch_unwind();
        let answered = if read_only {
            answering.await
        } else {
            match tokio::spawn(answering).await {
                Ok(answered) => answered,
                Err(ended) => Err(Box::new(ended.to_string()) as Box<dyn std::any::Any + Send>),
            }
        };
        answered.unwrap_or_else(|_| {
            // The panic hook has written the message and the place.
            tracing::error!("a request handler panicked");
            recording.iter().for_each(|recording| recording.panicked());
            failure(&Status::internal("this request caused an error in the server; see its log"))
        })
    }

    async fn answer(self, request: http::Request<RequestBody>) -> Response {
        self.passed(request).await.unwrap_or_else(|status| failure(&status))
    }

    async fn passed(self, mut request: http::Request<RequestBody>) -> Result<Response, Status> {
        let stack = self.stack.clone();
        if route::is_public(&self.info) {
            self.record(&UserInfo::anonymous(), &mut request).await;
            return Ok(stack.public(&self.info, self.node(), request).await);
        }
        let (user, bound_term) = self.authenticated(&request)?;
        self.record(&user, &mut request).await;
        let view = stack.api.replica.view();
        let impersonated = impersonation::apply(&stack.api.authorizer, &view, &user, request.headers())?;
        if let (Some(recording), Some(user)) = (&self.recording, &impersonated) {
            recording.acts_as(user);
        }
        // Whoever acts as somebody else leaves the own term behind.
        let (user, bound_term) = impersonated.map_or((user, bound_term), |user| (user, None));
        let flow = stack.flow_control.flow_of(&view, &user, &self.info);
        if let Some(flow) = &flow {
            // The first of a request is its only one.
            let _ = self.flow.set(flow.clone());
        }
        let _room = stack.in_flight.enter(&self.info, &user, flow.as_deref(), &stack.api.metrics)?;
        let wanted = Attributes::from(&self.info);
        let decision = stack.api.authorizer.authorize(&user, &wanted, &view);
        self.recording.iter().for_each(|recording| recording.decided(&decision));
        if let Decision::Deny(reason) = decision {
            return Err(Authorizer::forbidden(&user, &wanted, &reason));
        }
        let deadline = deadline::of(&self.info, stack.request_timeout)?;
        // A limit beyond what the clock counts to is none.
        let deadline = deadline.and_then(|limit| Instant::now().checked_add(limit));
        let Self { info, audit_id, warnings, annotations, .. } = self;
        let ctx = RequestContext { info, user, bound_term, audit_id, warnings, annotations, deadline };
        let routed = stack.route(ctx, request);
        let Some(deadline) = deadline else { return Ok(routed.await) };
        tokio::time::timeout_at(deadline, routed)
            .await
            .map_err(|_| Status::timeout("request did not complete within the allotted timeout"))
    }

    /// Begins the request's record in the audit log; bodies of joining machines stay out of it.
    async fn record(&self, user: &UserInfo, request: &mut http::Request<RequestBody>) {
        let Some(recording) = &self.recording else { return };
        if let Some(copy) = recording.asked_by(user).await
            && !route::is_public(&self.info)
        {
            request.body_mut().copy_to(copy);
        }
    }

    /// The node whose good certificate the connection has.
    fn node(&self) -> Option<String> {
        let user = self.peer.as_ref()?.user(self.stack.api.clock.now().as_second()).ok()?;
        user.node_name().map(str::to_owned)
    }

    fn authenticated(&self, request: &http::Request<RequestBody>) -> Result<(UserInfo, Option<u64>), Status> {
        let stack = &self.stack;
        let now = stack.api.clock.now().as_second();
        let view = stack.api.replica.view();
        let caller = authentication::authenticate(
            self.peer.as_deref(),
            request.headers(),
            &stack.api.issuer,
            &stack.in_process,
            &view,
            now,
        );
        match caller {
            Caller::Known { user, bound_term } => Ok((user, bound_term)),
            Caller::Anonymous => Err(Status::unauthorized("Unauthorized")),
            Caller::Refused(reason) => {
                tracing::debug!(reason, audit_id = self.audit_id, "credentials refused");
                Err(Status::unauthorized("Unauthorized"))
            }
        }
    }
}

/// A Status as JSON: what filters answer.
pub(crate) fn failure(status: &Status) -> Response {
    let mut response = response::status(status, Output::JSON);
    let retry = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    if retry > 0 && !response.headers().contains_key(RETRY_AFTER) {
        response.headers_mut().insert(RETRY_AFTER, retry.into());
    }
    if status.reason == Reason::Unauthorized {
        let bearer = HeaderValue::from_static("Bearer realm=\"litek8s\"");
        response.headers_mut().insert(http::header::WWW_AUTHENTICATE, bearer);
    }
    response
}

/// The headers of every answer.
fn finish(mut response: Response, audit_id: &str, warnings: &Warnings) -> Response {
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(audit_id) {
        headers.insert(AUDIT_ID, id);
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
    for text in warnings.take() {
        if let Ok(value) = HeaderValue::from_str(&warning(&text)) {
            headers.append(WARNING, value);
        }
    }
    response
}

/// Says what the request was of.
fn classified(response: &mut Response, flow: &Flow) {
    for (name, (_, uid)) in [(FLOW_SCHEMA, &flow.schema), (PRIORITY_LEVEL, &flow.level)] {
        if let Ok(uid) = HeaderValue::from_str(uid) {
            response.headers_mut().insert(name, uid);
        }
    }
}

/// RFC 7234 §5.5: code 299, no agent, the text quoted.
fn warning(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    format!("299 - \"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn audit_id(request: &http::Request<Incoming>) -> String {
    let given = request.headers().get(AUDIT_ID).and_then(|value| value.to_str().ok());
    let usable =
        |id: &&str| !id.is_empty() && id.len() <= MAX_AUDIT_ID && id.bytes().all(|b| b.is_ascii_graphic());
    given.filter(usable).map_or_else(|| uuid::Uuid::new_v4().to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_quoted() {
        assert_eq!(warning("unknown field \"spec.x\"\n"), r#"299 - "unknown field \"spec.x\"""#);
    }
}
