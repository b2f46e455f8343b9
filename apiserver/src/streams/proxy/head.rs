//! The heads of a proxied request and its answer: what the next one may know goes on, what is ours stays here.

use http::header::{self, HeaderName};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Request, Uri, Version};
use http_body_util::BodyExt;
use hyper::upgrade::OnUpgrade;

use super::path;
use crate::aggregation::{forwarded_for, strip_hop_by_hop, strip_private, upgrade};
use crate::audit::Source;
use crate::filters::RequestBody;
use crate::response::Body;

/// Where the client asked.
const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
/// What a pod may not grant in the name of this server.
const CORS: [HeaderName; 4] = [
    header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
    header::ACCESS_CONTROL_ALLOW_HEADERS,
    header::ACCESS_CONTROL_ALLOW_METHODS,
    header::ACCESS_CONTROL_ALLOW_ORIGIN,
];

/// A request on its way out.
pub(super) struct Outgoing {
    pub(super) request: Request<Body>,
    /// The client's end, when it asks for an upgrade.
    pub(super) ours: Option<OnUpgrade>,
    /// The host that the client asked.
    pub(super) host: String,
    /// The headers as the client sent them.
    pub(super) headers: HeaderMap,
}

/// The request for `path` (decoded), without what is meant for this server.
pub(super) fn outgoing(mut request: Request<RequestBody>, path: &str) -> Result<Outgoing, http::Error> {
    let ours = upgrade(request.headers()).is_some().then(|| hyper::upgrade::on(&mut request));
    let (mut parts, body) = request.into_parts();
    let headers = parts.headers.clone();
    let source = parts.extensions.get::<Source>().copied();
    parts.extensions.clear();
    let asked = parts.uri.path().to_owned();
    let authority = parts.uri.authority().map(|authority| authority.as_str().to_owned());
    let host = authority.or_else(|| Some(headers.get(header::HOST)?.to_str().ok()?.to_owned()));
    let host = host.unwrap_or_default();
    parts.uri = location(path, parts.uri.query())?;
    parts.version = Version::HTTP_11;
    if parts.headers.contains_key(header::TRANSFER_ENCODING) {
        // RFC 9112 §6.3: the length says nothing then, and must not go on.
        parts.headers.remove(header::CONTENT_LENGTH);
    }
    strip_hop_by_hop(&mut parts.headers, true);
    strip_private(&mut parts.headers);
    parts.headers.insert(header::HOST, HeaderValue::try_from(host.as_str())?);
    parts.headers.insert(FORWARDED_URI, HeaderValue::try_from(asked)?);
    forwarded_for(&mut parts.headers, source);
    let request = Request::from_parts(parts, body.map_err(Into::into).boxed_unsync());
    Ok(Outgoing { request, ours, host, headers })
}

fn location(path: &str, query: Option<&str>) -> Result<Uri, http::Error> {
    let mut text = path::encoded(if path.is_empty() { "/" } else { path });
    if let Some(query) = query {
        text.push('?');
        text.push_str(query);
    }
    Uri::builder().path_and_query(PathAndQuery::try_from(text)?).build()
}

/// Turns the head of an answer into ours: redirects within what was asked lead back through the proxy.
pub(super) fn incoming(headers: &mut HeaderMap, before: &str, own: [&str; 2]) {
    for name in &CORS {
        headers.remove(name);
    }
    let there = headers.get(header::LOCATION).and_then(|there| there.to_str().ok());
    if let Some(there) = there.and_then(|there| rewritten(there, before, own))
        && let Ok(there) = HeaderValue::try_from(there)
    {
        headers.insert(header::LOCATION, there);
    }
}

/// Where a redirect leads for the client; `None` when it stays as it is.
fn rewritten(there: &str, before: &str, own: [&str; 2]) -> Option<String> {
    let path = if there.starts_with('/') && !there.starts_with("//") {
        there
    } else {
        let rest = there.strip_prefix("http://").or_else(|| there.strip_prefix("https://"))?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (host, path) = rest.split_at(end);
        if !own.contains(&host) {
            return None;
        }
        path
    };
    if path.starts_with(before) {
        return Some(path.to_owned());
    }
    let slash = if path.starts_with('/') { "" } else { "/" };
    Some(format!("{before}{slash}{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_lead_back_through_the_proxy() {
        let before = "/api/v1/namespaces/a/pods/b/proxy";
        let own = ["10.0.0.1:80", "api.example.org:6443"];
        let through = |there: &str| rewritten(there, before, own);
        let leads = |rest: &str| Some(format!("{before}{rest}"));
        assert_eq!(through("/login?x=1"), leads("/login?x=1"));
        assert_eq!(through("http://10.0.0.1:80/login"), leads("/login"));
        assert_eq!(through("https://api.example.org:6443"), leads("/"));
        assert_eq!(through(&format!("{before}/x")), leads("/x"));
        for elsewhere in ["http://example.org/", "//example.org/x", "next", "../up"] {
            assert_eq!(through(elsewhere), None, "{elsewhere}");
        }
    }

    #[test]
    fn a_location_has_no_more_than_a_path_and_a_query() {
        let uri = location("/a b//c", Some("q=%20")).unwrap();
        assert_eq!(uri.to_string(), "/a%20b//c?q=%20");
        assert_eq!(location("", None).unwrap().to_string(), "/");
    }
}
