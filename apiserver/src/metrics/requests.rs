//! What a request asked for, as labels: a bounded set of values, whatever clients send.

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use prometheus_client::encoding::EncodeLabelSet;

use crate::registry::Served;
use crate::request::RequestInfo;

/// Paths that are no resources and are told apart.
const PATHS: [&str; 9] =
    ["/api", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"];

/// What was asked for, as far as it is a bounded set of values.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    /// The verb in upper case; `WATCH` and `LIST` are told apart from `GET`, `APPLY` from `PATCH`, and streams are `CONNECT`.
    pub verb: &'static str,
    /// The API group.
    pub group: String,
    /// The API version.
    pub version: String,
    /// The resource; empty for paths that are none and for unknown resources.
    pub resource: String,
    /// The subresource, or the path of a request that is for no resource.
    pub subresource: String,
    /// `cluster`, `namespace`, `resource` or empty.
    pub scope: &'static str,
    /// `apiserver`.
    pub component: &'static str,
}

/// The same with the request's `dryRun`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct AskedLabels {
    #[prometheus(flatten)]
    pub(super) request: RequestLabels,
    /// Empty, `All`, or `invalid`.
    pub(super) dry_run: &'static str,
}

/// The same with the answer's code.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CodeLabels {
    #[prometheus(flatten)]
    pub(super) asked: AskedLabels,
    pub(super) code: u16,
}

impl RequestLabels {
    /// The labels of a request; names only as far as `served`, the resource it is for, has them.
    pub fn of(info: &RequestInfo, served: Option<&Served>, headers: &HeaderMap) -> Self {
        let scope = match info {
            _ if !info.is_resource_request => "",
            info if !info.name.is_empty() => "resource",
            info if !info.namespace.is_empty() => "namespace",
            _ => "cluster",
        };
        let text = |text: &str| if served.is_some() { text.to_owned() } else { String::new() };
        let known_sub = served.is_some_and(|served| served.resource.subresource(&info.subresource).is_some());
        let path = info.path.trim_end_matches('/');
        let subresource = match info.subresource.as_str() {
            sub if known_sub => sub.to_owned(),
            _ if !info.is_resource_request && PATHS.contains(&path) => path.to_owned(),
            _ => String::new(),
        };
        Self {
            verb: verb(info, headers),
            group: text(&info.api_group),
            version: text(&info.api_version),
            resource: text(&info.resource),
            subresource,
            scope,
            component: "apiserver",
        }
    }
}

fn verb(info: &RequestInfo, headers: &HeaderMap) -> &'static str {
    let applies = || {
        let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        media.starts_with("application/apply-patch")
    };
    if matches!(info.subresource.as_str(), "attach" | "exec" | "portforward" | "proxy")
        || info.verb == "proxy"
    {
        return "CONNECT";
    }
    match info.verb.as_str() {
        "get" | "head" => "GET",
        "list" => "LIST",
        "watch" => "WATCH",
        "create" | "post" => "POST",
        "update" | "put" => "PUT",
        "patch" if applies() => "APPLY",
        "patch" => "PATCH",
        "delete" => "DELETE",
        "deletecollection" => "DELETECOLLECTION",
        _ => "other",
    }
}

/// The label of a request's `dryRun`.
pub(crate) fn dry_run(info: &RequestInfo) -> &'static str {
    let mut values = info.query.all("dryRun");
    match values.next() {
        None => "",
        Some("All") if values.all(|value| value == "All") => "All",
        Some(_) => "invalid",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;

    fn labels(method: &str, url: &str) -> (RequestLabels, &'static str) {
        let info = RequestInfo::parse(&method.parse().unwrap(), &url.parse().unwrap()).unwrap();
        let served = Registry::new().get(&info.api_group, &info.api_version, &info.resource);
        (RequestLabels::of(&info, served.as_deref(), &HeaderMap::new()), dry_run(&info))
    }

    #[test]
    fn clients_cannot_invent_series() {
        let (known, dry) = labels("PUT", "/apis/apps/v1/namespaces/a/deployments/b/scale?dryRun=All");
        let shown =
            [known.verb, &known.group, &known.version, &known.resource, &known.subresource, known.scope];
        assert_eq!(shown, ["PUT", "apps", "v1", "deployments", "scale", "resource"]);
        assert_eq!(dry, "All");
        let (odd, dry) = labels("BREW", "/apis/apps/v1/namespaces/a/deployments/b/coffee?dryRun=x1");
        assert_eq!((odd.verb, &*odd.subresource, dry), ("other", "", "invalid"));
        let nothing = labels("GET", "/apis/a1/v1/b1/c1/d1").0;
        assert_eq!(nothing, labels("GET", "/apis/a2/v2/b2/c2/d2").0);
        assert_eq!(labels("GET", "/x1").0, labels("GET", "/x2/y").0);
        assert_eq!(labels("GET", "/readyz").0.subresource, "/readyz");
    }
}
