//! An API server of a few lines: objects in a map, lists, watches from a log, merge patches. No checks of any kind.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub(crate) type Body = BoxBody<Bytes, Infallible>;

/// Objects by collection and `namespace/name`, and everything that happened to them.
#[derive(Default)]
struct Store {
    objects: BTreeMap<(String, String), Value>,
    log: Vec<(String, Value)>,
}

/// The server and its objects.
#[derive(Clone)]
pub(crate) struct Api {
    store: Arc<Mutex<Store>>,
    revision: Arc<watch::Sender<usize>>,
}

impl Api {
    pub(crate) fn new() -> Self {
        Self { store: Arc::default(), revision: Arc::new(watch::channel(0).0) }
    }

    /// Serves until `until`; connections end with it. Returns where.
    pub(crate) async fn serve(&self, until: CancellationToken) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let api = self.clone();
        tokio::spawn(async move {
            loop {
                let stream = tokio::select! {
                    accepted = listener.accept() => accepted.unwrap().0,
                    () = until.cancelled() => return,
                };
                let (api, until) = (api.clone(), until.clone());
                tokio::spawn(async move {
                    let service = service_fn(move |request| {
                        let api = api.clone();
                        async move { Ok::<_, Infallible>(api.answer(request).await) }
                    });
                    let connection = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service);
                    tokio::select! { _ = connection => {}, () = until.cancelled() => {} }
                });
            }
        });
        address
    }

    /// Writes an object; its status is kept unless it brings one.
    pub(crate) fn put(&self, collection: &str, mut object: Value) {
        let key = key_of(&object);
        let mut store = self.store.lock().unwrap();
        let revision = store.log.len() + 1;
        let old = store.objects.get(&(collection.to_owned(), key.clone())).cloned();
        object["metadata"]["resourceVersion"] = json!(revision.to_string());
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = old
                .as_ref()
                .map_or_else(|| json!(format!("uid-{revision}")), |old| old["metadata"]["uid"].clone());
        }
        let kind = if old.is_some() { "MODIFIED" } else { "ADDED" };
        store.objects.insert((collection.to_owned(), key), object.clone());
        store.log.push((collection.to_owned(), json!({"type": kind, "object": object})));
        self.revision.send_replace(revision);
    }

    pub(crate) fn delete(&self, collection: &str, key: &str) {
        let mut store = self.store.lock().unwrap();
        let mut object = store.objects.remove(&(collection.to_owned(), key.to_owned())).unwrap();
        let revision = store.log.len() + 1;
        object["metadata"]["resourceVersion"] = json!(revision.to_string());
        store.log.push((collection.to_owned(), json!({"type": "DELETED", "object": object})));
        self.revision.send_replace(revision);
    }

    pub(crate) fn get(&self, collection: &str, key: &str) -> Option<Value> {
        self.store.lock().unwrap().objects.get(&(collection.to_owned(), key.to_owned())).cloned()
    }

    pub(crate) fn all(&self, collection: &str) -> Vec<Value> {
        let store = self.store.lock().unwrap();
        let of = store.objects.iter().filter(|((found, _), _)| found == collection);
        of.map(|(_, object)| object.clone()).collect()
    }

    /// How many writes there were.
    pub(crate) fn writes(&self, collection: &str) -> usize {
        self.store.lock().unwrap().log.iter().filter(|(found, _)| found == collection).count()
    }

    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let query = parts.uri.query().unwrap_or_default().to_owned();
        let (collection, key, status) = place(parts.uri.path());
        let body = body.collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        match (parts.method, key) {
            (Method::GET, None) if query.contains("watch=") => self.watch(&collection, &query),
            (Method::GET, None) => {
                let revision = self.store.lock().unwrap().log.len().to_string();
                reply(
                    200,
                    &json!({"metadata": {"resourceVersion": revision}, "items": self.all(&collection)}),
                )
            }
            (Method::GET, Some(key)) => found(self.get(&collection, &key)),
            (Method::POST, _) => {
                let mut object = body;
                if object["metadata"]["name"].is_null() {
                    let number = self.store.lock().unwrap().log.len();
                    object["metadata"]["name"] = json!(format!("generated-{number}"));
                }
                self.put(&collection, object.clone());
                found(self.get(&collection, &key_of(&object)))
            }
            (Method::PATCH, Some(key)) => match self.get(&collection, &key) {
                Some(mut object) => {
                    assert!(status || collection == "leases", "only a status is patched: {collection}");
                    merge(&mut object, &body);
                    self.put(&collection, object);
                    found(self.get(&collection, &key))
                }
                None => found(None),
            },
            (method, _) => panic!("{method} {}", parts.uri),
        }
    }

    /// Everything after the revision, for ever.
    fn watch(&self, collection: &str, query: &str) -> Response<Body> {
        let from = query.split('&').find_map(|pair| pair.strip_prefix("resourceVersion=")).unwrap_or("0");
        let state =
            (self.clone(), self.revision.subscribe(), from.parse::<usize>().unwrap(), collection.to_owned());
        let stream = futures::stream::unfold(state, |(api, mut changed, from, collection)| async move {
            loop {
                let lines: String = {
                    let store = api.store.lock().unwrap();
                    let new = store.log[from..].iter().filter(|(found, _)| *found == collection);
                    new.map(|(_, event)| format!("{event}\n")).collect()
                };
                let next = *changed.borrow_and_update();
                if !lines.is_empty() {
                    return Some((lines, (api, changed, next, collection)));
                }
                changed.changed().await.ok()?;
            }
        });
        let frames = stream.map(|lines| Ok::<_, Infallible>(Frame::data(Bytes::from(lines))));
        Response::new(BodyExt::boxed(StreamBody::new(SyncStream(Box::pin(frames)))))
    }
}

/// A stream that is polled by one task only, whatever its type says.
struct SyncStream(
    std::pin::Pin<Box<dyn futures::Stream<Item = Result<Frame<Bytes>, Infallible>> + Send + Sync>>,
);

impl futures::Stream for SyncStream {
    type Item = Result<Frame<Bytes>, Infallible>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(context)
    }
}

/// Collection, `namespace/name` and whether it is the status.
fn place(path: &str) -> (String, Option<String>, bool) {
    let mut parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    parts.drain(..if parts[0] == "api" { 2 } else { 3 });
    let mut namespace = String::new();
    if parts.first() == Some(&"namespaces") && parts.len() > 2 {
        namespace = format!("{}/", parts[1]);
        parts.drain(..2);
    }
    let key = parts.get(1).map(|name| format!("{namespace}{name}"));
    (parts[0].to_owned(), key, parts.get(2) == Some(&"status"))
}

fn key_of(object: &Value) -> String {
    let name = object["metadata"]["name"].as_str().unwrap();
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

fn found(object: Option<Value>) -> Response<Body> {
    match object {
        Some(object) => reply(200, &object),
        None => reply(
            404,
            &json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound", "message": "not found", "metadata": {}}),
        ),
    }
}

fn reply(status: u16, value: &Value) -> Response<Body> {
    let mut response = Response::new(BodyExt::boxed(Full::new(Bytes::from(value.to_string()))));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}

/// RFC 7396.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut target[key], value);
        }
    }
}

/// Waits for something to become true; a hang ends the test.
pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(tokio::time::Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
