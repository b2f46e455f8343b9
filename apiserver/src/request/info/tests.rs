//! The table of kube-apiserver's requestinfo, by paths.

use super::*;

fn parse(method: &str, url: &str) -> RequestInfo {
    RequestInfo::parse(&method.parse().unwrap(), &url.parse().unwrap()).unwrap()
}

proptest::proptest! {
    #[test]
    fn addresses_of_any_text_are_taken_apart_or_refused(
        path in "(/(api|apis|v1|apps|namespaces|watch|proxy|status|%2[0-9a-fg]|%[0-9a-f]{2}|[a-z.]{0,5})?){0,9}",
        query in "([a-zA-Z]{0,4}=?[%0-9a-f+&;]{0,8}){0,4}",
    ) {
        let Ok(uri) = format!("https://host{path}?{query}").parse::<Uri>() else { return Ok(()) };
        for method in [Method::GET, Method::POST, Method::DELETE, Method::PATCH] {
            if let Ok(info) = RequestInfo::parse(&method, &uri) {
                proptest::prop_assert!(!info.verb.is_empty());
            }
        }
    }
}

#[test]
fn resource_paths_are_taken_apart() {
    // method, url, verb, prefix, group, version, namespace, resource, subresource, name
    #[rustfmt::skip]
    let table = [
        ("GET", "/api/v1/namespaces", ["list", "api", "", "v1", "", "namespaces", "", ""]),
        ("GET", "/api/v1/namespaces/other", ["get", "api", "", "v1", "other", "namespaces", "", "other"]),
        ("GET", "/api/v1/namespaces/other/status", ["get", "api", "", "v1", "other", "namespaces", "status", "other"]),
        ("PUT", "/api/v1/namespaces/other/finalize", ["update", "api", "", "v1", "other", "namespaces", "finalize", "other"]),
        ("GET", "/api/v1/namespaces/other/pods", ["list", "api", "", "v1", "other", "pods", "", ""]),
        ("GET", "/api/v1/namespaces/other/pods/foo", ["get", "api", "", "v1", "other", "pods", "", "foo"]),
        ("HEAD", "/api/v1/namespaces/other/pods/foo", ["get", "api", "", "v1", "other", "pods", "", "foo"]),
        ("GET", "/api/v1/pods", ["list", "api", "", "v1", "", "pods", "", ""]),
        ("HEAD", "/api/v1/pods", ["list", "api", "", "v1", "", "pods", "", ""]),
        ("GET", "/api/v1/pods?watch=true", ["watch", "api", "", "v1", "", "pods", "", ""]),
        ("GET", "/api/v1/pods?watch=false", ["list", "api", "", "v1", "", "pods", "", ""]),
        ("GET", "/api/v1/watch/pods", ["watch", "api", "", "v1", "", "pods", "", ""]),
        ("GET", "/api/v1/watch/namespaces/other/pods", ["watch", "api", "", "v1", "other", "pods", "", ""]),
        ("GET", "/api/v1/proxy/namespaces/other/pods/foo", ["proxy", "api", "", "v1", "other", "pods", "", "foo"]),
        ("GET", "/api/v1/proxy/namespaces/other/pods/foo/subpath/etc", ["proxy", "api", "", "v1", "other", "pods", "", "foo"]),
        ("GET", "/api/v1/namespaces/other/pods/foo/proxy/a/b", ["get", "api", "", "v1", "other", "pods", "proxy", "foo"]),
        ("GET", "/api/v1/namespaces/other/pods/foo/status", ["get", "api", "", "v1", "other", "pods", "status", "foo"]),
        ("POST", "/api/v1/namespaces/other/pods", ["create", "api", "", "v1", "other", "pods", "", ""]),
        ("PUT", "/api/v1/namespaces/other/pods/foo", ["update", "api", "", "v1", "other", "pods", "", "foo"]),
        ("PATCH", "/api/v1/namespaces/other/pods/foo", ["patch", "api", "", "v1", "other", "pods", "", "foo"]),
        ("DELETE", "/api/v1/namespaces/other/pods/foo", ["delete", "api", "", "v1", "other", "pods", "", "foo"]),
        ("DELETE", "/api/v1/namespaces/other/pods", ["deletecollection", "api", "", "v1", "other", "pods", "", ""]),
        ("DELETE", "/api/v1/namespaces", ["deletecollection", "api", "", "v1", "", "namespaces", "", ""]),
        ("GET", "/apis/apps/v1/namespaces/a/deployments/web/scale", ["get", "apis", "apps", "v1", "a", "deployments", "scale", "web"]),
        ("GET", "/apis/netwrangler.dev/v1/vipnetworks", ["list", "apis", "netwrangler.dev", "v1", "", "vipnetworks", "", ""]),
        ("GET", "/api/v1/namespaces/status/pods", ["list", "api", "", "v1", "status", "pods", "", ""]),
        ("GET", "/api/v1/nodes?fieldSelector=metadata.name%3Dn1", ["list", "api", "", "v1", "", "nodes", "", "n1"]),
        ("GET", "/api/v1/nodes?watch=1&fieldSelector=metadata.name%3D%3Dn1", ["watch", "api", "", "v1", "", "nodes", "", "n1"]),
        ("GET", "/api/v1/nodes?fieldSelector=metadata.name!%3Dn1", ["list", "api", "", "v1", "", "nodes", "", ""]),
        ("GET", "/api/v1/nodes?fieldSelector=metadata.name%3Da%5C%2Cb", ["list", "api", "", "v1", "", "nodes", "", "a,b"]),
        ("GET", "/api/v1/nodes?fieldSelector=x%3D1%5C%2Cmetadata.name%3Da", ["list", "api", "", "v1", "", "nodes", "", ""]),
        ("GET", "/api/v1/nodes?fieldSelector=metadata.name%3Da%2Fb", ["list", "api", "", "v1", "", "nodes", "", ""]),
    ];
    for (method, url, expected) in table {
        let i = parse(method, url);
        let found = [
            &i.verb,
            &i.api_prefix,
            &i.api_group,
            &i.api_version,
            &i.namespace,
            &i.resource,
            &i.subresource,
            &i.name,
        ];
        assert_eq!(found, expected, "{method} {url}");
        assert!(i.is_resource_request, "{url}");
    }
}

#[test]
fn other_paths_keep_their_method() {
    for url in [
        "/",
        "/api",
        "/api/v1",
        "/apis",
        "/apis/apps",
        "/apis/apps/v1",
        "/healthz",
        "/version",
        "/openapi/v2",
        "//",
    ] {
        let info = parse("GET", url);
        assert!(!info.is_resource_request, "{url}");
        assert_eq!(info.verb, "get");
    }
    assert_eq!(parse("POST", "/v1-litek8s/node-certificate").verb, "post");
}

#[test]
fn a_special_verb_alone_is_an_error() {
    let parsed = RequestInfo::parse(&Method::GET, &"/api/v1/watch".parse().unwrap());
    assert!(parsed.is_err());
}

#[test]
fn selectors_are_kept_for_collections_only() {
    let list = parse("GET", "/api/v1/pods?labelSelector=a%3Db&fieldSelector=spec.nodeName%3Dn1");
    assert_eq!((list.label_selector.as_str(), list.field_selector.as_str()), ("a=b", "spec.nodeName=n1"));
    let get = parse("GET", "/api/v1/namespaces/a/pods/b?labelSelector=a%3Db");
    assert_eq!(get.label_selector, "");
}

#[test]
fn streams_are_long_running() {
    assert!(parse("GET", "/api/v1/pods?watch=true").is_long_running());
    assert!(parse("POST", "/api/v1/namespaces/a/pods/b/exec").is_long_running());
    assert!(!parse("GET", "/api/v1/pods").is_long_running());
}
