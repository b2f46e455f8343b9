//! `pods/portforward`: every connection of the client's end becomes a stream to the node, and from there to the pod.

mod channels;
mod pairs;

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use litek8s_machinery::status::Status;
use serde_json::json;
use tokio::sync::mpsc;

use super::client::{spdy_with, switching_to_spdy};
use super::nodes::NodeStream;
use super::websocket::{self, Handshake};
use super::{Open, connect, pod, tunnel};
use crate::api::Api;
use crate::filters::RequestBody;
use crate::request::{Query, RequestContext};
use crate::response::{Failure, Response};

/// SPDY in the messages of a WebSocket.
const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";
/// A pair of channels for each port in the URL.
const CHANNELS: &str = "v4.channel.k8s.io";
/// What goes on in SPDY's streams.
const STREAMS: &str = "portforward.k8s.io";
/// Ports in one URL: their channels are numbered by a byte.
const MAX_PORTS: usize = 64;

/// How the client speaks.
enum Client {
    Tunnel(Handshake),
    Channels(Handshake, Vec<u16>),
    Spdy,
}

impl Client {
    fn negotiate(headers: &http::HeaderMap, query: &Query) -> Result<Self, Failure> {
        if !websocket::asked_for(headers) {
            spdy_with(headers, STREAMS)?;
            return Ok(Self::Spdy);
        }
        let handshake = websocket::handshake(headers, &[TUNNEL, CHANNELS])?;
        if handshake.protocol == TUNNEL {
            return Ok(Self::Tunnel(handshake));
        }
        let ports = query.all("ports").flat_map(|ports| ports.split(',')).map(port);
        let ports = ports.collect::<Result<Vec<u16>, Failure>>()?;
        if ports.is_empty() || ports.len() > MAX_PORTS {
            return Err(Status::bad_request(format!(
                "query parameter \"ports\" names {} ports: 1 to {MAX_PORTS} are possible",
                ports.len()
            )));
        }
        Ok(Self::Channels(handshake, ports))
    }

    fn response(&self) -> Response {
        match self {
            Self::Tunnel(handshake) | Self::Channels(handshake, _) => handshake.response(),
            Self::Spdy => switching_to_spdy(STREAMS),
        }
    }

    async fn serve(self, upgraded: Upgraded, target: Target) {
        match self {
            Self::Spdy => {
                let (read, write) = tokio::io::split(TokioIo::new(upgraded));
                pairs::serve(read, write, target).await;
            }
            Self::Tunnel(_) => {
                let (read, write) = websocket::bytes(websocket::open(upgraded).await);
                pairs::serve(read, write, target).await;
            }
            Self::Channels(_, ports) => {
                channels::serve(websocket::open(upgraded).await, &ports, target).await
            }
        }
    }
}

fn port(text: &str) -> Result<u16, Failure> {
    let port = text.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| Status::bad_request(format!("{text:?} is not a port")))
}

/// Answers a port-forward.
pub(super) async fn serve(
    api: &Arc<Api>,
    ctx: &RequestContext,
    mut request: Request<RequestBody>,
) -> Result<Response, Failure> {
    let pod = pod::find(api, ctx).await?;
    let node = pod.host()?.to_owned();
    let client = Client::negotiate(request.headers(), &ctx.info.query)?;
    let ports = if let Client::Channels(_, ports) = &client { ports.as_slice() } else { &[] };
    let mut options = json!({"kind": "PodPortForwardOptions", "apiVersion": "v1", "ports": ports});
    connect::admit(api, ctx, &mut options).await?;
    // A connection to a port comes later; that the node is not there is told now.
    api.streams.nodes.check(&node)?;
    let upgrade = hyper::upgrade::on(&mut request);
    let mut response = client.response();
    let open = Open::new(api, ctx, request.headers(), &mut response);
    let target = Target { api: api.clone(), node, namespace: pod.namespace, pod: pod.name };
    let end = api.shutdown.clone();
    api.streams.tasks.spawn(async move {
        let _open = open;
        let session = async {
            match upgrade.await {
                Ok(upgraded) => client.serve(upgraded, target).await,
                Err(error) => tracing::debug!(%error, "a port-forward did not begin"),
            }
        };
        tokio::select! {
            () = end.cancelled() => {}
            () = session => {}
        }
    });
    Ok(response)
}

/// The pod that is connected to.
#[derive(Clone)]
struct Target {
    api: Arc<Api>,
    node: String,
    namespace: String,
    pod: String,
}

impl Target {
    /// A connection to a port of the pod.
    async fn connect(&self, port: u16) -> Result<(mpsc::Sender<Bytes>, NodeStream), String> {
        let Self { api, node, namespace, pod } = self;
        let (sender, body) = tunnel::outgoing();
        let url = format!("http://{node}/portForward/{namespace}/{pod}?port={port}");
        let request = Request::post(url).body(body).map_err(|error| error.to_string())?;
        let stream = api.streams.nodes.send(node, request).await;
        let stream = stream
            .map_err(|status| format!("error forwarding port {port} to pod {pod}: {}", status.message))?;
        Ok((sender, stream))
    }
}

/// The client's end of one connection.
trait Output {
    /// Sends data of the pod.
    async fn send(&mut self, data: Bytes) -> std::io::Result<()>;
    /// Says that the pod sends nothing more.
    async fn finish(&mut self);
    /// Says what went wrong.
    async fn fail(&mut self, why: &str);
}

/// Carries one connection both ways until the pod is done or the client gone.
async fn forward(target: &Target, port: u16, mut input: mpsc::Receiver<Bytes>, output: &mut impl Output) {
    let (to_pod, mut from_pod) = match target.connect(port).await {
        Ok(connected) => connected,
        Err(why) => return output.fail(&why).await,
    };
    let inward = async {
        while let Some(data) = input.recv().await {
            if to_pod.send(data).await.is_err() {
                break;
            }
        }
        // The client's end is closed, but the pod may still have something to say.
        drop(to_pod);
    };
    let outward = async {
        loop {
            match from_pod.next().await {
                None => return output.finish().await,
                Some(Ok(data)) => {
                    if output.send(data).await.is_err() {
                        return;
                    }
                }
                Some(Err(error)) => {
                    return output.fail(&format!("the stream to the node broke: {error}")).await;
                }
            }
        }
    };
    tokio::pin!(outward);
    tokio::select! {
        () = async { inward.await; std::future::pending().await } => {}
        () = &mut outward => {}
    }
}
