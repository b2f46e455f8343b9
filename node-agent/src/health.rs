//! `/healthz`, `/readyz` and `/metrics` on a loopback address.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, ensure};
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use litek8s_daemon::metrics::{CONTENT_TYPE, Metrics};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Whether the first pass has succeeded.
pub(crate) type Ready = Arc<AtomicBool>;

/// Opens the listener; anything but loopback would show metrics to the network.
pub(crate) async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    ensure!(address.ip().is_loopback(), "--listen {address}: only a loopback address");
    TcpListener::bind(address).await.with_context(|| format!("listen on {address}"))
}

/// Answers until `shutdown`.
pub(crate) async fn serve(
    listener: TcpListener,
    metrics: Metrics,
    ready: Ready,
    shutdown: CancellationToken,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.cancelled() => return,
        };
        let Ok((stream, _)) = accepted else { continue };
        let (metrics, ready, shutdown) = (metrics.clone(), ready.clone(), shutdown.clone());
        tokio::spawn(async move {
            let service = service_fn(|request: Request<Incoming>| {
                let response = answer(request.uri().path(), &metrics, &ready);
                async move { Ok::<_, Infallible>(response) }
            });
            let connection =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                // A client that goes away is none of our concern.
                _ = connection => {}
                () = shutdown.cancelled() => {}
            }
        });
    }
}

fn answer(path: &str, metrics: &Metrics, ready: &Ready) -> Response<Full<Bytes>> {
    let (status, kind, body) = match path {
        "/healthz" | "/livez" => (StatusCode::OK, "text/plain", "ok".to_owned()),
        "/readyz" if ready.load(Ordering::Relaxed) => (StatusCode::OK, "text/plain", "ok".to_owned()),
        "/readyz" => (StatusCode::SERVICE_UNAVAILABLE, "text/plain", "no pass has succeeded yet".to_owned()),
        "/metrics" => match metrics.encode() {
            Ok(text) => (StatusCode::OK, CONTENT_TYPE, text),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, "text/plain", error.to_string()),
        },
        _ => (StatusCode::NOT_FOUND, "text/plain", "not found".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}
