//! A connection to an address, made by the agent of a node and carried by one stream of its connection; a request over it.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use form_urlencoded::Serializer;
use futures::{SinkExt, StreamExt};
use http::Request;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_util::io::{CopyToBytes, SinkWriter, StreamReader};
use tokio_util::sync::PollSender;

use super::super::tunnel;
use crate::aggregation::{causes, trust};
use crate::api::Api;
use crate::response::Body;

/// How long two may take to agree on a key.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Bytes both ways.
pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A connection.
pub(super) type Stream = Box<dyn Io>;

/// Connects to an address by a node that reaches it; with `tls` to whoever answers there, as kube-apiserver does.
pub(super) async fn open(api: &Api, node: &str, to: SocketAddr, tls: bool) -> Result<Stream, String> {
    let (sender, body) = tunnel::outgoing();
    let request = Request::post(format!("http://{node}/dial?{}", query(to))).body(body);
    let request = request.map_err(|error| error.to_string())?;
    let answer = api.streams.nodes.send(node, request).await.map_err(|status| status.message)?;
    let pieces = futures::stream::unfold(answer, |mut answer| async move {
        let piece = answer.next().await?.map_err(io::Error::other);
        Some((piece, answer))
    });
    let read = StreamReader::new(pieces.boxed());
    let write = PollSender::new(sender).sink_map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe));
    let plain = tokio::io::join(read, SinkWriter::new(CopyToBytes::new(write)));
    if tls { encrypted(plain, to).await } else { Ok(Box::new(plain)) }
}

fn query(to: SocketAddr) -> String {
    let mut query = Serializer::new(String::new());
    query.append_pair("address", &to.ip().to_string()).append_pair("port", &to.port().to_string());
    query.finish()
}

async fn encrypted(plain: impl Io + 'static, to: SocketAddr) -> Result<Stream, String> {
    static CONFIG: LazyLock<Result<Arc<ClientConfig>, String>> = LazyLock::new(config);
    let connector = TlsConnector::from(CONFIG.clone()?);
    let shaking = connector.connect(ServerName::IpAddress(to.ip().into()), plain);
    match tokio::time::timeout(HANDSHAKE, shaking).await {
        Ok(Ok(stream)) => Ok(Box::new(stream)),
        Ok(Err(error)) => Err(format!("tls: {error}")),
        Err(_) => Err("net/http: TLS handshake timeout".to_owned()),
    }
}

fn config() -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let anybody = trust(&[], true, &provider)?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(anybody)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Sends a request; the connection lasts until the answer was read, or what it was upgraded to has ended.
pub(super) async fn send(
    api: &Api,
    stream: Stream,
    request: Request<Body>,
) -> Result<http::Response<Incoming>, String> {
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| error.to_string())?;
    let end = api.shutdown.clone();
    api.streams.tasks.spawn(async move {
        tokio::select! {
            () = end.cancelled() => {}
            ended = connection.with_upgrades() => if let Err(error) = ended {
                tracing::debug!(%error, "a proxied connection broke");
            }
        }
    });
    sender.send_request(request).await.map_err(|error| causes(&error))
}
