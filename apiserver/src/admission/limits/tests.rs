//! Limits over a real store.

use serde_json::{Value, json};

use crate::endpoints::tests::Server;

const PODS: &str = "/api/v1/namespaces/default/pods";

async fn limited(item: Value) -> Server {
    let server = Server::start().await;
    let body = json!({"metadata": {"name": "l"}, "spec": {"limits": [item]}});
    let made = server.post("/api/v1/namespaces/default/limitranges", body).await;
    assert_eq!(made.code, 201, "{}", made.text);
    server
}

fn pod(resources: Value) -> Value {
    json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]}})
}

#[tokio::test]
async fn containers_get_what_they_do_not_say() {
    let server = limited(json!({"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "500m", "memory": "64Mi"}})).await;
    let made = server.post(PODS, pod(json!({}))).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let resources = json!({"requests": {"cpu": "500m", "memory": "64Mi"}, "limits": {"cpu": "1"}});
    assert_eq!(made.body["spec"]["containers"][0]["resources"], resources);
    let told = "LimitRanger plugin set: cpu, memory request for container c; cpu limit for container c";
    assert_eq!(made.body["metadata"]["annotations"]["kubernetes.io/limit-ranger"], told);
}

#[tokio::test]
async fn what_is_outside_the_limits_is_refused() {
    let server = limited(json!({"type": "Container", "min": {"cpu": "100m"}, "max": {"memory": "1Gi"}, "maxLimitRequestRatio": {"cpu": "2"}})).await;
    let body =
        pod(json!({"requests": {"cpu": "50m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "2Gi"}}));
    let refused = server.post(PODS, body).await;
    let text = "pods \"p\" is forbidden: [minimum cpu usage per Container is 100m, but request is 50m, \
        maximum memory usage per Container is 1Gi, but limit is 2Gi, \
        cpu max limit to request ratio per Container is 2, but provided ratio is 20.000000]";
    assert_eq!((refused.code, &refused.body["message"]), (403, &json!(text)));
}

#[tokio::test]
async fn a_pod_gets_the_priority_of_its_class() {
    let server = Server::start().await;
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let class = json!({"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"});
    assert_eq!(server.post(classes, class).await.code, 201);
    let mut body = pod(json!({}));
    body["spec"]["priorityClassName"] = json!("high");
    let made = server.post(PODS, body.clone()).await;
    assert_eq!(
        (&made.body["spec"]["priority"], &made.body["spec"]["preemptionPolicy"]),
        (&json!(1000), &json!("Never")),
        "{}",
        made.text
    );
    body["metadata"]["name"] = json!("q");
    body["spec"]["priority"] = json!(5);
    assert_eq!(server.post(PODS, body.clone()).await.code, 403);
    body["spec"]["priorityClassName"] = json!("none");
    let refused = server.post(PODS, body).await;
    assert_eq!(refused.body["message"], "pods \"q\" is forbidden: no PriorityClass with name none was found");
}
