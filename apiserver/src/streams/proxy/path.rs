//! The path of a proxied request: what comes behind `proxy` in the URL, decoded for policies and encoded again for the way.

use std::fmt::Write;

use crate::request::RequestInfo;

/// Where it begins: the resource, the name and `proxy` are before it.
const BEFORE: usize = 3;

/// The path behind `proxy`, decoded; empty, or with a leading slash.
pub(super) fn below(info: &RequestInfo) -> String {
    let rest = info.parts.get(BEFORE..).unwrap_or_default().join("/");
    let mut path = if rest.is_empty() { rest } else { format!("/{rest}") };
    if info.path.ends_with('/') && !path.ends_with('/') {
        path.push('/');
    }
    path
}

/// The path up to `proxy`, encoded.
pub(super) fn before(info: &RequestInfo) -> String {
    let below = below(info);
    encoded(info.path.strip_suffix(below.as_str()).unwrap_or(&info.path))
}

/// A path as it may stand in a URL: everything that Go's `url.URL.EscapedPath` lets stand.
pub(super) fn encoded(path: &str) -> String {
    path.bytes().fold(String::with_capacity(path.len()), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@!'()*".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let written = write!(out, "%{byte:02X}");
            debug_assert!(written.is_ok(), "writing to a String cannot fail");
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(url: &str) -> RequestInfo {
        RequestInfo::parse(&http::Method::GET, &url.parse().unwrap()).unwrap()
    }

    #[test]
    fn the_path_is_what_comes_behind_proxy() {
        let pod = "/api/v1/namespaces/a/pods/b:80/proxy";
        for (rest, path) in
            [("", ""), ("/", "/"), ("/x/y?q=1", "/x/y"), ("/x/", "/x/"), ("/a%20b/%2e%2e/c", "/a b/../c")]
        {
            let info = info(&format!("{pod}{rest}"));
            assert_eq!(below(&info), path);
            assert_eq!(before(&info), pod);
        }
        assert_eq!(below(&info("/api/v1/nodes/n1/proxy/metrics")), "/metrics");
        assert_eq!(encoded("/a b/ü?\r\n"), "/a%20b/%C3%BC%3F%0D%0A");
    }
}
