//! Connections: listeners, TLS, HTTP/1.1 and HTTP/2, and how they end; never what a request means.

mod listeners;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use listeners::{bind, inherited};
pub use tls::{ServingCertificate, server_config};

use crate::audit::Source;
use crate::authentication::PeerCertificate;
use crate::response::Response;

/// Connections open at a time; more wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 16_384;
/// For the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// For the next request's head, idle time included: longer than clients keep idle connections.
const HEADER_READ: Duration = Duration::from_secs(180);
/// The largest head of an HTTP/1.1 request, and the read buffer's bound.
const MAX_HEAD: usize = 128 * 1024;
/// The largest head of an HTTP/2 request.
const MAX_HEADER_LIST: u32 = 64 * 1024;
/// Requests at a time on one HTTP/2 connection.
const MAX_STREAMS: u32 = 250;
/// How often an idle HTTP/2 connection is asked for a sign of life, and how long it may take.
const PING: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(15));
/// What a client may send ahead on one stream, and on all of a connection.
const WINDOW: (u32, u32) = (256 * 1024, 1024 * 1024);

/// Answers requests.
pub trait Handler: Send + Sync + 'static {
    /// Answers one request of a connection.
    fn handle(
        self: Arc<Self>,
        peer: Option<Arc<PeerCertificate>>,
        request: http::Request<Incoming>,
    ) -> impl Future<Output = Response> + Send;
}

/// The two steps of stopping.
#[derive(Debug, Clone, Default)]
pub struct Drain {
    /// No new connections; the open ones end with the requests they are answering.
    pub begin: CancellationToken,
    /// Whatever is left ends now.
    pub end: CancellationToken,
}

/// Serves a listener until `drain` begins; the connections' tasks are in `tasks`.
pub async fn serve<H: Handler>(
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    handler: Arc<H>,
    drain: Drain,
    tasks: TaskTracker,
) {
    let acceptor = TlsAcceptor::from(tls);
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let permit = tokio::select! {
            () = drain.begin.cancelled() => return,
            permit = room.clone().acquire_owned() => permit,
        };
        let Ok(permit) = permit else { return };
        let accepted = tokio::select! {
            () = drain.begin.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, from)) => {
                let (acceptor, handler, drain) = (acceptor.clone(), handler.clone(), drain.clone());
                tasks.spawn(async move {
                    let _permit = permit;
                    let end = drain.end.clone();
                    tokio::select! {
                        () = end.cancelled() => {}
                        () = connection(stream, from, acceptor, handler, drain) => {}
                    }
                });
            }
            Err(error) => {
                // Out of descriptors, mostly: wait for some to be closed.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn connection<H: Handler>(
    stream: TcpStream,
    from: SocketAddr,
    acceptor: TlsAcceptor,
    handler: Arc<H>,
    drain: Drain,
) {
    if let Err(error) = listeners::tune(&stream) {
        tracing::debug!(%from, %error, "cannot tune a connection");
    }
    let stream = match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%from, %error, "TLS handshake failed"),
        Err(_) => return tracing::debug!(%from, "TLS handshake took too long"),
    };
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let peer = certificate.and_then(|der| PeerCertificate::read(der)).map(Arc::new);
    let service = service_fn(move |mut request: http::Request<Incoming>| {
        request.extensions_mut().insert(Source(from));
        let (handler, peer) = (handler.clone(), peer.clone());
        async move { Ok::<_, std::convert::Infallible>(handler.handle(peer, request).await) }
    });
    let builder = builder();
    let serving = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(serving);
    let served = tokio::select! {
        served = serving.as_mut() => served,
        () = drain.begin.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%from, %error, "connection ended");
    }
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_READ)
        .max_buf_size(MAX_HEAD)
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING.0)
        .keep_alive_timeout(PING.1)
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADER_LIST)
        .initial_stream_window_size(WINDOW.0)
        .initial_connection_window_size(WINDOW.1);
    builder
}
