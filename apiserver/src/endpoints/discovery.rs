//! `/api`, `/apis` and `/openapi`: which resources there are and what they look like; never an object.

use std::sync::Arc;

use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HOST, HeaderValue, IF_NONE_MATCH, VARY};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};
use litek8s_machinery::discovery;
use litek8s_machinery::status::{Reason, Status};

use crate::api::Api;
use crate::registry::{Document, Table};
use crate::request::RequestContext;
use crate::response::{self, Accepts, Offer, Output, Response, full};

/// The aggregated form, and the parameters its answer repeats.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// `/openapi/v2` as client-go asks for it (gnostic's document), and as kube-apiserver names it in the answer.
const GNOSTIC: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
const GNOSTIC_ANSWER: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// What everything else here is.
const JSON: &str = "application/json";

/// Answers a discovery or OpenAPI document.
pub(crate) fn serve(api: &Arc<Api>, ctx: &RequestContext, parts: &Parts) -> Response {
    let output = Output::negotiate(&parts.headers, &ctx.info.query, Offer::default()).unwrap_or(Output::JSON);
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        let message = "the server does not allow this method on the requested resource";
        return response::status(&Status::new(405, Reason::MethodNotAllowed, message), output);
    }
    let gnostic = ctx.info.path == "/openapi/v2" && wants_gnostic(&parts.headers);
    if ctx.info.path.starts_with("/openapi") && !gnostic && !accepts_json(&parts.headers) {
        // Clients that want protobuf fall back to JSON, but never notice JSON in an answer to their protobuf request.
        return response::status(&Status::not_acceptable(&[JSON]), Output::JSON);
    }
    let shown = api.aggregation.documents(api);
    let table = &shown.table;
    let trimmed = ctx.info.path.trim_matches('/');
    let path: Vec<&str> = trimmed.split('/').collect();
    let found = match path.as_slice() {
        ["api"] if wants_aggregated(&parts.headers) => {
            tagged(&parts.headers, shown.aggregated(true), AGGREGATED)
        }
        ["apis"] if wants_aggregated(&parts.headers) => {
            tagged(&parts.headers, shown.aggregated(false), AGGREGATED)
        }
        ["api"] => {
            Some(response::value(StatusCode::OK, output, &discovery::core_versions(host(&parts.headers))))
        }
        ["apis"] => plain(output, Some(shown.group_list())),
        ["apis", group] => shown.group(group).map(|value| response::value(StatusCode::OK, output, &value)),
        ["api", version] => plain(output, table.resource_list("", version)),
        ["apis", group, version] => plain(output, table.resource_list(group, version)),
        ["openapi", "v2"] if gnostic => tagged(&parts.headers, shown.openapi_v2_protobuf(), GNOSTIC_ANSWER),
        ["openapi", "v2"] => tagged(&parts.headers, shown.openapi_v2(), JSON),
        ["openapi", "v3"] => tagged(&parts.headers, shown.openapi_index(), JSON),
        ["openapi", "v3", "api", version] => schema(ctx, parts, table, "", version),
        ["openapi", "v3", "apis", group, version] => schema(ctx, parts, table, group, version),
        _ => None,
    };
    found.unwrap_or_else(|| response::status(&Status::unknown_resource(), output))
}

/// Where the client found this server.
fn host(headers: &HeaderMap) -> &str {
    headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default()
}

fn plain(output: Output, document: Option<&Document>) -> Option<Response> {
    Some(response::bytes(StatusCode::OK, output, document?.bytes.clone()))
}

/// One schema document; under a URL with its hash it may be kept for ever, under another it moved.
fn schema(
    ctx: &RequestContext,
    parts: &Parts,
    table: &Table,
    group: &str,
    version: &str,
) -> Option<Response> {
    let document = table.openapi(group, version)?;
    let asked = ctx.info.query.get("hash").filter(|hash| !hash.is_empty());
    if asked.is_some_and(|hash| hash != document.hash) {
        let target = format!("{}?hash={}", parts.uri.path(), document.hash);
        let mut moved = Response::new(response::empty());
        *moved.status_mut() = StatusCode::MOVED_PERMANENTLY;
        moved.headers_mut().insert(http::header::LOCATION, HeaderValue::from_str(&target).ok()?);
        return Some(moved);
    }
    let mut response = tagged(&parts.headers, document, JSON)?;
    if asked.is_some() {
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
    }
    Some(response)
}

/// A document with its tag, or 304 when the client has it.
fn tagged(headers: &HeaderMap, document: &Document, content_type: &'static str) -> Option<Response> {
    let tag = format!("\"{}\"", document.hash);
    let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|v| v.to_str().ok());
    let has = known
        .flat_map(|v| v.split(','))
        .any(|t| matches!(t.trim().trim_start_matches("W/"), t if t == tag || t == "*"));
    let mut response = Response::new(if has { response::empty() } else { full(document.bytes.clone()) });
    *response.status_mut() = if has { StatusCode::NOT_MODIFIED } else { StatusCode::OK };
    let answer = response.headers_mut();
    answer.insert(ETAG, HeaderValue::from_str(&tag).ok()?);
    answer.insert(VARY, HeaderValue::from_static("Accept"));
    answer.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    if !has {
        answer.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    Some(response)
}

fn accepts_json(headers: &HeaderMap) -> bool {
    let accepts = Accepts::parse(headers);
    accepts.0.is_empty() || accepts.0.iter().any(|entry| entry.matches(JSON))
}

/// Whether gnostic's document comes before JSON in `Accept`.
fn wants_gnostic(headers: &HeaderMap) -> bool {
    let accepts = Accepts::parse(headers);
    let first = accepts.0.iter().find_map(|entry| {
        let gnostic = [GNOSTIC, GNOSTIC_ANSWER].iter().any(|media| entry.matches(media));
        (gnostic || entry.matches(JSON)).then_some(gnostic && !entry.matches(JSON))
    });
    first.unwrap_or(false)
}

/// Whether the best entry of `Accept` that is served here is the aggregated form.
fn wants_aggregated(headers: &HeaderMap) -> bool {
    let accepts = Accepts::parse(headers);
    let served = accepts.0.iter().find_map(|entry| {
        if !entry.matches(JSON) {
            return entry.matches("application/yaml").then_some(false);
        }
        let asked = ["g", "v", "as"].map(|name| entry.param(name));
        match asked {
            [None, None, None] => Some(false),
            [Some("apidiscovery.k8s.io"), Some("v2"), Some("APIGroupDiscoveryList")] => Some(true),
            _ => None,
        }
    });
    served.unwrap_or(false)
}
