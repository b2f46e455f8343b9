//! A definition of two versions whose objects a webhook converts.

use serde_json::{Value, json};

use crate::admission::webhook::tests::server::Hooks;
use crate::endpoints::tests::Server;

const V1: &str = "/apis/example.com/v1/namespaces/default/gauges";
const V2: &str = "/apis/example.com/v2/namespaces/default/gauges";

fn definition(hooks: &Hooks) -> Value {
    let version = |name: &str, storage: bool, field: &str| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": {"type": "object", "properties": {field: {"type": "string"}}}},
        }}})
    };
    json!({
        "metadata": {"name": "gauges.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "gauges", "kind": "Gauge"},
            "versions": [version("v1", false, "old"), version("v2", true, "new")],
            "conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig":
                {"url": format!("https://localhost:{}/convert", hooks.port), "caBundle": hooks.bundle}}},
        },
    })
}

/// Moves the one field to its name in the other version.
fn convert(request: &Value) -> Value {
    let to = request["desiredAPIVersion"].as_str().unwrap();
    let (from_field, to_field) = if to.ends_with("v2") { ("old", "new") } else { ("new", "old") };
    let objects = request["objects"].as_array().unwrap().iter().map(|object| {
        let mut object = object.clone();
        object["apiVersion"] = json!(to);
        object["spec"] = json!({to_field: object["spec"][from_field]});
        object
    });
    json!({"result": {"status": "Success"}, "convertedObjects": objects.collect::<Vec<_>>()})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_stored_in_one_version_and_shown_in_another() {
    let server = Server::start().await;
    let hooks = Hooks::start(|_, request| convert(request)).await;
    let made =
        server.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(&hooks)).await;
    assert_eq!(made.code, 201, "{}", made.text);
    for name in ["a", "b"] {
        let body = json!({"apiVersion": "example.com/v1", "kind": "Gauge", "metadata": {"name": name}, "spec": {"old": name}});
        let made = server.post(V1, body).await;
        assert_eq!((made.code, &made.body["spec"]), (201, &json!({"old": name})), "{}", made.text);
    }
    let stored = server.get(&format!("{V2}/a")).await;
    assert_eq!(stored.body["spec"], json!({"new": "a"}), "{}", stored.text);
    let patch = json!({"spec": {"old": "c"}, "metadata": {"labels": {"x": "y"}}});
    let patched = server.patch(&format!("{V1}/a"), "application/merge-patch+json", patch).await;
    assert_eq!((patched.code, &patched.body["spec"]), (200, &json!({"old": "c"})), "{}", patched.text);
    assert_eq!(server.get(&format!("{V2}/a")).await.body["spec"], json!({"new": "c"}));
    server.get(V1).await;
    let before = hooks.calls().len();
    let list = server.get(V1).await;
    let specs: Vec<&Value> =
        list.body["items"].as_array().unwrap().iter().map(|item| &item["spec"]).collect();
    assert_eq!(specs, [&json!({"old": "c"}), &json!({"old": "b"})]);
    assert_eq!(hooks.calls().len(), before, "what was converted is kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversion_that_fails_is_told_and_stores_nothing() {
    let server = Server::start().await;
    let hooks = Hooks::start(|_, _| json!({"result": {"status": "Failed", "message": "no gauge"}})).await;
    let made =
        server.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(&hooks)).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let body = json!({"apiVersion": "example.com/v1", "kind": "Gauge", "metadata": {"name": "a"}, "spec": {"old": "a"}});
    let refused = server.post(V1, body).await;
    let text = "Internal error occurred: conversion webhook for example.com/v1, Kind=Gauge failed: no gauge";
    assert_eq!((refused.code, &refused.body["message"]), (500, &json!(text)));
    assert!(server.get(V2).await.body["items"].as_array().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_any_size_is_converted_in_parts() {
    let server = Server::start().await;
    let hooks = Hooks::start(|_, request| convert(request)).await;
    let made =
        server.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(&hooks)).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let text = "x".repeat(900_000);
    for n in 0..9 {
        let body = json!({"metadata": {"name": format!("g{n}")}, "spec": {"new": text}});
        assert_eq!(server.post(V2, body).await.code, 201);
    }
    let list = server.get(V1).await;
    assert_eq!(list.code, 200, "{}", &list.text[..list.text.len().min(200)]);
    let items = list.body["items"].as_array().unwrap();
    assert!(items.len() == 9 && items.iter().all(|item| item["spec"]["old"] == text.as_str()));
    assert_eq!(hooks.calls().len(), 5, "two at a time");
}
