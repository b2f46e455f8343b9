//! The nodes that are connected: a connection each, dialled by the agent and used by this server as HTTP/2 client.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use litek8s_daemon::streams;
use litek8s_machinery::status::{Reason, Status};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::upgrade;
use crate::api::Api;
use crate::audit::UntilEnd;
use crate::filters::RequestBody;
use crate::response::{Body, BoxError, Failure, Response};

/// How often a node is asked for a sign of life, and how long it may take.
const PING: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(10));
/// How long an agent may take to begin its answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest explanation of a refusal.
const MAX_REFUSAL: usize = 16 * 1024;
/// Nodes that may be connected at a time.
const MAX_NODES: usize = 4096;

/// The connected nodes by name.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    connected: Mutex<BTreeMap<String, Connected>>,
    next: AtomicU64,
}

#[derive(Debug, Clone)]
struct Connected {
    id: u64,
    sender: SendRequest<Body>,
    room: Arc<Semaphore>,
    replaced: CancellationToken,
}

/// What an agent answers, with its place among the node's streams.
#[derive(Debug)]
pub(super) struct NodeStream {
    incoming: Incoming,
    _place: OwnedSemaphorePermit,
}

impl NodeStream {
    /// The next bytes; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, hyper::Error>> {
        loop {
            match self.incoming.frame().await? {
                Ok(frame) => match frame.into_data() {
                    Ok(data) if data.is_empty() => {}
                    Ok(data) => return Some(Ok(data)),
                    // Trailers: the agent sends none.
                    Err(_) => {}
                },
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// The answer as the body of ours.
    pub(super) fn into_body(self) -> Body {
        let frames = futures::stream::unfold(self, |mut stream| async move {
            let frame = stream.next().await?.map_err(|error| Box::new(error) as BoxError);
            Some((frame, stream))
        });
        crate::response::streamed(frames)
    }
}

/// Answers a node that dials: its connection becomes ours to send requests on.
pub(super) fn connect(
    api: &Arc<Api>,
    node: &str,
    mut request: http::Request<RequestBody>,
) -> Result<Response, Failure> {
    if !upgrade::asks_for(request.headers(), streams::PROTOCOL) {
        let message = format!("this path is for agents, which upgrade it to {}", streams::PROTOCOL);
        return Err(Status::bad_request(message));
    }
    let upgrade = hyper::upgrade::on(&mut request);
    let (api, node) = (api.clone(), node.to_owned());
    let until = UntilEnd::default();
    let mut response = upgrade::switching(streams::PROTOCOL);
    response.extensions_mut().insert(until.clone());
    api.streams.tasks.spawn({
        let api = api.clone();
        async move {
            let _until = until;
            tokio::select! {
                () = api.shutdown.cancelled() => {}
                () = keep(&api.streams.nodes, &node, upgrade) => {}
            }
        }
    });
    Ok(response)
}

/// Holds the connection until it ends or the node opens another one.
async fn keep(nodes: &Nodes, node: &str, upgrade: OnUpgrade) {
    let upgraded = match upgrade.await {
        Ok(upgraded) => upgraded,
        Err(error) => return tracing::debug!(node, %error, "a node's connection was not upgraded"),
    };
    let handshake = client().handshake::<Upgraded, Body>(upgraded);
    let (sender, connection) = match tokio::time::timeout(PATIENCE, handshake).await {
        Ok(Ok(made)) => made,
        Ok(Err(error)) => return tracing::info!(node, %error, "a node's connection failed"),
        Err(_) => return tracing::info!(node, "a node's connection took too long"),
    };
    let Some(connected) = nodes.enter(node, sender) else {
        return tracing::warn!(node, limit = MAX_NODES, "too many nodes are connected");
    };
    tracing::info!(node, "the node is connected for streams");
    let ended = tokio::select! {
        ended = connection => ended,
        () = connected.replaced.cancelled() => Ok(()),
    };
    nodes.leave(node, connected.id);
    match ended {
        Ok(()) => tracing::info!(node, "the node's connection ended"),
        Err(error) => tracing::info!(node, %error, "the node's connection broke"),
    }
}

fn client() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(PING.0)
        .keep_alive_timeout(PING.1)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(streams::STREAM_WINDOW)
        .initial_connection_window_size(streams::CONNECTION_WINDOW);
    builder
}

impl Nodes {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Connected>> {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a connection in, in place of the node's former one.
    fn enter(&self, node: &str, sender: SendRequest<Body>) -> Option<Connected> {
        let connected = Connected {
            id: self.next.fetch_add(1, Ordering::Relaxed),
            sender,
            room: Arc::new(Semaphore::new(streams::MAX_STREAMS as usize)),
            replaced: CancellationToken::new(),
        };
        let mut all = self.all();
        if all.len() >= MAX_NODES && !all.contains_key(node) {
            return None;
        }
        if let Some(former) = all.insert(node.to_owned(), connected.clone()) {
            former.replaced.cancel();
        }
        Some(connected)
    }

    fn leave(&self, node: &str, id: u64) {
        let mut all = self.all();
        if all.get(node).is_some_and(|connected| connected.id == id) {
            all.remove(node);
        }
    }

    /// Whether a request could be sent.
    ///
    /// # Errors
    /// 503 when the node is not connected.
    pub(super) fn check(&self, node: &str) -> Result<(), Failure> {
        self.find(node).map(drop)
    }

    fn find(&self, node: &str) -> Result<Connected, Failure> {
        self.all().get(node).cloned().ok_or_else(|| {
            Status::service_unavailable(format!(
                "node {node:?} is not connected to this server: its agent is down or cannot reach it"
            ))
        })
    }

    /// Sends a request to a node's agent.
    ///
    /// # Errors
    /// 503 when the node is not connected or has no room; what the agent says when it refuses.
    pub(super) async fn send(&self, node: &str, request: http::Request<Body>) -> Result<NodeStream, Failure> {
        let answer = self.ask(node, request).await?;
        if answer.status() == StatusCode::OK {
            return Ok(answer.into_body());
        }
        Err(refusal(answer.map(|stream| stream.incoming)).await)
    }

    /// The answer of a node's agent, whatever it is.
    ///
    /// # Errors
    /// 503 when the node is not connected or has no room.
    pub(super) async fn ask(
        &self,
        node: &str,
        request: http::Request<Body>,
    ) -> Result<http::Response<NodeStream>, Failure> {
        let Connected { mut sender, room, .. } = self.find(node)?;
        let Ok(place) = room.try_acquire_owned() else {
            return Err(Status::service_unavailable(format!(
                "node {node:?} has {} streams open already",
                streams::MAX_STREAMS
            )));
        };
        let answering = async {
            sender.ready().await?;
            sender.send_request(request).await
        };
        let broken = |why: String| Status::service_unavailable(format!("the stream to node {node:?} {why}"));
        let response = tokio::time::timeout(PATIENCE, answering)
            .await
            .map_err(|_| broken(format!("did not begin within {} s", PATIENCE.as_secs())))?
            .map_err(|error| broken(format!("broke: {error}")))?;
        Ok(response.map(|incoming| NodeStream { incoming, _place: place }))
    }
}

/// The agent's refusal, in its own words.
async fn refusal(response: http::Response<Incoming>) -> Failure {
    let code = response.status();
    let text = match Limited::new(response.into_body(), MAX_REFUSAL).collect().await {
        Ok(body) => String::from_utf8_lossy(&body.to_bytes()).trim().to_owned(),
        Err(_) => String::new(),
    };
    let text = if text.is_empty() { format!("the node's agent answered {code}") } else { text };
    let reason = match code.as_u16() {
        400 => Reason::BadRequest,
        404 => Reason::NotFound,
        409 => Reason::Conflict,
        503 => Reason::ServiceUnavailable,
        500.. => Reason::InternalError,
        _ => Reason::Unknown,
    };
    Status::new(code.as_u16(), reason, text)
}
