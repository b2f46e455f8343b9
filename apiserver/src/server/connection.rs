//! One connection from its handshake to its end, which breaks no request: HTTP/2 says goodbye and finishes what was
//! begun; HTTP/1.1 answers once more and says that it closes, before it is closed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, HeaderValue};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::{Drain, Handler, listeners};
use crate::audit::Source;
use crate::authentication::PeerCertificate;
use crate::response::Response;

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
/// How long a draining HTTP/1.1 connection waits for a request that is on its way, to answer it with the news.
const LINGER: Duration = Duration::from_millis(500);

/// Serves a connection until one of both sides ends it.
pub(super) async fn connection<H: Handler>(
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
    let answer = move |mut request: http::Request<Incoming>| {
        request.extensions_mut().insert(Source(from));
        handler.clone().handle(peer.clone(), request)
    };
    let served = if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        two(stream, answer, drain).await
    } else {
        one(stream, answer, drain).await
    };
    if let Err(error) = served {
        tracing::debug!(%from, %error, "connection ended");
    }
}

async fn two<A, F>(stream: TlsStream<TcpStream>, answer: A, drain: Drain) -> hyper::Result<()>
where
    A: Fn(http::Request<Incoming>) -> F,
    F: Future<Output = Response> + Send + 'static,
{
    let service = service_fn(|request| {
        let answered = answer(request);
        async move { Ok::<_, std::convert::Infallible>(answered.await) }
    });
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(PING.0)
        .keep_alive_timeout(PING.1)
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADER_LIST)
        .initial_stream_window_size(WINDOW.0)
        .initial_connection_window_size(WINDOW.1);
    let mut serving = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        served = serving.as_mut() => return served,
        () = drain.begin.cancelled() => serving.as_mut().graceful_shutdown(),
    }
    serving.await
}

async fn one<A, F>(stream: TlsStream<TcpStream>, answer: A, drain: Drain) -> hyper::Result<()>
where
    A: Fn(http::Request<Incoming>) -> F,
    F: Future<Output = Response> + Send + 'static,
{
    let begin = drain.begin.clone();
    let service = service_fn(move |request| {
        let (answered, begin) = (answer(request), begin.clone());
        async move {
            let mut response = answered.await;
            // An upgraded connection is no longer ours to close.
            if begin.is_cancelled() && response.status() != http::StatusCode::SWITCHING_PROTOCOLS {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADER_READ).max_buf_size(MAX_HEAD);
    let serving = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
    let mut serving = std::pin::pin!(serving);
    let lingered = async {
        drain.begin.cancelled().await;
        tokio::time::sleep(LINGER).await;
    };
    tokio::select! {
        served = serving.as_mut() => return served,
        () = lingered => serving.as_mut().graceful_shutdown(),
    }
    serving.await
}
