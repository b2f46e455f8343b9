//! Which handler answers: public paths, the server's own documents, reviews, and the API itself.

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, StatusCode};
use litek8s_machinery::status::{Reason, Status};
use serde_json::{Value, json};

use super::{RequestBody, Stack, failure};
use crate::request::{RequestContext, RequestInfo};
use crate::response::{self, Response};
use crate::{endpoints, join, reviews, streams, version};

/// Whether everybody may ask: health, version, the CA, and joining, which brings its own proof.
pub(super) fn is_public(info: &RequestInfo) -> bool {
    let health = ["/healthz", "/livez", "/readyz"].iter().any(|path| {
        info.path.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    health || matches!(info.path.as_str(), "/version" | "/version/" | join::CA_PATH | join::NODE_PATH)
}

impl Stack {
    /// Answers a public path.
    ///
    /// `node` is the node whose certificate the connection has.
    pub(super) async fn public(
        &self,
        info: &RequestInfo,
        node: Option<String>,
        request: http::Request<RequestBody>,
    ) -> Response {
        let method = request.method().clone();
        let get = method == Method::GET || method == Method::HEAD;
        match info.path.as_str() {
            join::CA_PATH if get => {
                text(StatusCode::OK, "application/x-pem-file", self.api.ca.as_bytes().to_vec())
            }
            join::NODE_PATH if method == Method::POST => {
                let (parts, body) = request.into_parts();
                let now = self.api.clock.now();
                join::node_certificate(&self.join, &parts.headers, node.as_deref(), body, now)
                    .await
                    .map_or_else(|status| failure(&status), |answer| json_answer(StatusCode::OK, &answer))
            }
            "/version" | "/version/" if get => json_answer(StatusCode::OK, &version::document()),
            path if get => self.health.answer(path, &info.query, &self.api),
            _ => failure(&Status::new(
                405,
                Reason::MethodNotAllowed,
                "the server does not allow this method on the requested resource",
            )),
        }
    }

    /// Answers an authorized request.
    pub(super) async fn route(&self, ctx: RequestContext, request: http::Request<RequestBody>) -> Response {
        if reviews::handles(&ctx.info) {
            return reviews::serve(&self.api, &ctx, request).await;
        }
        if let Some(backend) = self.api.aggregation.backend_of(&self.api.replica, &ctx.info) {
            return backend.proxy(&self.api, &ctx, request).await.unwrap_or_else(|status| failure(&status));
        }
        if streams::handles(&ctx.info) {
            return streams::serve(&self.api, ctx, request).await;
        }
        let path = ctx.info.path.as_str();
        let api = ctx.info.is_resource_request
            || ["/api", "/apis", "/openapi/v2", "/openapi/v3"].iter().any(|prefix| {
                path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            });
        if api {
            return endpoints::serve(self.api.clone(), ctx, request).await;
        }
        if !matches!(ctx.info.verb.as_str(), "get" | "head") {
            return failure(&Status::unknown_resource());
        }
        match path {
            "/" => json_answer(StatusCode::OK, &paths()),
            "/.well-known/openid-configuration" => json_answer(StatusCode::OK, &self.api.issuer.discovery()),
            "/openid/v1/jwks" => typed(StatusCode::OK, "application/jwk-set+json", self.api.issuer.jwks()),
            "/metrics" => match self.api.metrics.registry.encode() {
                Ok(body) => text(StatusCode::OK, litek8s_daemon::metrics::CONTENT_TYPE, body.into_bytes()),
                Err(error) => failure(&Status::internal(error)),
            },
            _ => failure(&Status::unknown_resource()),
        }
    }
}

/// The document at `/`.
fn paths() -> Value {
    json!({"paths": [
        "/.well-known/openid-configuration", "/api", "/api/v1", "/apis", "/healthz", "/livez", "/metrics",
        "/openapi/v2", "/openapi/v3", "/openid/v1/jwks", "/readyz", "/version",
    ]})
}

pub(crate) fn json_answer(code: StatusCode, value: &Value) -> Response {
    typed(code, "application/json", value)
}

fn typed(code: StatusCode, content_type: &'static str, value: &Value) -> Response {
    text(code, content_type, value.to_string().into_bytes())
}

/// An answer with a body of a type.
pub(crate) fn text(code: StatusCode, content_type: &'static str, body: Vec<u8>) -> Response {
    let mut response = http::Response::new(response::full(body));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
