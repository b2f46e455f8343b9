//! An aggregated API server on loopback: it takes the front proxy's certificate only, and tells what it was asked.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::StreamExt;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use litek8s_daemon::pki::der_of_pem;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::client::{Client, json_of};

/// The group that backends serve, in version `v1`.
pub(crate) const GROUP: &str = "things.example.com";
pub(crate) const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
pub(crate) const NAME: &str = "v1.things.example.com";

type Body = BoxBody<Bytes, Infallible>;

/// The server; it ends with its connections when told to.
pub(crate) struct Backend {
    address: SocketAddr,
    /// Its certificate as a `caBundle`.
    bundle: String,
    asked: Arc<Mutex<Vec<String>>>,
    end: CancellationToken,
}

impl Backend {
    /// Starts one that trusts whom the cluster of `admin` says is to be trusted.
    pub(crate) async fn start(admin: &Client) -> Self {
        let map =
            admin.get("/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication").await;
        let data = map.json()["data"].clone();
        assert_eq!(data["requestheader-allowed-names"], r#"["front-proxy-client"]"#);
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        let ca = data["requestheader-client-ca-file"].as_str().unwrap();
        roots.add(der_of_pem(ca).unwrap().into()).unwrap();
        let clients =
            WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone()).build().unwrap();
        let made = rcgen::generate_simple_self_signed(vec!["things.default.svc".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(clients)
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let backend = Self {
            address: listener.local_addr().unwrap(),
            bundle: STANDARD.encode(made.cert.pem()),
            asked: Arc::default(),
            end: CancellationToken::new(),
        };
        let (log, end) = (backend.asked.clone(), backend.end.clone());
        tokio::spawn(end.clone().run_until_cancelled_owned(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, log) = (acceptor.clone(), log.clone());
                tokio::spawn(end.clone().run_until_cancelled_owned(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(move |request| {
                        let log = log.clone();
                        async move { Ok::<_, Infallible>(answer(request, &log).await) }
                    });
                    let serving = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service);
                    let _ = serving.with_upgrades().await;
                }));
            }
        }));
        backend
    }

    /// Makes its Service, EndpointSlice and APIService.
    pub(crate) async fn register(&self, admin: &Client) {
        let service =
            json!({"metadata": {"name": "things"}, "spec": {"ports": [{"name": "https", "port": 443}]}});
        let slice = json!({
            "metadata": {"name": "things", "labels": {"kubernetes.io/service-name": "things"}},
            "addressType": "IPv4", "endpoints": [{"addresses": ["127.0.0.1"]}],
            "ports": [{"name": "https", "port": self.address.port()}],
        });
        let api_service = json!({
            "metadata": {"name": NAME},
            "spec": {"group": GROUP, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
                "service": {"namespace": "default", "name": "things"}, "caBundle": self.bundle},
        });
        for (path, object) in [
            ("/api/v1/namespaces/default/services", service),
            ("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice),
            (API_SERVICES, api_service),
        ] {
            let made = admin.post(path, &object).await;
            assert_eq!(made.code, StatusCode::CREATED, "{}", made.text());
        }
    }

    /// What it was asked, as `METHOD PATH` (with the query).
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// Waits until it was asked this.
    pub(crate) async fn until_asked(&self, wanted: &str) {
        for _ in 0..600 {
            if self.asked().iter().any(|asked| asked == wanted) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("never asked {wanted}: {:?}", self.asked());
    }

    /// Ends it with its connections; its port refuses from now on.
    pub(crate) fn kill(&self) {
        self.end.cancel();
    }
}

/// Waits until the APIService's condition has this reason; its message.
pub(crate) async fn available(admin: &Client, reason: &str) -> String {
    let found = admin
        .until(&format!("{API_SERVICES}/{NAME}"), |object| {
            object["status"]["conditions"][0]["reason"] == reason
        })
        .await;
    found["status"]["conditions"][0]["message"].as_str().unwrap().to_owned()
}

fn reply(code: StatusCode, value: &Value) -> Response<Body> {
    let body = Full::new(Bytes::from(value.to_string())).boxed();
    Response::builder().status(code).header("content-type", "application/json").body(body).unwrap()
}

async fn answer(mut request: Request<Incoming>, log: &Mutex<Vec<String>>) -> Response<Body> {
    let uri = request.uri().to_string();
    log.lock().unwrap().push(format!("{} {uri}", request.method()));
    let path = request.uri().path().to_owned();
    let verbs = ["create", "delete", "deletecollection", "get", "list", "watch"];
    let things = json!({"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing",
        "verbs": verbs, "shortNames": ["tg"]});
    let echo = json!({"name": "things/echo", "singularName": "", "namespaced": true, "kind": "Thing", "verbs": ["get"]});
    let schema = json!({"type": "object", "x-kubernetes-group-version-kind":
        [{"group": GROUP, "version": "v1", "kind": "Thing"}]});
    if request.headers().get("upgrade").is_some_and(|protocol| protocol == "echo") {
        let upgraded = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let (mut from, mut to) = tokio::io::split(TokioIo::new(upgraded.await.unwrap()));
            let _ = tokio::io::copy(&mut from, &mut to).await;
        });
        let switched =
            Response::builder().status(101).header("connection", "Upgrade").header("upgrade", "echo");
        return switched.body(Full::default().boxed()).unwrap();
    }
    match path.as_str() {
        "/apis/things.example.com/v1" => reply(
            StatusCode::OK,
            &json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "things.example.com/v1",
                "resources": [things, echo]}),
        ),
        "/openapi/v3" => reply(
            StatusCode::OK,
            &json!({"paths": {"apis/things.example.com/v1":
                {"serverRelativeURL": "/openapi/v3/apis/things.example.com/v1?hash=AB"}}}),
        ),
        "/openapi/v3/apis/things.example.com/v1" => reply(
            StatusCode::OK,
            &json!({"openapi": "3.0.0", "components": {"schemas": {"com.example.Thing": schema}}}),
        ),
        "/openapi/v2" => reply(
            StatusCode::OK,
            &json!({"swagger": "2.0", "definitions": {"com.example.Thing": schema, "com.example.Unused": {}},
                "paths": {"/apis/things.example.com/v1/things": {"get": {"responses": {"200":
                    {"schema": {"$ref": "#/definitions/com.example.Thing"}}}}}, "/elsewhere": {}}}),
        ),
        _ if path.contains("/namespaces/hanging/") => std::future::pending().await,
        _ if uri.contains("watch=1") => watched(),
        _ if uri.contains("redirect") => {
            let moved = Response::builder().status(302).header("location", "https://elsewhere.example.com/");
            moved.body(Full::default().boxed()).unwrap()
        }
        _ if *request.method() == Method::POST => {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            reply(StatusCode::CREATED, &json_of(&body))
        }
        _ if *request.method() == Method::DELETE => {
            reply(StatusCode::OK, &json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}))
        }
        _ if path.ends_with("/things") => reply(
            StatusCode::OK,
            &json!({"kind": "ThingList", "apiVersion": "things.example.com/v1", "metadata": {}, "items": []}),
        ),
        _ => {
            let shown = |name: &str| -> Vec<&str> {
                request.headers().get_all(name).iter().map(|value| value.to_str().unwrap()).collect()
            };
            reply(
                StatusCode::OK,
                &json!({"user": shown("x-remote-user"), "groups": shown("x-remote-group"),
                    "extra": shown("x-remote-extra-scopes"), "authorization": shown("authorization"),
                    "host": shown("host"), "forwarded": shown("x-forwarded-for"),
                    "impersonate": shown("impersonate-user")}),
            )
        }
    }
}

/// An event at once, and another one a moment later.
fn watched() -> Response<Body> {
    let event =
        |name: &str| json!({"type": "ADDED", "object": {"metadata": {"name": name}}}).to_string() + "\n";
    let events = futures::stream::iter([("a", 0), ("b", 50)]).then(move |(name, wait)| async move {
        tokio::time::sleep(Duration::from_millis(wait)).await;
        Ok(Frame::data(Bytes::from(event(name))))
    });
    Response::new(BodyExt::boxed(StreamBody::new(events)))
}
