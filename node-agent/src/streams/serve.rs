//! HTTP/2 on the connection that was turned round: the paths of a kubelet, each answered by a stream.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use litek8s_daemon::streams;

use super::containers::{ByteStream, ContainerName, Containers, Refusal};
use super::{forward, log, session};

/// How often a silent server is asked for a sign of life, and how long it may take.
const PING: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(15));

type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// Answers the server's requests until the connection ends.
pub(super) async fn connection(upgraded: Upgraded, containers: Arc<dyn Containers>) {
    let service = service_fn(move |request| {
        let containers = containers.clone();
        async move { Ok::<_, Infallible>(answer(&*containers, request).await) }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(PING.0)
        .keep_alive_timeout(PING.1)
        .max_concurrent_streams(streams::MAX_STREAMS)
        .max_header_list_size(streams::MAX_HEAD)
        .initial_stream_window_size(streams::STREAM_WINDOW)
        .initial_connection_window_size(streams::CONNECTION_WINDOW);
    if let Err(error) = builder.serve_connection(upgraded, service).await {
        tracing::info!(%error, "the connection for streams broke");
    }
}

async fn answer(containers: &dyn Containers, request: Request<Incoming>) -> Response<Body> {
    match begin(containers, request).await {
        Ok(bytes) => response(StatusCode::OK, streamed(bytes)),
        Err(refusal) => {
            let text = Full::new(Bytes::from(refusal.message));
            response(refusal.code, text.map_err(|never| match never {}).boxed_unsync())
        }
    }
}

async fn begin(containers: &dyn Containers, request: Request<Incoming>) -> Result<ByteStream, Refusal> {
    let path = request.uri().path().to_owned();
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    let query: HashMap<String, String> =
        form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes()).into_owned().collect();
    match (request.method(), segments.as_slice()) {
        (&Method::GET, ["containerLogs", namespace, pod, container]) => {
            log::log(containers, &named(namespace, pod, container), &query).await
        }
        (&Method::POST, [what @ ("exec" | "attach"), namespace, pod, container]) => {
            let name = named(namespace, pod, container);
            let flag = |name: &str| query.get(name).is_some_and(|text| text == "1");
            let wanted = session::Wanted {
                stdin: flag("input"),
                stdout: flag("output"),
                stderr: flag("error"),
                tty: flag("tty"),
            };
            let (io, ends) = session::pipes(wanted);
            let running = if *what == "exec" {
                let pairs = form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes());
                let command = pairs.filter(|(name, _)| name == "command").map(|(_, word)| word.into_owned());
                containers.exec(&name, command.collect(), io).await?
            } else {
                containers.attach(&name, io).await?
            };
            Ok(session::body(running, ends, request.into_body()))
        }
        (&Method::POST, ["portForward", namespace, pod]) => {
            let port = query.get("port").and_then(|port| port.parse().ok());
            let port = port.ok_or_else(|| Refusal::new(StatusCode::BAD_REQUEST, "no port was named"))?;
            let connection = containers.connect(namespace, pod, port).await?;
            Ok(forward::body(connection, request.into_body()))
        }
        _ => Err(Refusal::new(StatusCode::NOT_FOUND, format!("the agent has no {path}"))),
    }
}

fn named(namespace: &str, pod: &str, container: &str) -> ContainerName {
    ContainerName { namespace: namespace.to_owned(), pod: pod.to_owned(), container: container.to_owned() }
}

fn streamed(bytes: ByteStream) -> Body {
    StreamBody::new(bytes.map(|bytes| bytes.map(Frame::data))).boxed_unsync()
}

fn response(code: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}
