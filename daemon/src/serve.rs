//! `/healthz`, `/readyz` and `/metrics` of a daemon that serves nothing else. Plain HTTP, for probes and Prometheus.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::health;
use crate::metrics::{CONTENT_TYPE, Metrics};

/// The name of the one check that `/readyz` makes.
const CHECK: &str = "work";
/// How many connections are served at once; more wait in the kernel.
const CONNECTIONS: usize = 64;
/// How long the head of a request may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// After a connection that could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// Whether a daemon does its work, and if not, why; clones share it.
#[derive(Debug, Clone)]
pub struct Readiness(Arc<Mutex<Result<(), String>>>);

impl Readiness {
    /// Not ready, for this reason.
    pub fn new(why: &str) -> Self {
        Self(Arc::new(Mutex::new(Err(why.to_owned()))))
    }

    /// Ready from now on.
    pub fn ready(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Ok(());
    }

    /// Not ready any more.
    pub fn unready(&self, why: &str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Err(why.to_owned());
    }

    fn result(&self) -> Result<(), String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Reads `ADDRESS:PORT`. An IPv6 address may be without brackets, as a pod is given it by the downward API: the port comes
/// after the last colon.
///
/// # Errors
/// When it is neither.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let apart = || -> Option<SocketAddr> {
        let (address, port) = text.rsplit_once(':')?;
        Some(SocketAddr::new(address.parse().ok()?, port.parse().ok()?))
    };
    text.parse().ok().or_else(apart).ok_or_else(|| format!("{text} is no ADDRESS:PORT"))
}

/// Opens the listener. `[::]` is everywhere, in a kernel without IPv6 too.
///
/// # Errors
/// When the address is not this machine's or the port is taken.
pub async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let everywhere = address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let listener = match TcpListener::bind(address).await {
        Err(_) if everywhere => TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await,
        other => other,
    };
    listener.with_context(|| format!("--listen {address}: cannot listen there"))
}

/// Answers until `shutdown`.
pub async fn serve(
    listener: TcpListener,
    metrics: Metrics,
    readiness: Readiness,
    shutdown: CancellationToken,
) {
    let room = Arc::new(tokio::sync::Semaphore::new(CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            accepted = async { (room.clone().acquire_owned().await, listener.accept().await) } => accepted,
            () = shutdown.cancelled() => return,
        };
        let (Ok(place), Ok((stream, _))) = accepted else {
            // Out of descriptors, for example: it passes, and is not to be asked for without a pause.
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let (metrics, readiness, shutdown) = (metrics.clone(), readiness.clone(), shutdown.clone());
        tokio::spawn(async move {
            let _place = place;
            let service = service_fn(|request: Request<Incoming>| {
                let response = answer(request.uri(), &metrics, &readiness);
                async move { Ok::<_, Infallible>(response) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE)
                .serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                // A client that goes away is none of our concern.
                _ = connection => {}
                () = shutdown.cancelled() => {}
            }
        });
    }
}

/// The answer to one path.
pub fn answer(uri: &http::Uri, metrics: &Metrics, readiness: &Readiness) -> Response<Full<Bytes>> {
    let verbose = uri.query().unwrap_or_default().split('&').any(|part| part.starts_with("verbose"));
    let (status, kind, body) = match uri.path() {
        "/healthz" | "/livez" => (StatusCode::OK, "text/plain", "ok".to_owned()),
        "/readyz" => {
            let report = health::report("readyz", &[(CHECK.to_owned(), readiness.result())], verbose, &[]);
            let status = if report.healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            (status, "text/plain", report.text)
        }
        "/metrics" => match metrics.encode() {
            Ok(text) => (StatusCode::OK, CONTENT_TYPE, text),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, "text/plain", error.to_string()),
        },
        _ => (StatusCode::NOT_FOUND, "text/plain", "/healthz, /readyz and /metrics are here\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    async fn ask(path: &str, readiness: &Readiness) -> (u16, String) {
        let response = answer(&path.parse().unwrap(), &Metrics::default(), readiness);
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[test]
    fn the_port_comes_after_the_last_colon() {
        for (text, read) in [
            ("192.0.2.1:9479", "192.0.2.1:9479"),
            ("[2001:db8::1]:9479", "[2001:db8::1]:9479"),
            ("2001:db8::1:9479", "[2001:db8::1]:9479"),
            ("[::]:8080", "[::]:8080"),
            (":::8080", "[::]:8080"),
        ] {
            assert_eq!(address(text).unwrap().to_string(), read);
        }
        for text in ["", "9479", "192.0.2.1", "host:9479", "192.0.2.1:port", "192.0.2.1:70000"] {
            assert_eq!(address(text), Err(format!("{text} is no ADDRESS:PORT")));
        }
    }

    #[tokio::test]
    async fn readiness_says_why_and_health_is_another_matter() {
        let readiness = Readiness::new("nothing was read yet");
        let (status, text) = ask("/readyz", &readiness).await;
        assert_eq!(status, 503);
        assert!(text.contains("[-]work failed: nothing was read yet"), "{text}");
        assert_eq!(ask("/healthz", &readiness).await, (200, "ok".into()));
        readiness.ready();
        assert_eq!(ask("/readyz", &readiness).await, (200, "ok".into()));
        assert!(ask("/readyz?verbose", &readiness).await.1.contains("[+]work ok"));
        readiness.unready("the API is away");
        assert_eq!(ask("/readyz", &readiness).await.0, 503);
        assert!(ask("/metrics", &readiness).await.1.contains("process_threads"));
        assert_eq!(ask("/debug", &readiness).await.0, 404);
    }

    #[tokio::test]
    async fn it_answers_over_the_wire_until_it_is_told_to_end() {
        let listener = listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let taken = listen(address).await.unwrap_err().to_string();
        assert!(taken.contains(&format!("--listen {address}")), "{taken}");
        let end = CancellationToken::new();
        let serving = tokio::spawn(serve(listener, Metrics::default(), Readiness::new(""), end.clone()));
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let request = Request::get("/metrics").body(Full::new(Bytes::new())).unwrap();
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(
            (response.status().as_u16(), &response.headers()["content-type"]),
            (200, &header::HeaderValue::from_static(CONTENT_TYPE))
        );
        end.cancel();
        serving.await.unwrap();
    }
}
