//! What clients count on of every kind that is served, whatever it is.

use litek8s_machinery::protobuf::to_protobuf;
use litek8s_machinery::resource::{Resource, builtin, type_of};

use super::*;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";

/// The collection of a resource, in `default` if it has namespaces.
fn collection(resource: &Resource) -> String {
    let root =
        if resource.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", resource.group) };
    let namespace = if resource.namespaced { "/namespaces/default" } else { "" };
    format!("{root}/{}{namespace}/{}", resource.version, resource.plural)
}

#[tokio::test]
async fn typed_clients_create_every_kind_in_protobuf() {
    let server = Server::start().await;
    let kept = builtin().iter().filter(|resource| resource.has_verb("list") && resource.has_verb("create"));
    for resource in kept {
        let object =
            json!({"apiVersion": resource.api_version(), "kind": &*resource.kind, "metadata": {"name": "a"}});
        let body = to_protobuf(type_of(&resource.gvk()).unwrap().schema(), &object);
        let path = format!("{}?dryRun=All", collection(resource));
        let answer = server.send(request(Method::POST, &path, PROTOBUF, body.into())).await;
        // Many need more than a name: it was read, and that is said.
        assert!(matches!(answer.code, 201 | 403 | 404 | 422), "{path}: {} {}", answer.code, answer.text);
    }
}

#[tokio::test]
async fn a_watch_of_every_kind_says_in_every_form_when_its_beginning_is_over() {
    let server = Server::start().await;
    let query = "watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let watched = builtin().iter().filter(|resource| resource.has_verb("watch"));
    let forms = [
        "application/json".to_owned(),
        TABLE.to_owned(),
        PARTIAL.to_owned(),
        format!("{PROTOBUF};stream=watch"),
    ];
    let watches = watched.flat_map(|resource| forms.iter().map(move |form| (resource, form)));
    let all = watches.map(|(resource, form)| {
        let server = &server;
        async move {
            let path = format!("{}?{query}&timeoutSeconds=1", collection(resource));
            let answer = server.get_as(&path, form).await;
            assert_eq!(answer.code, 200, "{path}: {}", answer.text);
            assert!(answer.text.contains("k8s.io/initial-events-end"), "{path} as {form}: {}", answer.text);
        }
    });
    futures::future::join_all(all).await;
}

#[tokio::test]
async fn metadata_is_a_form_of_what_writes_answer() {
    let server = Server::start().await;
    let send = async |method: Method, path: &str, media: &str, body: Value| {
        let mut request = request(method, path, media, body.to_string().into());
        request.headers_mut().insert(http::header::ACCEPT, PARTIAL.parse().unwrap());
        server.send(request).await
    };
    let map = json!({"metadata": {"name": "a", "finalizers": ["example.com/x"]}, "data": {"k": "v"}});
    let path = format!("{MAPS}/a");
    let merge = "application/merge-patch+json";
    for (method, path, media, body) in [
        (Method::POST, MAPS, "application/json", map.clone()),
        (Method::PUT, &path, "application/json", map),
        (Method::PATCH, &path, merge, json!({"data": {"k": "w"}})),
        (Method::DELETE, &path, "application/json", json!({})),
    ] {
        let answer = send(method.clone(), path, media, body).await;
        assert!(answer.code < 300, "{method}: {}", answer.text);
        assert_eq!(answer.body["kind"], "PartialObjectMetadata", "{method}: {}", answer.text);
        assert_eq!((&answer.body["metadata"]["name"], answer.body.get("data")), (&json!("a"), None));
    }
}
