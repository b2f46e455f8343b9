//! How a machine joins: it proves a token or its certificate, and gets a node certificate for its own key.

mod tokens;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http_body_util::{BodyExt, Limited};
use litek8s_daemon::join_token::JoinToken;
use litek8s_daemon::pki::{Authority, Leaf, PkiError, Usage};
use litek8s_machinery::status::Status;
use serde::Deserialize;
use serde_json::{Value, json};

pub use tokens::open as open_token;

use crate::authentication::bearer;
use crate::request::{NODE_USER_PREFIX, NODES};

/// Where the CA is, for everybody; whoever joins compares it with the hash in the token.
pub const CA_PATH: &str = "/v1-litek8s/ca";
/// Where nodes get their certificates.
pub const NODE_PATH: &str = "/v1-litek8s/node-certificate";
/// The life of a node's certificate; agents renew at two thirds of it.
const NODE_LIFE: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// The largest body of a request to join.
const MAX_BODY: usize = 64 * 1024;
/// The longest name of a node (RFC 1123 subdomain).
const MAX_NAME: usize = 253;

/// What joining needs.
#[derive(Debug, Clone)]
pub struct Join {
    /// Who signs.
    pub authority: Arc<Authority>,
    /// Tokens that buy a node certificate.
    pub tokens: Vec<JoinToken>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeRequest {
    node_name: String,
    csr: String,
}

/// Answers `POST /v1-litek8s/node-certificate`; `renewing` is the node that the connection belongs to already.
pub(crate) async fn node_certificate<B>(
    join: &Join,
    headers: &HeaderMap,
    renewing: Option<&str>,
    body: B,
    now: jiff::Timestamp,
) -> Result<Value, Status>
where
    B: hyper::body::Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let with_token = proven(join, headers);
    if !with_token && renewing.is_none() {
        return Err(Status::unauthorized("Unauthorized"));
    }
    let body = Limited::new(body, MAX_BODY).collect().await;
    let body = body.map_err(|_| Status::request_entity_too_large(format!("limit is {MAX_BODY}")))?.to_bytes();
    let request: NodeRequest =
        serde_json::from_slice(&body).map_err(|error| Status::bad_request(error.to_string()))?;
    if !with_token && renewing != Some(request.node_name.as_str()) {
        return Err(Status::unauthorized("Unauthorized"));
    }
    if !is_node_name(&request.node_name) {
        return Err(Status::bad_request(format!(
            "nodeName {:?} is not a lower-case RFC 1123 name",
            request.node_name
        )));
    }
    let leaf = Leaf {
        common_name: format!("{NODE_USER_PREFIX}{}", request.node_name),
        organizations: vec![NODES.to_owned()],
        hostnames: Vec::new(),
        addresses: Vec::new(),
        usage: Usage::Client,
        life: NODE_LIFE,
    };
    let signed = join.authority.sign_request(&request.csr, &leaf, SystemTime::from(now));
    let certificate = signed.map_err(|error| {
        if matches!(error, PkiError::Request(_)) {
            Status::bad_request(error.to_string())
        } else {
            Status::internal(error)
        }
    })?;
    tracing::info!(node = request.node_name, "signed a node certificate");
    Ok(json!({"certificate": certificate, "ca": join.authority.pem()}))
}

/// Whether the request brings one of the tokens; every token is compared, each in constant time.
fn proven(join: &Join, headers: &HeaderMap) -> bool {
    let Some(given) = bearer(headers).and_then(|text| text.parse::<JoinToken>().ok()) else { return false };
    join.tokens.iter().fold(false, |found, token| token.matches(&given) | found)
}

/// RFC 1123: lower-case labels of letters, digits and hyphens, joined by dots.
fn is_node_name(name: &str) -> bool {
    let label = |label: &str| {
        let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        edge(label.chars().next())
            && edge(label.chars().last())
            && label.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    name.len() <= MAX_NAME && name.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_names_are_dns_names() {
        for good in ["n", "node-1", "n1.example.org", "192-0-2-1"] {
            assert!(is_node_name(good), "{good}");
        }
        for bad in ["", ".", "N1", "-n", "n-", "a..b", "a b", "a/b", "ä", &"a".repeat(254)] {
            assert!(!is_node_name(bad), "{bad}");
        }
    }
}
