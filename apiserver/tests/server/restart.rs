//! A server that is replaced by the next one on the same socket while clients work: none of them sees an error.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use litek8s_daemon::pki::{Identity, der_of_pem};
use rustls_pki_types::pem::PemObject;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::client::{Running, json_of};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Clients of each protocol.
const CLIENTS: usize = 4;
/// Rounds that every client makes before the stop, and again after the restart.
const ROUNDS: usize = 40;
/// How often a request is sent before it was overtaken by a GOAWAY each time.
const ATTEMPTS: usize = 3;

/// A client as kube-rs has one: connections in a pool, made anew when they end.
#[derive(Clone)]
struct Pooled {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    url: String,
}

impl Pooled {
    fn new(url: String, ca: &str, identity: &Identity, http2: bool) -> Self {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(der_of_pem(ca).unwrap().into()).unwrap();
        let key = rustls_pki_types::PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![der_of_pem(&identity.certificate).unwrap().into()], key)
            .unwrap();
        let builder =
            HttpsConnectorBuilder::new().with_tls_config(tls).https_only().with_server_name_resolver(
                FixedServerNameResolver::new("kubernetes.default.svc".try_into().unwrap()),
            );
        let connector = if http2 { builder.enable_http2().build() } else { builder.enable_http1().build() };
        Self { client: Client::builder(TokioExecutor::new()).build(connector), url }
    }

    /// A request that the connection's GOAWAY overtook was not sent (RFC 9113 §6.8): it goes out again on a new
    /// connection, as Go's client sees to by itself. Had the server acted on it, creating again would be a conflict.
    async fn request(&self, request: impl Fn() -> Request<Full<Bytes>>) -> Response<Incoming> {
        for _ in 0..ATTEMPTS {
            match self.client.request(request()).await {
                Ok(answer) => return answer,
                Err(error) => {
                    let text = format!("{error:?}");
                    assert!(text.contains("GoAway(") && text.contains("NO_ERROR, Remote"), "{text}");
                }
            }
        }
        panic!("{ATTEMPTS} new connections said GOAWAY");
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> (StatusCode, Value) {
        let request = || {
            Request::builder()
                .method(method.clone())
                .uri(format!("{}{path}", self.url))
                .header("content-type", "application/json")
                .body(Full::new(Bytes::from(body.to_string())))
                .unwrap()
        };
        let answer = self.request(request).await;
        let code = answer.status();
        let body = answer.into_body().collect().await.unwrap_or_else(|error| panic!("{path}: {error:?}"));
        (code, json_of(&body.to_bytes()))
    }
}

/// Writes and reads until told to stop; every answer must be a good one.
async fn work(
    client: Pooled,
    name: String,
    rounds: Arc<AtomicUsize>,
    stop: CancellationToken,
) -> BTreeSet<String> {
    let mut made = BTreeSet::new();
    while !stop.is_cancelled() {
        let name = format!("{name}-{}", made.len());
        let object = json!({"metadata": {"name": name}, "data": {"a": "b"}});
        let (code, answer) = client.send(Method::POST, MAPS, &object).await;
        assert_eq!(code, StatusCode::CREATED, "{answer}");
        let (code, answer) = client.send(Method::GET, &format!("{MAPS}/{name}"), &Value::Null).await;
        assert_eq!((code, &answer["data"]["a"]), (StatusCode::OK, &json!("b")), "{answer}");
        made.insert(name);
        rounds.fetch_add(1, Ordering::Relaxed);
    }
    made
}

/// Watches on and on, each time from where the last watch ended; the names that were added and how often it began.
async fn follow(client: Pooled, mut from: String, seen: Arc<std::sync::Mutex<Vec<String>>>) {
    loop {
        let path = format!("{MAPS}?watch=1&allowWatchBookmarks=true&resourceVersion={from}");
        let request = || Request::get(format!("{}{path}", client.url)).body(Full::default()).unwrap();
        let mut watch = client.request(request).await;
        assert_eq!(watch.status(), StatusCode::OK);
        let mut rest = Vec::new();
        while let Some(frame) = watch.frame().await {
            let data =
                frame.unwrap_or_else(|error| panic!("a watch broke off: {error:?}")).into_data().unwrap();
            rest.extend_from_slice(&data);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let event = json_of(&rest.drain(..=end).collect::<Vec<_>>());
                let metadata = &event["object"]["metadata"];
                from = metadata["resourceVersion"].as_str().unwrap().to_owned();
                if event["type"] == "ADDED" {
                    seen.lock().unwrap().push(metadata["name"].as_str().unwrap().to_owned());
                }
            }
        }
        assert!(rest.is_empty(), "half an event at the end of a watch");
    }
}

async fn reach(rounds: &AtomicUsize, wanted: usize) {
    let reached = async {
        while rounds.load(Ordering::Relaxed) < wanted {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(240), reached).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_fails_while_one_server_takes_over_from_another() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Running::start_on(&listener, None).await;
    let url = format!("https://{}", listener.local_addr().unwrap());
    let (ca, admin) = (server.ca(), server.admin_identity());
    let (rounds, stop) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (mut workers, mut watchers) = (Vec::new(), Vec::new());
    for http2 in [false, true] {
        let client = Pooled::new(url.clone(), &ca, &admin, http2);
        let (_, list) = client.send(Method::GET, MAPS, &Value::Null).await;
        let from = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        if !http2 {
            watchers.push(tokio::spawn(follow(client.clone(), from, seen.clone())));
        } else {
            watchers.push(tokio::spawn(follow(client.clone(), from, Arc::default())));
        }
        for number in 0..CLIENTS {
            let name = format!("h{}-{number}", if http2 { 2 } else { 1 });
            workers.push(tokio::spawn(work(client.clone(), name, rounds.clone(), stop.clone())));
        }
    }
    reach(&rounds, 2 * CLIENTS * ROUNDS).await;
    let directory = server.directory();
    server.stop().await;
    let before = rounds.load(Ordering::Relaxed);
    let server = Running::start_on(&listener, Some(directory)).await;
    reach(&rounds, before + 2 * CLIENTS * ROUNDS).await;
    stop.cancel();
    let mut made = BTreeSet::new();
    for worker in workers {
        made.append(&mut worker.await.unwrap());
    }
    let all = async {
        while seen.lock().unwrap().len() < made.len() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), all).await.unwrap();
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen.len(), made.len(), "every event once");
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), made);
    for watcher in watchers {
        assert!(!watcher.is_finished(), "a watch failed");
        watcher.abort();
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_server_says_so_before_it_closes() {
    let server = Running::start_with_flags(&["--shutdown-delay", "3"]).await;
    let (one, two) = (server.admin(false).await, server.admin(true).await);
    server.begin_stop();
    let report =
        one.until_text("/readyz", |text| text.contains("[-]shutdown failed: reason withheld\n")).await;
    assert!(report.ends_with("readyz check failed\n"), "{report}");
    let reason = one.get("/readyz/shutdown").await;
    assert_eq!(reason.text(), "internal server error: process is shutting down\n");
    assert_eq!(reason.code, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(one.get("/livez").await.text(), "ok", "it lives, and still serves");
    assert_eq!(server.anonymous().await.get("/livez").await.text(), "ok", "new connections too");
    assert_eq!(two.get("/api/v1/namespaces").await.code, StatusCode::OK);
    let closing = async {
        loop {
            let answer = one.get("/livez").await;
            if answer.headers.get("connection").is_some_and(|value| value == "close") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), closing).await.unwrap();
    server.stop().await;
}
