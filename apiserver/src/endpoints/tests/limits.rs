//! What a request may cost: sizes at their limits and beyond, and requests of any shape.

use litek8s_machinery::schema::TypeName;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::*;

const MERGE: &str = "application/merge-patch+json";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

impl Server {
    /// A kind whose objects may hold anything.
    async fn serve_widgets(&self) {
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let schema = json!({"type": "object", "properties": {"spec": open}});
        let version =
            json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
        let spec = json!({"group": "example.com", "scope": "Namespaced", "versions": [version],
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}});
        let body = json!({"metadata": {"name": "widgets.example.com"}, "spec": spec});
        let made = self.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body).await;
        assert_eq!(made.code, 201, "{}", made.text);
    }
}

fn widget(name: &str, fill: usize) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name},
        "spec": {"fill": "x".repeat(fill)}})
}

#[tokio::test]
async fn an_object_is_as_large_as_the_limit_and_no_larger_however_it_grows() {
    let server = Server::start().await;
    server.serve_widgets().await;
    let path = format!("{WIDGETS}/a");
    assert_eq!(server.post(WIDGETS, widget("a", 0)).await.code, 201);
    // What a patch brings the object to exactly the limit with.
    let stored = server.post(&format!("{WIDGETS}?dryRun=All"), widget("b", 0)).await;
    assert_eq!(stored.code, 201, "{}", stored.text);
    let limit = server.api.max_object;
    let refused = server.post(WIDGETS, widget("b", limit)).await;
    assert_eq!((refused.code, &refused.body["reason"]), (413, &json!("RequestEntityTooLarge")));
    let message = refused.body["message"].as_str().unwrap();
    assert!(message.contains(&format!("limit is {limit}")), "{message}");
    let dry = server.post(&format!("{WIDGETS}?dryRun=All"), widget("b", limit)).await;
    assert_eq!(dry.code, 413, "{}", dry.text);
    let grow = async |field: &str, bytes: usize| {
        server.patch(&path, MERGE, json!({"spec": {field: "x".repeat(bytes)}})).await
    };
    let size = || {
        let key = litek8s_store::GroupResource::new("example.com", "widgets");
        let view = server.api.replica.view();
        view.get(&litek8s_store::ObjectKey::new(key, "default", "a")).unwrap().json.len()
    };
    assert_eq!(grow("first", 1 << 20).await.code, 200);
    assert_eq!(grow("last", 1).await.code, 200);
    let room = limit - size();
    assert_eq!(grow("last", 1 + room).await.code, 200);
    assert!(size() <= limit && limit - size() < 64, "{} of {limit}", size());
    assert_eq!(grow("last", 64 + room).await.code, 413);
    assert_eq!(grow("more", 1 << 19).await.code, 413);
    // It may be deleted and, where the limit became less, shrink.
    let marked = server.patch(&path, MERGE, json!({"metadata": {"finalizers": ["example.com/x"]}})).await;
    assert_eq!(marked.code, 413, "{}", marked.text);
    assert_eq!(grow("last", 1).await.code, 200);
    assert_eq!(server.delete(&path, Value::Null).await.code, 200);
}

#[tokio::test]
async fn a_body_is_as_large_as_the_limit_and_no_larger() {
    let server = Server::start().await;
    let body = |length: usize| {
        let mut text = json!({"metadata": {"name": "a"}, "data": {"a": "b"}}).to_string();
        text.push_str(&" ".repeat(length - text.len()));
        text
    };
    let send = |text: String| server.send(request(Method::POST, MAPS, "application/json", text.into()));
    assert_eq!(send(body(super::super::MAX_BODY)).await.code, 201);
    let refused = send(body(super::super::MAX_BODY + 1)).await;
    assert_eq!((refused.code, &refused.body["reason"]), (413, &json!("RequestEntityTooLarge")));
}

#[tokio::test]
async fn a_body_is_as_deep_as_the_limit_and_no_deeper_in_either_notation() {
    let server = Server::start().await;
    server.serve_widgets().await;
    // The object, its `spec` and `deep`, and what is in it.
    let nested = |levels: usize| format!("{}1{}", "[".repeat(levels - 2), "]".repeat(levels - 2));
    for media in ["application/json", "application/yaml"] {
        let send = |levels: usize| {
            let text = format!(r#"{{"metadata": {{"name": "d"}}, "spec": {{"deep": {}}}}}"#, nested(levels));
            server.send(request(Method::POST, &format!("{WIDGETS}?dryRun=All"), media, text.into()))
        };
        assert_eq!(send(100).await.code, 201, "{media}");
        for levels in [101, 1000, 1_000_000] {
            assert_eq!(send(levels).await.code, 400, "{media}");
        }
    }
}

#[tokio::test]
async fn a_hundred_thousand_mistakes_are_told_in_a_short_answer() {
    let server = Server::start().await;
    let containers: Value = (0..100_000).map(|_| json!({})).collect();
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": containers}});
    let refused = server.post("/api/v1/namespaces/default/pods", pod).await;
    assert_eq!(refused.code, 422);
    assert!(refused.text.len() < 64 * 1024, "{}", refused.text.len());
    let odd: serde_json::Map<String, Value> = (0..50_000).map(|at| (format!("f{at}"), json!(1))).collect();
    let mut map = json!({"metadata": {"name": "a"}});
    map.as_object_mut().unwrap().extend(odd);
    let warned = server.post(MAPS, map.clone()).await;
    assert_eq!(warned.code, 201);
    assert!(!warned.warnings.is_empty() && warned.warnings.concat().len() < 8 * 1024);
    let strict = server.post(&format!("{MAPS}?fieldValidation=Strict"), map).await;
    assert_eq!(strict.code, 400);
    assert!(strict.text.len() < 16 * 1024, "{}", strict.text.len());
}

/// A request of any shape: every part is often right, so that the next one is looked at.
fn any_request() -> impl Strategy<Value = (Method, String, &'static str, Vec<u8>)> {
    let method =
        prop::sample::select(vec![Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::GET]);
    let path = prop::sample::select(vec![
        MAPS.to_owned(),
        format!("{MAPS}/a"),
        "/api/v1/namespaces/default/pods".to_owned(),
        "/api/v1/namespaces/default/pods/p".to_owned(),
        "/api/v1/namespaces/default/pods/p/status".to_owned(),
        "/api/v1/namespaces/default/pods/p/binding".to_owned(),
        "/api/v1/namespaces/default/pods/p/eviction".to_owned(),
        "/api/v1/namespaces/default/services".to_owned(),
        "/api/v1/namespaces".to_owned(),
        "/apis/apps/v1/namespaces/default/deployments/d/scale".to_owned(),
        "/apis/batch/v1/namespaces/default/jobs".to_owned(),
        "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers".to_owned(),
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned(),
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies".to_owned(),
        "/apis/certificates.k8s.io/v1/certificatesigningrequests".to_owned(),
        "/apis/networking.k8s.io/v1/servicecidrs".to_owned(),
        format!("{WIDGETS}/a"),
    ]);
    let parameter = prop::sample::select(vec![
        "limit",
        "continue",
        "resourceVersion",
        "resourceVersionMatch",
        "labelSelector",
        "fieldSelector",
        "dryRun",
        "fieldManager",
        "fieldValidation",
        "force",
        "propagationPolicy",
        "gracePeriodSeconds",
        "orphanDependents",
        "pretty",
        "includeObject",
        "timeoutSeconds",
    ]);
    let value = prop::sample::select(vec![
        "",
        "0",
        "1",
        "-1",
        "All",
        "true",
        "Strict",
        "Exact",
        "99999999999999999999",
        "%00",
        "a%3Db",
        "%ff",
        "e30",
        "metadata.name%3Da",
        "Foreground",
        "Object",
    ]);
    let query = prop::collection::vec((parameter, value), 0..3);
    let media = prop::sample::select(vec![
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
        "",
    ]);
    (method, path, query, media, any_body()).prop_map(|(method, path, query, media, body)| {
        let query: Vec<String> = query.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        (method, format!("{path}?{}", query.join("&")), media, body)
    })
}

fn any_body() -> impl Strategy<Value = Vec<u8>> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::from),
        "[a-z*/.:{}]{0,6}".prop_map(Value::from),
    ];
    let names = prop::sample::select(vec![
        "metadata",
        "spec",
        "status",
        "data",
        "name",
        "namespace",
        "labels",
        "finalizers",
        "ownerReferences",
        "containers",
        "template",
        "selector",
        "ports",
        "versions",
        "names",
        "validations",
        "expression",
        "matchConstraints",
        "request",
        "cidrs",
        "replicas",
        "preconditions",
        "target",
        "scaleTargetRef",
        "metrics",
        "managedFields",
        "apiVersion",
        "kind",
    ]);
    let value = leaf.prop_recursive(5, 48, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(names.clone().prop_map(str::to_owned), inner, 0..5)
                .prop_map(|fields| fields.into_iter().collect::<Value>()),
        ]
    });
    let named = value.clone().prop_map(|mut value| {
        if value.is_object() {
            value["metadata"] = json!({"name": "a"});
        }
        value.to_string().into_bytes()
    });
    let protobuf = value.clone().prop_map(|value| {
        let spec = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": value.to_string()}});
        litek8s_machinery::protobuf::to_protobuf(TypeName::find("core/v1.ConfigMap").unwrap().schema(), &spec)
    });
    prop_oneof![
        4 => named,
        2 => value.prop_map(|value| value.to_string().into_bytes()),
        1 => protobuf,
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ]
}

#[tokio::test]
async fn requests_of_any_shape_are_answered_and_never_by_our_own_fault() {
    let server = Server::start().await;
    server.serve_widgets().await;
    server.config_map("a", json!({})).await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    server.post("/api/v1/namespaces/default/pods", pod).await;
    server.post(WIDGETS, widget("a", 0)).await;
    let mut runner = TestRunner::deterministic();
    let requests = any_request();
    for _ in 0..1000 {
        let (method, path, media, body) = requests.new_tree(&mut runner).unwrap().current();
        let shown = format!("{method} {path} {media} {}", String::from_utf8_lossy(&body));
        let answer = server.send(request(method, &path, media, body.into())).await;
        // A version in what is to be created is an error without a code of its own, upstream too.
        let known = answer.text.contains("resourceVersion should not be set");
        assert!(answer.code < 500 || answer.code == 504 || known, "{shown}: {}", answer.text);
        assert!(
            serde_json::from_str::<Value>(&answer.text).is_ok() || answer.code < 300,
            "{shown}: {}",
            answer.text
        );
    }
}
