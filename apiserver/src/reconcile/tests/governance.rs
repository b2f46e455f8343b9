//! Quotas and token Secrets beside a real store, as clients see them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::server::Controlled;

const NAMESPACE: &str = "/api/v1/namespaces/default";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

#[tokio::test(flavor = "multi_thread")]
async fn the_status_of_a_quota_captures_the_life_of_what_it_counts() {
    let world = Controlled::start().await;
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    world.post(DEFINITIONS, definition).await;
    let hard = json!({"count/widgets.example.com": "1", "secrets": "9", "requests.cpu": "2"});
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": hard}});
    world.post(&format!("{NAMESPACE}/resourcequotas"), quota).await;
    let path = format!("{NAMESPACE}/resourcequotas/q");
    let used = |widgets: &str, secrets: &str| {
        let used = json!({"count/widgets.example.com": widgets, "secrets": secrets, "requests.cpu": "0"});
        move |quota: &Value| quota["status"]["used"] == used
    };
    world.until(&path, used("0", "0")).await;
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    world
        .post(widgets, json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}))
        .await;
    world.post(&format!("{NAMESPACE}/secrets"), json!({"metadata": {"name": "s"}})).await;
    world.until(&path, used("1", "1")).await;
    let second = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "x"}});
    assert_eq!(world.server.post(widgets, second).await.code, 403);
    world.server.delete(&format!("{widgets}/w"), Value::Null).await;
    world.server.delete(&format!("{NAMESPACE}/secrets/s"), Value::Null).await;
    world.until(&path, used("0", "0")).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_secret_is_good_until_its_account_goes() {
    let world = Controlled::start().await;
    let accounts = format!("{NAMESPACE}/serviceaccounts");
    world.post(&accounts, json!({"metadata": {"name": "robot"}})).await;
    let annotations = json!({"kubernetes.io/service-account.name": "robot"});
    let secret = json!({
        "metadata": {"name": "t", "annotations": annotations}, "type": "kubernetes.io/service-account-token",
    });
    world.post(&format!("{NAMESPACE}/secrets"), secret).await;
    let path = format!("{NAMESPACE}/secrets/t");
    let secret = world.until(&path, |secret| secret["data"]["token"].is_string()).await;
    let token = STANDARD.decode(secret["data"]["token"].as_str().unwrap()).unwrap();
    let token = String::from_utf8(token).unwrap();
    let api = &world.server.api;
    let verified = || api.issuer.verify(&token, &[], &api.replica.view(), api.clock.now().as_second());
    assert_eq!(verified().unwrap().user.name, "system:serviceaccount:default:robot");
    world.server.delete(&format!("{accounts}/robot"), Value::Null).await;
    world.until(&path, |secret| secret["code"] == 404).await;
    assert!(verified().is_err());
    world.stop().await;
}
