//! HTTP/2 on the connection that was turned round: the paths of a kubelet, each answered by a stream, connections to what
//! the node reaches, and what the agent says of itself.

use std::collections::HashMap;
use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use litek8s_daemon::{serve, streams};

use super::containers::{ByteStream, ContainerName, Containers, Refusal};
use super::{Services, dial, forward, log, session};

/// How often a silent server is asked for a sign of life, and how long it may take.
const PING: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(15));

type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// Answers the server's requests until the connection ends.
pub(super) async fn connection(upgraded: Upgraded, services: Services) {
    let service = service_fn(move |request| {
        let services = services.clone();
        async move { Ok::<_, Infallible>(answer(&services, request).await) }
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

async fn answer(services: &Services, request: Request<Incoming>) -> Response<Body> {
    if let Some(own) = own(request.uri()) {
        let answer = match *request.method() {
            Method::GET | Method::HEAD => serve::answer(&own, &services.metrics, &services.ready),
            _ => refused(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "the agent is only looked at")),
        };
        return answer.map(|body| body.map_err(|never| match never {}).boxed_unsync());
    }
    match begin(&*services.containers, request).await {
        Ok(bytes) => response(StatusCode::OK, streamed(bytes)),
        Err(refusal) => refused(refusal).map(|body| body.map_err(|never| match never {}).boxed_unsync()),
    }
}

/// What is asked of the agent itself, as its own listener has it.
fn own(uri: &Uri) -> Option<Uri> {
    let rest = uri.path_and_query()?.as_str().strip_prefix(streams::OWN)?;
    if rest.starts_with('/') { rest.parse().ok() } else { None }
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
        (&Method::POST, ["dial"]) => {
            let connection = containers.dial(dial::address(&query)?).await?;
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

fn refused(refusal: Refusal) -> Response<Full<Bytes>> {
    response(refusal.code, Full::new(Bytes::from(refusal.message)))
}

fn response<B>(code: StatusCode, body: B) -> Response<B> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}
