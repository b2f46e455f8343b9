//! Quotas over a real store, also with many writers at once.

use serde_json::{Value, json};

use crate::endpoints::tests::{MAPS, Server};

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const PODS: &str = "/api/v1/namespaces/default/pods";

async fn limited(hard: Value) -> Server {
    let server = Server::start().await;
    let made = server.post(QUOTAS, json!({"metadata": {"name": "q"}, "spec": {"hard": hard}})).await;
    assert_eq!(made.code, 201, "{}", made.text);
    server
}

fn pod(name: &str, cpu: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [
        {"name": "c", "image": "i", "resources": {"requests": cpu}},
    ]}})
}

#[tokio::test]
async fn parallel_writers_never_exceed_a_quota_together() {
    let server = limited(json!({"configmaps": "5"})).await;
    let body = |index: usize| json!({"metadata": {"name": format!("m{index}")}});
    let writes = (0..24).map(|index| server.post(MAPS, body(index)));
    let answers = futures::future::join_all(writes).await;
    let made = answers.iter().filter(|answer| answer.code == 201).count();
    assert_eq!(made, 5);
    let refused = answers.iter().find(|answer| answer.code != 201).unwrap();
    let text = refused.body["message"].as_str().unwrap();
    assert!(text.ends_with("is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=5, limited: configmaps=5"), "{text}");
    let quota = server.get(&format!("{QUOTAS}/q")).await.body;
    assert_eq!(quota["status"], json!({"hard": {"configmaps": "5"}, "used": {"configmaps": "5"}}));
}

#[tokio::test]
async fn what_was_deleted_is_free_again_and_dry_runs_cost_nothing() {
    let server = limited(json!({"count/configmaps": "1"})).await;
    let dry = server.post(&format!("{MAPS}?dryRun=All"), json!({"metadata": {"name": "a"}})).await;
    assert_eq!(dry.code, 201, "{}", dry.text);
    assert_eq!(server.post(MAPS, json!({"metadata": {"name": "a"}})).await.code, 201);
    assert_eq!(server.post(MAPS, json!({"metadata": {"name": "b"}})).await.code, 403);
    assert_eq!(
        server.post(&format!("{MAPS}?dryRun=All"), json!({"metadata": {"name": "b"}})).await.code,
        403
    );
    assert_eq!(server.delete(&format!("{MAPS}/a"), Value::Null).await.code, 200);
    assert_eq!(server.post(MAPS, json!({"metadata": {"name": "b"}})).await.code, 201);
}

#[tokio::test]
async fn pods_must_say_what_is_counted() {
    let server = limited(json!({"requests.cpu": "1", "pods": "9"})).await;
    let silent = server.post(PODS, pod("p", json!({}))).await;
    assert_eq!(
        silent.body["message"],
        "pods \"p\" is forbidden: failed quota: q: must specify requests.cpu for: c"
    );
    let made = server.post(PODS, pod("p", json!({"cpu": "700m"}))).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let much = server.post(PODS, pod("q", json!({"cpu": "400m"}))).await;
    assert_eq!(
        much.body["message"],
        "pods \"q\" is forbidden: exceeded quota: q, requested: requests.cpu=400m, used: requests.cpu=700m, limited: requests.cpu=1"
    );
}

#[tokio::test]
async fn a_scoped_quota_counts_only_what_is_in_its_scope() {
    let server = Server::start().await;
    let spec = json!({"hard": {"pods": "0"}, "scopes": ["BestEffort"]});
    assert_eq!(server.post(QUOTAS, json!({"metadata": {"name": "q"}, "spec": spec})).await.code, 201);
    assert_eq!(server.post(PODS, pod("p", json!({"cpu": "1"}))).await.code, 201);
    assert_eq!(server.post(PODS, pod("q", json!({}))).await.code, 403);
    assert_eq!(server.post(MAPS, json!({"metadata": {"name": "a"}})).await.code, 201);
}
