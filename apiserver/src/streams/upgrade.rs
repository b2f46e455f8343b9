//! What an `Upgrade` asks for, the 101 that grants it, and two upgraded connections made one; never what is spoken.

use http::header::{CONNECTION, HeaderName, HeaderValue, UPGRADE};
use http::{HeaderMap, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use crate::response::{self, Response};

/// Whether the client asks to switch to this protocol.
pub(super) fn asks_for(headers: &HeaderMap, protocol: &str) -> bool {
    let has = |name: HeaderName, wanted: &str| words(headers, &name).any(|w| w.eq_ignore_ascii_case(wanted));
    has(CONNECTION, "upgrade") && has(UPGRADE, protocol)
}

/// The comma-separated words of all headers of this name.
pub(super) fn words<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|word| !word.is_empty())
}

/// The answer after which the connection is no longer HTTP.
pub(super) fn switching(protocol: &'static str) -> Response {
    let mut response = http::Response::new(response::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    response.headers_mut().insert(UPGRADE, HeaderValue::from_static(protocol));
    response
}

/// Passes bytes both ways until one side ends.
pub(crate) async fn splice(ours: OnUpgrade, theirs: OnUpgrade) -> std::io::Result<()> {
    let (ours, theirs) = tokio::try_join!(ours, theirs).map_err(std::io::Error::other)?;
    tokio::io::copy_bidirectional(&mut TokioIo::new(ours), &mut TokioIo::new(theirs)).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upgrade_is_named_in_both_headers() {
        let headers = |connection: &'static str, upgrade: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONNECTION, HeaderValue::from_static(connection));
            headers.append(UPGRADE, HeaderValue::from_static(upgrade));
            headers
        };
        assert!(asks_for(&headers("keep-alive, Upgrade", "WebSocket"), "websocket"));
        assert!(asks_for(&headers("upgrade", "h2c, SPDY/3.1"), "SPDY/3.1"));
        assert!(!asks_for(&headers("keep-alive", "websocket"), "websocket"));
        assert!(!asks_for(&headers("upgrade", "SPDY/3.1"), "websocket"));
    }
}
