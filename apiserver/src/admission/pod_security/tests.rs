//! Pods against the levels, in the words of upstream's admission.

use serde_json::{Value, json};

use crate::endpoints::tests::Server;

const PODS: &str = "/api/v1/namespaces/default/pods";

fn pod(name: &str, spec: Value) -> Value {
    let mut spec = spec;
    if spec["containers"].is_null() {
        spec["containers"] = json!([{"name": "c", "image": "i"}]);
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

fn hardened() -> Value {
    json!({
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "c", "image": "i", "securityContext":
            {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}],
    })
}

async fn labelled(labels: Value) -> Server {
    let server = Server::start().await;
    let body = json!({"metadata": {"labels": labels}});
    let patched = server.patch("/api/v1/namespaces/default", "application/merge-patch+json", body).await;
    assert_eq!(patched.code, 200, "{}", patched.text);
    server
}

#[tokio::test]
async fn restricted_says_all_that_is_missing() {
    let server = labelled(json!({"pod-security.kubernetes.io/enforce": "restricted"})).await;
    let refused = server.post(PODS, pod("p", json!({}))).await;
    let text = "pods \"p\" is forbidden: violates PodSecurity \"restricted:latest\": \
        allowPrivilegeEscalation != false (container \"c\" must set securityContext.allowPrivilegeEscalation=false), \
        unrestricted capabilities (container \"c\" must set securityContext.capabilities.drop=[\"ALL\"]), \
        runAsNonRoot != true (pod or container \"c\" must set securityContext.runAsNonRoot=true), \
        seccompProfile (pod or container \"c\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")";
    assert_eq!((refused.code, &refused.body["message"]), (403, &json!(text)));
    let made = server.post(PODS, pod("p", hardened())).await;
    assert_eq!(made.code, 201, "{}", made.text);
}

#[tokio::test]
async fn baseline_keeps_pods_off_the_node() {
    let server = labelled(json!({"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/enforce-version": "v1.30"})).await;
    assert_eq!(server.post(PODS, pod("plain", json!({}))).await.code, 201);
    let bad = json!({
        "hostNetwork": true, "hostPID": true, "volumes": [{"name": "v", "hostPath": {"path": "/"}}],
        "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}],
            "securityContext": {"privileged": true, "capabilities": {"add": ["NET_ADMIN", "CHOWN"]}}}],
    });
    let refused = server.post(PODS, pod("p", bad)).await;
    let text = "pods \"p\" is forbidden: violates PodSecurity \"baseline:v1.30\": \
        non-default capabilities (container \"c\" must not include \"NET_ADMIN\" in securityContext.capabilities.add), \
        host namespaces (hostNetwork=true, hostPID=true), hostPath volumes (volume \"v\"), \
        hostPort (container \"c\" uses hostPort 80), \
        privileged (container \"c\" must not set securityContext.privileged=true)";
    assert_eq!((refused.code, &refused.body["message"]), (403, &json!(text)));
}

#[tokio::test]
async fn workloads_are_warned_about_and_never_refused() {
    let labels = json!({"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted"});
    let server = labelled(labels).await;
    let labels = json!({"app": "a"});
    let mut template = pod("", json!({}));
    template["metadata"] = json!({"labels": labels});
    let body = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": labels}, "template": template}});
    let made = server.post("/apis/apps/v1/namespaces/default/deployments", body).await;
    assert_eq!(made.code, 201, "{}", made.text);
    assert!(
        made.warnings.iter().any(|w| w.starts_with("would violate PodSecurity \"restricted:latest\": ")),
        "{:?}",
        made.warnings
    );
}

#[tokio::test]
async fn a_pod_that_was_let_in_before_may_be_labelled_and_finished() {
    let server = Server::start().await;
    let mut older = pod("p", json!({"hostNetwork": true}));
    older["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let made = server.post(PODS, older).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let merge = "application/merge-patch+json";
    let labels = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    assert_eq!(server.patch("/api/v1/namespaces/default", merge, labels).await.code, 200);
    let path = format!("{PODS}/p");
    for metadata in [json!({"labels": {"a": "b"}}), json!({"finalizers": null})] {
        let patched = server.patch(&path, merge, json!({"metadata": metadata})).await;
        assert_eq!(patched.code, 200, "{}", patched.text);
    }
    let image = json!([{"op": "replace", "path": "/spec/containers/0/image", "value": "other"}]);
    assert_eq!(server.patch(&path, "application/json-patch+json", image).await.code, 403);
}
