//! A webhook server on loopback with a certificate of its own, that remembers what it was asked.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls_pki_types::PrivateKeyDer;
use serde_json::{Value, json};

/// The server; it ends with the test.
pub(crate) struct Hooks {
    pub(crate) port: u16,
    /// Its certificate as a `caBundle`.
    pub(crate) bundle: String,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
    connections: Arc<AtomicUsize>,
}

/// A response that allows.
pub(crate) fn allow() -> Value {
    json!({"allowed": true})
}

/// A response that refuses with this status.
pub(crate) fn deny(status: Value) -> Value {
    json!({"allowed": false, "status": status})
}

/// A response that allows and changes the object.
pub(crate) fn patch(operations: Value) -> Value {
    json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())})
}

impl Hooks {
    /// Answers with what `answer` makes of a path and a request; a response without `uid` gets the right one.
    pub(crate) async fn start(answer: impl Fn(&str, &Value) -> Value + Send + Sync + 'static) -> Self {
        let names = vec!["localhost".to_owned(), "hook.default.svc".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(AtomicUsize::new(0));
        let (log, count, answer) = (asked.clone(), connections.clone(), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, log, count, answer) =
                    (acceptor.clone(), log.clone(), count.clone(), answer.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    count.fetch_add(1, Ordering::Relaxed);
                    let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
                        let (log, answer) = (log.clone(), answer.clone());
                        async move {
                            let path = request.uri().path().to_owned();
                            let body = request.into_body().collect().await.unwrap().to_bytes();
                            let review: Value = serde_json::from_slice(&body).unwrap();
                            let request = review["request"].clone();
                            let mut response = answer(&path, &request);
                            log.lock().unwrap().push((path, request.clone()));
                            if response["wait"] == true {
                                tokio::time::sleep(std::time::Duration::from_secs(5)).await;
                            }
                            if response.get("uid").is_none() {
                                response["uid"] = request["uid"].clone();
                            }
                            let mut review = review;
                            review["response"] = response;
                            Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from(
                                review.to_string(),
                            ))))
                        }
                    });
                    let serving = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service);
                    serving.await.ok();
                });
            }
        });
        Self { port, bundle: STANDARD.encode(made.cert.pem()), asked, connections }
    }

    /// The paths asked so far, in order.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|(path, _)| path.clone()).collect()
    }

    /// The last request.
    pub(crate) fn last(&self) -> Value {
        self.asked.lock().unwrap().last().map(|(_, request)| request.clone()).unwrap_or_default()
    }

    /// How many connections were made.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}
