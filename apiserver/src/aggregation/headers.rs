//! The head of a proxied request: for whom it is asked goes in, what only this server should see goes out.

use std::fmt::Write;

use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};

use crate::audit::Source;
use crate::request::UserInfo;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

pub(crate) const REMOTE_USER: &str = "X-Remote-User";
pub(crate) const REMOTE_UID: &str = "X-Remote-Uid";
pub(crate) const REMOTE_GROUP: &str = "X-Remote-Group";
pub(crate) const REMOTE_EXTRA: &str = "X-Remote-Extra-";

/// What one connection agreed on and the next does not know (RFC 9110 §7.6.1).
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];

/// The protocol that a request or answer changes to.
pub(crate) fn upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut named = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let asks = named.any(|value| value.split(',').any(|token| token.trim().eq_ignore_ascii_case("upgrade")));
    headers.get(header::UPGRADE).filter(|_| asks).cloned()
}

/// Takes out what belongs to the connection; an upgrade goes on if it `may`.
pub(crate) fn strip_hop_by_hop(headers: &mut HeaderMap, may_upgrade: bool) {
    let upgrade = upgrade(headers).filter(|_| may_upgrade);
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
    if let Some(protocol) = upgrade {
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, protocol);
    }
}

/// Takes out what is meant for this server alone: credentials, and as whom somebody acts.
pub(crate) fn strip_private(headers: &mut HeaderMap) {
    let private = |name: &HeaderName| {
        name == header::AUTHORIZATION
            || name.as_str().starts_with("x-remote-")
            || name.as_str().starts_with("impersonate-")
    };
    let names: Vec<HeaderName> = headers.keys().filter(|name| private(name)).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

/// Adds the client to those that the request came by.
pub(crate) fn forwarded_for(headers: &mut HeaderMap, source: Option<Source>) {
    let address = source.map(|Source(from)| HeaderValue::try_from(from.ip().to_canonical().to_string()));
    if let Some(Ok(address)) = address {
        headers.append(FORWARDED_FOR, address);
    }
}

/// Says for whom the request is, instead of what the client says about itself.
///
/// # Errors
/// A name of the user cannot stand in a header; nothing is asked then, rather than for somebody else.
pub(super) fn set_user(headers: &mut HeaderMap, user: &UserInfo) -> Result<(), http::Error> {
    strip_private(headers);
    let mut add = |name: &str, value: &str| -> Result<(), http::Error> {
        headers.append(HeaderName::try_from(name)?, HeaderValue::try_from(value.as_bytes())?);
        Ok(())
    };
    add(REMOTE_USER, &user.name)?;
    if !user.uid.is_empty() {
        add(REMOTE_UID, &user.uid)?;
    }
    for group in &user.groups {
        add(REMOTE_GROUP, group)?;
    }
    for (key, values) in &user.extra {
        let name = format!("{REMOTE_EXTRA}{}", escaped(key));
        for value in values {
            add(&name, value)?;
        }
    }
    Ok(())
}

/// A key as part of a header's name: what may not stand there is percent-encoded.
fn escaped(key: &str) -> String {
    key.bytes().fold(String::with_capacity(key.len()), |mut out, byte| {
        let legal = byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte);
        if legal {
            out.push(char::from(byte));
        } else {
            let written = write!(out, "%{byte:02X}");
            debug_assert!(written.is_ok(), "writing to a String cannot fail");
        }
        out
    })
}

/// Whether the backend sends the client elsewhere; to another version of a schema it may.
pub(super) fn is_redirect(code: StatusCode, headers: &HeaderMap) -> bool {
    let Some(target) = headers.get(header::LOCATION) else { return false };
    code.is_redirection() && !target.as_bytes().starts_with(b"/openapi/v3/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_cannot_say_who_it_is() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-remote-user", "root"),
            ("x-remote-group", "system:masters"),
            ("x-remote-extra-scopes", "all"),
            ("x-remote-uid", "1"),
            ("authorization", "Bearer secret"),
            ("impersonate-user", "bob"),
            ("accept", "application/json"),
        ] {
            headers.append(name, value.parse().unwrap());
        }
        let mut user = UserInfo::new("jürgen", ["dev", "ops"]);
        user.extra.insert("example.org/scope".to_owned(), vec!["a".to_owned()]);
        set_user(&mut headers, &user).unwrap();
        let all: Vec<(&str, &[u8])> = headers.iter().map(|(n, v)| (n.as_str(), v.as_bytes())).collect();
        assert_eq!(
            all,
            [
                ("accept", &b"application/json"[..]),
                ("x-remote-user", "jürgen".as_bytes()),
                ("x-remote-group", b"dev"),
                ("x-remote-group", b"ops"),
                ("x-remote-extra-example.org%2fscope", b"a"),
            ]
        );
        assert!(set_user(&mut headers, &UserInfo::new("a\nb", ["dev"])).is_err());
    }

    #[test]
    fn what_belongs_to_a_connection_stays_there_and_an_upgrade_goes_on() {
        let mut headers = HeaderMap::new();
        headers.insert("connection", "close, X-Mine, upgrade".parse().unwrap());
        headers.insert("x-mine", "1".parse().unwrap());
        headers.insert("upgrade", "SPDY/3.1".parse().unwrap());
        headers.insert("transfer-encoding", "chunked".parse().unwrap());
        headers.insert("x-stream-protocol-version", "v4".parse().unwrap());
        strip_hop_by_hop(&mut headers, true);
        assert_eq!(headers["upgrade"], "SPDY/3.1");
        assert_eq!(headers["connection"], "Upgrade");
        assert_eq!(headers.len(), 3);
        strip_hop_by_hop(&mut headers, false);
        assert_eq!(headers.len(), 1);
    }
}
