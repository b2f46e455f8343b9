//! What this server asks its backends for itself: as the aggregator, briefly, and never more than it can hold.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::header::{ACCEPT, HOST};
use http::uri::PathAndQuery;
use http::{Method, Request};

use super::AGGREGATOR;
use super::backend::Backend;
use super::client::read;
use super::headers::set_user;
use super::proxy::location;
use crate::request::{MASTERS, UserInfo};
use crate::response::empty;

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How many endpoints are asked at once.
const ASKED: usize = 5;
/// The largest answer that is read, in bytes.
const MOST: usize = 16 << 20;

impl Backend {
    /// The body of a document, as `accept` wants it.
    pub(super) async fn fetch(&self, endpoint: &str, path: &str, accept: &str) -> Result<Bytes, String> {
        self.ask(endpoint, Method::GET, path, accept).await
    }

    /// Sends a request without a body; the body of a good answer.
    pub(super) async fn ask(
        &self,
        endpoint: &str,
        method: Method,
        path: &str,
        accept: &str,
    ) -> Result<Bytes, String> {
        let url = format!("https://{endpoint}{path}");
        let failed = |why: &str| format!("failing or missing response from {url}: {why}");
        let path = PathAndQuery::try_from(path).map_err(|error| failed(&error.to_string()))?;
        let uri = location(endpoint, Some(path)).map_err(|error| failed(&error.to_string()))?;
        let host = format!("{}:{}", self.service.host(), self.service.port);
        let request = Request::builder().method(method).uri(uri).header(HOST, host).header(ACCEPT, accept);
        let mut request = request.body(empty()).map_err(|error| failed(&error.to_string()))?;
        // With every right: whether a backend is there must not depend on its roles.
        let user = UserInfo::new(AGGREGATOR, [MASTERS]);
        set_user(request.headers_mut(), &user).map_err(|error| failed(&error.to_string()))?;
        let asking = async {
            let answer = self.client()?.send(request).await.map_err(|why| failed(&why))?;
            if !answer.status().is_success() {
                return Err(failed(&format!("bad status from {url}: {}", answer.status().as_u16())));
            }
            read(answer.into_body(), MOST).await.map_err(|error| failed(&error.to_string()))
        };
        match tokio::time::timeout(TIMEOUT, asking).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("timed out waiting for {url}")),
        }
    }
}

/// Whether one of the endpoints lists the version's resources; the last failure when none does.
pub(super) async fn check(backend: Arc<Backend>, endpoints: Vec<String>) -> Result<(), String> {
    let path = backend.discovery_path();
    let mut asked: FuturesUnordered<_> = endpoints
        .iter()
        .take(ASKED)
        .map(|endpoint| backend.fetch(endpoint, &path, "application/json"))
        .collect();
    let mut last = Err("no endpoint is ready".to_owned());
    while let Some(answer) = asked.next().await {
        last = answer.map(drop);
        if last.is_ok() {
            break;
        }
    }
    last
}
