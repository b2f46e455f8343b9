//! Policies about what subresources are told in another kind than their object's, and what is counted of admission.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::client::{Answer, Client, Running};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// A policy in force about one resource.
async fn policy(admin: &Client, name: &str, group: &str, resource: &str, operation: &str, expression: &str) {
    let rules = json!([{"apiGroups": [group], "apiVersions": ["v1"],
        "operations": [operation], "resources": [resource]}]);
    let policy = json!({"metadata": {"name": name}, "spec": {"matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": expression, "message": name}]}});
    let binding =
        json!({"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}});
    for (kind, object) in
        [("validatingadmissionpolicies", policy), ("validatingadmissionpolicybindings", binding)]
    {
        let made = admin.post(&format!("/apis/admissionregistration.k8s.io/v1/{kind}"), &object).await;
        assert_eq!(made.code, StatusCode::CREATED, "{}", made.text());
    }
}

fn denied(answer: &Answer, by: &str) -> bool {
    let message = answer.json()["message"].as_str().unwrap_or_default().to_owned();
    message.contains(&format!("ValidatingAdmissionPolicy '{by}' with binding '{by}' denied request: {by}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scale_a_binding_and_an_eviction_are_judged_as_what_they_are() {
    let server = Running::start().await;
    let admin = server.admin(true).await;
    let template = json!({"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let web = json!({"metadata": {"name": "web"}, "spec": {"replicas": 1,
        "selector": {"matchLabels": {"app": "web"}}, "template": template}});
    assert_eq!(admin.post(DEPLOYMENTS, &web).await.code, StatusCode::CREATED);
    let account = "/api/v1/namespaces/default/serviceaccounts/default";
    admin.until(account, |found| found["kind"] == "ServiceAccount").await;
    for name in ["free", "held"] {
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        assert_eq!(admin.post(PODS, &pod).await.code, StatusCode::CREATED);
    }
    let small = "object.spec.replicas <= oldObject.spec.replicas + 2";
    policy(&admin, "step", "apps", "deployments/scale", "UPDATE", small).await;
    policy(&admin, "whole", "apps", "deployments", "UPDATE", "false").await;
    policy(&admin, "bind", "", "pods/binding", "CREATE", "object.target.name != 'off'").await;
    policy(&admin, "evict", "", "pods/eviction", "CREATE", "object.metadata.name != 'held'").await;

    let scale = format!("{DEPLOYMENTS}/web/scale");
    let scaled = |replicas: u32| json!({"metadata": {"name": "web"}, "spec": {"replicas": replicas}});
    let refused = admin.send(Method::PUT, &scale, Some(&scaled(4))).await;
    assert!(denied(&refused, "step"), "{}", refused.text());
    let done = admin.send(Method::PUT, &scale, Some(&scaled(3))).await;
    assert_eq!((done.code, &done.json()["spec"]["replicas"]), (StatusCode::OK, &json!(3)), "{}", done.text());
    let patch = admin.with_content("application/merge-patch+json");
    let refused = patch.send(Method::PATCH, &scale, Some(&json!({"spec": {"replicas": 6}}))).await;
    assert!(denied(&refused, "step"), "{}", refused.text());
    let patched = patch.send(Method::PATCH, &scale, Some(&json!({"spec": {"replicas": 5}}))).await;
    assert_eq!(patched.json()["spec"]["replicas"], 5);
    let whole = patch.send(Method::PATCH, &format!("{DEPLOYMENTS}/web"), Some(&scaled(1))).await;
    assert!(denied(&whole, "whole"), "the object itself is another matter: {}", whole.text());

    let bind = async |pod: &str, node: &str| {
        let binding = json!({"metadata": {"name": pod}, "target": {"kind": "Node", "name": node}});
        admin.post(&format!("{PODS}/{pod}/binding"), &binding).await
    };
    assert!(denied(&bind("free", "off").await, "bind"));
    assert_eq!(bind("free", "on").await.code, StatusCode::CREATED);
    let evict = async |pod: &str| {
        let eviction: Value =
            json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}});
        admin.post(&format!("{PODS}/{pod}/eviction"), &eviction).await
    };
    assert!(denied(&evict("held").await, "evict"));
    assert_eq!(evict("free").await.code, StatusCode::CREATED);

    let metrics = admin.get("/metrics").await.text();
    let counted = |labels: &str| {
        let line = format!("apiserver_admission_controller_admission_duration_seconds_count{{{labels}}}");
        metrics.lines().any(|found| found.starts_with(&line))
    };
    for labels in [
        r#"name="ValidatingAdmissionPolicy",type="validate",operation="UPDATE",rejected="true""#,
        r#"name="ServiceAccount",type="admit",operation="CREATE",rejected="false""#,
        r#"name="PodSecurity",type="validate",operation="CREATE",rejected="false""#,
    ] {
        assert!(counted(labels), "{labels} is not in {metrics}");
    }
    server.stop().await;
}
