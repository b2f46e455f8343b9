//! audit.k8s.io/v1 Event: the part that all stages of a request share.

use http::Request;
use http::header::USER_AGENT;
use serde_json::{Map, Value, json};

use super::Source;
use crate::request::{RequestInfo, UserInfo};

/// Microseconds, as metav1.MicroTime.
pub(super) fn time(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// What is known before anybody asked who it is.
pub(super) fn begin<B>(
    info: &RequestInfo,
    request: &Request<B>,
    audit_id: &str,
    now: jiff::Timestamp,
) -> Map<String, Value> {
    let mut event = Map::new();
    let mut put = |field: &str, value: Value| event.insert(field.to_owned(), value);
    put("kind", json!("Event"));
    put("apiVersion", json!("audit.k8s.io/v1"));
    put("auditID", json!(audit_id));
    let uri = request.uri().path_and_query().map_or(request.uri().path(), |uri| uri.as_str());
    put("requestURI", json!(uri));
    put("verb", json!(info.verb));
    put("user", json!({}));
    if let Some(Source(from)) = request.extensions().get::<Source>() {
        put("sourceIPs", json!([from.ip().to_canonical().to_string()]));
    }
    if let Some(agent) = request.headers().get(USER_AGENT).and_then(|v| v.to_str().ok()) {
        put("userAgent", json!(agent));
    }
    if info.is_resource_request {
        put("objectRef", reference(info));
    }
    put("requestReceivedTimestamp", json!(time(now)));
    event
}

fn reference(info: &RequestInfo) -> Value {
    let fields = [
        ("resource", &info.resource),
        ("namespace", &info.namespace),
        ("name", &info.name),
        ("apiGroup", &info.api_group),
        ("apiVersion", &info.api_version),
        ("subresource", &info.subresource),
    ];
    let said = fields.into_iter().filter(|(_, value)| !value.is_empty());
    Value::Object(said.map(|(field, value)| (field.to_owned(), json!(value))).collect())
}

/// authentication.k8s.io/v1 UserInfo.
pub(super) fn user(user: &UserInfo) -> Value {
    let mut shown = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        shown["uid"] = json!(user.uid);
    }
    if !user.extra.is_empty() {
        shown["extra"] = json!(user.extra);
    }
    shown
}
