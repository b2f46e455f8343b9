//! What the controllers ask of the API, counted. Nothing here changes a request.

use http::{Method, Request};
use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use litek8s_daemon::metrics::Metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tower::util::MapRequestLayer;

/// How often what was asked; clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Requests(Family<Asked, Counter>);

/// One kind of request, in the words of RBAC.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Asked {
    verb: &'static str,
    /// `services` or `services/status`; empty for what is no resource.
    resource: String,
}

impl Requests {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let own = Self::default();
        metrics.register(|registry| {
            registry.register(
                "litek8s_controllers_requests",
                "Requests of the controllers to the API",
                own.0.clone(),
            );
        });
        own
    }

    /// A client whose requests are counted.
    pub(crate) fn client(&self, config: Config) -> kube::Result<Client> {
        let counted = self.0.clone();
        let layer = MapRequestLayer::new(move |request: Request<Body>| {
            counted.get_or_create(&asked(&request)).inc();
            request
        });
        Ok(ClientBuilder::try_from(config)?.with_layer(&layer).build())
    }
}

fn asked<B>(request: &Request<B>) -> Asked {
    let path: Vec<&str> = request.uri().path().split('/').filter(|part| !part.is_empty()).collect();
    let rest = match path.as_slice() {
        ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
        _ => &[],
    };
    let (resource, name, subresource) = match rest {
        ["namespaces", _, resource, rest @ ..] | [resource, rest @ ..] => {
            (*resource, rest.first(), rest.get(1))
        }
        [] => ("", None, None),
    };
    let watches = request.uri().query().is_some_and(|query| query.contains("watch=true"));
    let verb = match (request.method(), name) {
        (&Method::GET, None) if watches => "watch",
        (&Method::GET, None) => "list",
        (&Method::GET, Some(_)) => "get",
        (&Method::POST, _) => "create",
        (&Method::PATCH, _) => "patch",
        (&Method::PUT, _) => "update",
        (&Method::DELETE, None) => "deletecollection",
        (&Method::DELETE, Some(_)) => "delete",
        _ => "other",
    };
    let subresource = subresource.map(|name| format!("/{name}")).unwrap_or_default();
    Asked { verb, resource: format!("{resource}{subresource}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_counted_by_verb_and_resource() {
        for (method, uri, verb, resource) in [
            ("GET", "/api/v1/services?limit=500&resourceVersion=0", "list", "services"),
            ("GET", "/api/v1/services?watch=true&timeoutSeconds=290", "watch", "services"),
            ("PATCH", "/api/v1/namespaces/shop/services/web/status?force=true", "patch", "services/status"),
            ("POST", "/apis/netwrangler.dev/v1/namespaces/shop/vipaddresses?", "create", "vipaddresses"),
            (
                "DELETE",
                "/apis/netwrangler.dev/v1/namespaces/shop/vipaddresses/web-1",
                "delete",
                "vipaddresses",
            ),
            ("GET", "/apis/netwrangler.dev/v1/vipconfigs/default", "get", "vipconfigs"),
            ("GET", "/api/v1/namespaces/shop", "get", "namespaces"),
            ("GET", "/version", "list", ""),
        ] {
            let request = Request::builder().method(method).uri(uri).body(()).unwrap();
            assert_eq!(asked(&request), Asked { verb, resource: resource.to_owned() }, "{method} {uri}");
        }
    }
}
