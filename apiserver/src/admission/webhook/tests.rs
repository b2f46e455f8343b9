//! Webhooks over real TLS on loopback: called in order, trusted by their bundle, and never in the way of their repair.

pub(crate) mod server;

use serde_json::{Value, json};

use crate::endpoints::tests::{Answer, MAPS, Server};
use server::{Hooks, allow, deny, patch};

const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

fn hook(hooks: &Hooks, path: &str, more: Value) -> Value {
    let mut hook = json!({
        "name": format!("{path}.example.com"), "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": format!("https://localhost:{}/{path}", hooks.port), "caBundle": hooks.bundle},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}],
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        hook[field.as_str()] = value.clone();
    }
    hook
}

impl Server {
    async fn hooks(&self, path: &str, name: &str, webhooks: Vec<Value>) {
        let made = self.post(path, json!({"metadata": {"name": name}, "webhooks": webhooks})).await;
        assert_eq!(made.code, 201, "{}", made.text);
    }

    async fn try_map(&self, name: &str) -> Answer {
        self.post(MAPS, json!({"metadata": {"name": name}, "data": {"a": "b"}})).await
    }
}

#[tokio::test]
async fn mutating_webhooks_change_objects_in_order_and_again_when_needed() {
    let server = Server::start().await;
    let hooks = Hooks::start(|path, request| {
        let data = &request["object"]["data"];
        match path {
            "/first" if data["second"].is_null() => {
                patch(json!([{"op": "add", "path": "/data/first", "value": "1"}]))
            }
            "/first" => patch(json!([{"op": "add", "path": "/data/again", "value": "1"}])),
            "/second" => patch(json!([{"op": "add", "path": "/data/second", "value": data["first"]}])),
            _ => allow(),
        }
    })
    .await;
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    server.hooks(MUTATING, "b", vec![hook(&hooks, "second", json!({}))]).await;
    server.hooks(MUTATING, "a", vec![hook(&hooks, "first", again)]).await;
    let made = server.try_map("x").await;
    assert_eq!(made.code, 201, "{}", made.text);
    assert_eq!(made.body["data"], json!({"a": "b", "first": "1", "second": "1", "again": "1"}));
    assert_eq!(hooks.calls(), ["/first", "/second", "/first"]);
    assert_eq!(hooks.connections(), 2, "each webhook keeps its connection");
    let shown = hooks.last();
    assert_eq!((&shown["operation"], &shown["name"]), (&json!("CREATE"), &json!("x")));
    assert_eq!(shown["userInfo"]["username"], "admin");
    assert_eq!(shown["requestResource"], json!({"group": "", "version": "v1", "resource": "configmaps"}));
    assert_eq!(shown["options"]["kind"], "CreateOptions");
}

#[tokio::test]
async fn a_refusal_is_told_in_upstreams_words_with_its_code_and_warnings() {
    let server = Server::start().await;
    let hooks = Hooks::start(|_, request| match request["operation"].as_str() {
        Some("DELETE") => deny(json!({})),
        _ => {
            let mut answer = deny(json!({"message": "not today", "code": 409, "reason": "Conflict"}));
            answer["warnings"] = json!(["careful"]);
            answer
        }
    })
    .await;
    assert_eq!(server.try_map("old").await.code, 201);
    server.hooks(VALIDATING, "v", vec![hook(&hooks, "check", json!({}))]).await;
    let refused = server.try_map("x").await;
    let text = "admission webhook \"check.example.com\" denied the request: not today";
    assert_eq!((refused.code, &refused.body["message"]), (409, &json!(text)));
    assert_eq!(refused.warnings, ["careful"]);
    let deleted = server.delete(&format!("{MAPS}/old"), Value::Null).await;
    let text = "admission webhook \"check.example.com\" denied the request without explanation";
    assert_eq!((deleted.code, &deleted.body["message"]), (400, &json!(text)));
    assert_eq!(hooks.last()["oldObject"]["metadata"]["name"], "old");
    assert_eq!(hooks.last()["object"], Value::Null);
}

#[tokio::test]
async fn failures_count_as_the_policy_says_and_dry_runs_need_consent() {
    let server = Server::start().await;
    let hooks = Hooks::start(|path, _| if path == "/bad" { json!({"uid": "other"}) } else { allow() }).await;
    server.hooks(VALIDATING, "v", vec![hook(&hooks, "bad", json!({}))]).await;
    let refused = server.try_map("x").await;
    assert_eq!(refused.code, 500);
    let text = refused.body["message"].as_str().unwrap();
    let start = "Internal error occurred: failed calling webhook \"bad.example.com\": received invalid webhook response: ";
    assert!(text.starts_with(start), "{text}");
    let gone = server.delete(&format!("{VALIDATING}/v"), Value::Null).await;
    assert_eq!(gone.code, 200, "no webhook is asked about webhooks: {}", gone.text);
    let nobody = json!({"failurePolicy": "Ignore", "clientConfig": {"service": {"namespace": "default", "name": "none"}, "caBundle": hooks.bundle}});
    server.hooks(VALIDATING, "v", vec![hook(&hooks, "ignored", nobody)]).await;
    assert_eq!(server.try_map("y").await.code, 201);
    let untrusted = json!({"clientConfig": {"url": format!("https://127.0.0.1:{}/x", hooks.port), "caBundle": hooks.bundle}});
    server.hooks(MUTATING, "m", vec![hook(&hooks, "untrusted", untrusted)]).await;
    let refused = server.try_map("z").await;
    assert!(refused.code == 500 && refused.text.contains("tls: "), "{}", refused.text);
}

#[tokio::test]
async fn a_slow_webhook_is_given_up() {
    let server = Server::start().await;
    let hooks = Hooks::start(|_, _| json!({"wait": true})).await;
    server.hooks(VALIDATING, "v", vec![hook(&hooks, "slow", json!({"timeoutSeconds": 1}))]).await;
    let refused = server.try_map("x").await;
    assert!(
        refused.text.contains("?timeout=1s") && refused.text.contains("context deadline exceeded"),
        "{}",
        refused.text
    );
}

#[tokio::test]
async fn a_service_leads_to_its_ready_endpoints() {
    let server = Server::start().await;
    let hooks = Hooks::start(|_, _| deny(json!({"message": "reached"}))).await;
    let service = json!({"metadata": {"name": "hook"}, "spec": {"ports": [{"name": "tls", "port": 443, "targetPort": 8443}]}});
    let made = server.post("/api/v1/namespaces/default/services", service).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let slice = json!({
        "metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}}, "addressType": "IPv4",
        "ports": [{"name": "tls", "port": hooks.port}],
        "endpoints": [
            {"addresses": ["127.0.0.9"], "conditions": {"ready": false}},
            {"addresses": ["127.0.0.1"], "conditions": {"ready": true}},
        ],
    });
    let config = json!({"clientConfig": {"service": {"namespace": "default", "name": "hook", "path": "/p"}, "caBundle": hooks.bundle}});
    server.hooks(VALIDATING, "v", vec![hook(&hooks, "service", config)]).await;
    let refused = server.try_map("x").await;
    assert!(refused.text.contains("no endpoints available for service \\\"hook\\\""), "{}", refused.text);
    let made = server.post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let refused = server.try_map("x").await;
    assert!(refused.code == 400 && refused.text.contains("reached"), "{}", refused.text);
    assert_eq!(hooks.calls(), ["/p"]);
}

#[tokio::test]
async fn selectors_conditions_and_dry_runs_decide_about_calls() {
    let server = Server::start().await;
    let hooks = Hooks::start(|_, _| deny(json!({}))).await;
    let narrow = json!({"objectSelector": {"matchLabels": {"watched": "yes"}},
        "matchConditions": [{"name": "c", "expression": "object.metadata.name.startsWith('x')"}]});
    server.hooks(VALIDATING, "v", vec![hook(&hooks, "narrow", narrow)]).await;
    assert_eq!(server.try_map("x").await.code, 201);
    let labelled = |name: &str| json!({"metadata": {"name": name, "labels": {"watched": "yes"}}});
    assert_eq!(server.post(MAPS, labelled("y")).await.code, 201);
    assert!(hooks.calls().is_empty());
    assert_eq!(server.post(&format!("{MAPS}?dryRun=All"), labelled("xx")).await.code, 400);
    assert_eq!(hooks.last()["dryRun"], true);
    let bad = json!({"metadata": {"name": "bad"}, "webhooks": [hook(&hooks, "a", json!({"sideEffects": "Some",
        "clientConfig": {"url": "http://x"}, "timeoutSeconds": 40}))]});
    let refused = server.post(VALIDATING, bad).await;
    for text in [
        "sideEffects: Unsupported value",
        "'https' is the only allowed URL scheme",
        "must be between 1 and 30 seconds",
    ] {
        assert!(refused.code == 422 && refused.text.contains(text), "{}", refused.text);
    }
}

#[tokio::test]
async fn tokens_and_reviews_are_admitted_like_objects() {
    let server = Server::start().await;
    let hooks = Hooks::start(|_, request| match request["subResource"].as_str() {
        Some("token") => deny(json!({"message": "no tokens"})),
        _ => patch(json!([{"op": "add", "path": "/spec/resourceAttributes/verb", "value": "patched"}])),
    })
    .await;
    let account = json!({"metadata": {"name": "web"}});
    assert_eq!(server.post("/api/v1/namespaces/default/serviceaccounts", account).await.code, 201);
    let token = "/api/v1/namespaces/default/serviceaccounts/web/token";
    assert_eq!(server.post(token, json!({"spec": {}})).await.code, 201);
    let rules = |group: &str, resource: &str| json!({"rules": [{"apiGroups": [group], "apiVersions": ["v1"], "resources": [resource], "operations": ["CREATE"]}]});
    let tokens = hook(&hooks, "tokens", rules("", "serviceaccounts/token"));
    let reviews = hook(&hooks, "reviews", rules("authorization.k8s.io", "selfsubjectaccessreviews"));
    server.hooks(VALIDATING, "v", vec![tokens]).await;
    server.hooks(MUTATING, "m", vec![reviews]).await;
    let refused = server.post(token, json!({"spec": {}})).await;
    assert!(
        refused.code == 400 && refused.text.contains("denied the request: no tokens"),
        "{}",
        refused.text
    );
    let shown = hooks.last();
    assert_eq!((&shown["kind"]["kind"], &shown["name"]), (&json!("TokenRequest"), &json!("web")));
    let ask = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let reviewed = server.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", ask).await;
    assert_eq!(reviewed.body["spec"]["resourceAttributes"]["verb"], "patched", "{}", reviewed.text);
}
