//! FlowSchemas: those that are always there, and what a request is of.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::client::{Answer, Running};

const SCHEMAS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
const LEVELS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

fn dangling(schema: &Value) -> &Value {
    &schema["status"]["conditions"][0]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_objects_of_flow_control_are_there_and_stay() {
    let server = Running::start().await;
    let admin = server.admin(true).await;
    assert_eq!(
        names(&admin.get(SCHEMAS).await.json()),
        [
            "catch-all",
            "exempt",
            "global-default",
            "kube-controller-manager",
            "kube-scheduler",
            "kube-system-service-accounts",
            "probes",
            "service-accounts",
            "system-leader-election",
            "system-node-high",
            "system-nodes",
        ]
    );
    assert_eq!(names(&admin.get(LEVELS).await.json()).len(), 8);
    let path = |name: &str| format!("{SCHEMAS}/{name}");
    // One that goes comes back, and one that was changed too, unless somebody wants it so.
    assert_eq!(admin.send(Method::DELETE, &path("probes"), None).await.code, StatusCode::OK);
    admin.until(&path("probes"), |found| found["spec"]["matchingPrecedence"] == 2).await;
    let patch = admin.with_content("application/merge-patch+json");
    let mut change = json!({"spec": {"matchingPrecedence": 8000}});
    patch.send(Method::PATCH, &path("system-nodes"), Some(&change)).await;
    admin.until(&path("system-nodes"), |found| found["spec"]["matchingPrecedence"] == 500).await;
    change["metadata"] = json!({"annotations": {"apf.kubernetes.io/autoupdate-spec": "false"}});
    patch.send(Method::PATCH, &path("system-nodes"), Some(&change)).await;
    let found = admin.until(&path("catch-all"), |found| !dangling(found).is_null()).await;
    assert_eq!(
        (&dangling(&found)["reason"], &dangling(&found)["message"]),
        (
            &json!("Found"),
            &json!(
                "This FlowSchema references the PriorityLevelConfiguration object named \"catch-all\" and it exists"
            )
        )
    );
    let lost = json!({"metadata": {"name": "lost"}, "spec": {
        "priorityLevelConfiguration": {"name": "nowhere"}, "matchingPrecedence": 700,
        "rules": [{"subjects": [{"kind": "User", "user": {"name": "jane"}}],
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}]}]}});
    let made = admin.post(SCHEMAS, &lost).await;
    assert_eq!(made.code, StatusCode::CREATED, "{}", made.text());
    let lost = admin.until(&path("lost"), |found| dangling(found)["status"] == "True").await;
    assert_eq!(dangling(&lost)["reason"], "NotFound");
    let kept = admin.get(&path("system-nodes")).await.json();
    assert_eq!(kept["spec"]["matchingPrecedence"], 8000);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_says_what_it_was_of() {
    let server = Running::start().await;
    let admin = server.admin(true).await;
    let level = json!({"metadata": {"name": "testing"}, "spec": {"type": "Limited", "limited": {
        "nominalConcurrencyShares": 1, "limitResponse": {"type": "Reject"}}}});
    let schema = json!({"metadata": {"name": "testing"}, "spec": {
        "priorityLevelConfiguration": {"name": "testing"}, "matchingPrecedence": 1000,
        "rules": [{"subjects": [{"kind": "User", "user": {"name": "jane"}}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]}]}});
    let (level, schema) = (admin.post(LEVELS, &level).await, admin.post(SCHEMAS, &schema).await);
    let uid = |answer: &Answer| answer.json()["metadata"]["uid"].clone();
    let of = |answer: &Answer| {
        let text = |name: &str| json!(answer.headers[name].to_str().unwrap());
        (text("x-kubernetes-pf-flowschema-uid"), text("x-kubernetes-pf-prioritylevel-uid"))
    };
    let jane = admin.with_header("impersonate-user", "jane");
    assert_eq!(of(&jane.get("/api").await), (uid(&schema), uid(&level)));
    // What is refused is of something, too.
    let default = admin.get(&format!("{SCHEMAS}/global-default")).await;
    let refused = jane.get("/api/v1/nodes").await;
    assert_eq!((refused.code, of(&refused).0), (StatusCode::FORBIDDEN, uid(&default)));
    let metrics = admin.get("/metrics").await.text();
    for line in [
        "dispatched_requests_total{priority_level=\"testing\",flow_schema=\"testing\"} 1",
        "request_execution_seconds_count{priority_level=\"exempt\",flow_schema=\"exempt\",type=\"regular\"}",
    ] {
        assert!(metrics.contains(&format!("apiserver_flowcontrol_{line}")), "{line} is not in {metrics}");
    }
    server.stop().await;
}
