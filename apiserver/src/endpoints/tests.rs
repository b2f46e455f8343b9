//! The verbs over a real store in a temporary directory, driven as a client would drive them.

mod apply;
mod custom;
mod deletes;
mod documents;
mod every_kind;
mod limits;
mod lists;
mod watches;
mod writes;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use litek8s_raft::{Config, Replica};
use litek8s_store::Limits;
use serde_json::{Value, json};

use crate::api::{Api, SystemClock};
use crate::authorization::Authorizer;
use crate::metrics::ApiMetrics;
use crate::registry::Registry;
use crate::request::{Annotations, RequestContext, RequestInfo, UserInfo, Warnings};
use crate::response::Response;
use crate::service_account::open_issuer;

/// A server of one, gone with its directory.
pub(crate) struct Server {
    pub(crate) api: Arc<Api>,
    user: UserInfo,
    _dir: Arc<tempfile::TempDir>,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
    pub(crate) text: String,
    pub(crate) warnings: Vec<String>,
}

impl Server {
    /// A server with the namespaces `default` and `kube-system`.
    pub(crate) async fn start() -> Self {
        Self::remembering(Limits::default()).await
    }

    /// The same with this much history.
    async fn remembering(history: Limits) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = Config { history, ..Config::new(dir.path().join("data"), "test") };
        let replica = Replica::open(config).await.unwrap();
        let api = Arc::new(Api {
            replica,
            registry: Registry::new(),
            authorizer: Authorizer::default(),
            clock: Arc::new(SystemClock),
            issuer: open_issuer(&dir.path().join("issuer.key")).unwrap(),
            ca: Arc::from(""),
            service_cidrs: vec!["10.43.0.0/16".parse().unwrap()],
            cluster_cidrs: vec!["10.42.0.0/16".parse().unwrap()],
            max_object: 1_572_864,
            admission: crate::admission::Admission::default(),
            aggregation: crate::aggregation::Aggregation::open(dir.path(), std::time::SystemTime::now())
                .unwrap(),
            metrics: ApiMetrics::default(),
            streams: crate::streams::Streams::default(),
            shutdown: tokio_util::sync::CancellationToken::new(),
        });
        let user = UserInfo::new("admin", ["system:masters"]);
        let server = Self { api, user, _dir: Arc::new(dir) };
        for name in ["default", "kube-system"] {
            let answer = server.post("/api/v1/namespaces", json!({"metadata": {"name": name}})).await;
            assert_eq!(answer.code, 201, "{answer:?}");
        }
        server
    }

    async fn open(&self, request: Request<Full<Bytes>>) -> (Response, Warnings) {
        let info = RequestInfo::parse(request.method(), request.uri()).unwrap();
        let warnings = Warnings::default();
        let ctx = RequestContext {
            info,
            user: self.user.clone(),
            bound_term: None,
            audit_id: String::new(),
            warnings: warnings.clone(),
            annotations: Annotations::default(),
            deadline: None,
        };
        let response = if crate::reviews::handles(&ctx.info) {
            crate::reviews::serve(&self.api, &ctx, request).await
        } else {
            super::serve(self.api.clone(), ctx, request).await
        };
        (response, warnings)
    }

    /// The same server, asked by somebody else. Whether he may ask is what the filters look at, which are not here.
    pub(crate) fn asked_by(&self, user: UserInfo) -> Self {
        Self { api: self.api.clone(), user, _dir: self._dir.clone() }
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Answer {
        let (response, warnings) = self.open(request).await;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Answer {
            code: parts.status.as_u16(),
            headers: parts.headers,
            body: serde_json::from_slice(&bytes).unwrap_or_default(),
            text: String::from_utf8_lossy(&bytes).into_owned(),
            warnings: warnings.take(),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(request(Method::GET, path, "", Bytes::new())).await
    }

    async fn get_as(&self, path: &str, accept: &str) -> Answer {
        let mut request = request(Method::GET, path, "", Bytes::new());
        request.headers_mut().insert(http::header::ACCEPT, accept.parse().unwrap());
        self.send(request).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(request(Method::POST, path, "application/json", body.to_string().into())).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        self.send(request(Method::PUT, path, "application/json", body.to_string().into())).await
    }

    pub(crate) async fn patch(&self, path: &str, media: &str, body: impl ToString) -> Answer {
        self.send(request(Method::PATCH, path, media, body.to_string().into())).await
    }

    pub(crate) async fn delete(&self, path: &str, options: Value) -> Answer {
        let body = if options.is_null() { Bytes::new() } else { options.to_string().into() };
        self.send(request(Method::DELETE, path, "application/json", body)).await
    }

    /// A ConfigMap in `default`.
    async fn config_map(&self, name: &str, labels: Value) -> Answer {
        let body = json!({"metadata": {"name": name, "labels": labels}, "data": {"a": "b"}});
        let answer = self.post("/api/v1/namespaces/default/configmaps", body).await;
        assert_eq!(answer.code, 201, "{answer:?}");
        answer
    }
}

fn request(method: Method, path: &str, media: &str, body: Bytes) -> Request<Full<Bytes>> {
    let mut builder = Request::builder().method(method).uri(path).header("user-agent", "tester/1.0");
    if !media.is_empty() {
        builder = builder.header("content-type", media);
    }
    builder.body(Full::new(body)).unwrap()
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|i| i["metadata"]["name"].as_str().unwrap()).collect()
}

pub(crate) const MAPS: &str = "/api/v1/namespaces/default/configmaps";
