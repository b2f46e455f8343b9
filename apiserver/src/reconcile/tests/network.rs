//! Services, their endpoints and budgets beside a real store, as clients see them.

use serde_json::{Value, json};

use super::server::Controlled;

const NAMESPACE: &str = "/api/v1/namespaces/default";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const MERGE: &str = "application/merge-patch+json";

fn items(list: &Value) -> &[Value] {
    list["items"].as_array().map(Vec::as_slice).unwrap_or_default()
}

impl Controlled {
    /// A pod with the label `app: web` on node `n1`, which says that it is ready.
    async fn pod(&self, name: &str, ip: &str) {
        let pod = json!({
            "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"name": "http", "containerPort": 8080}]}]},
        });
        self.post(&format!("{NAMESPACE}/pods"), pod).await;
        let binding = json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}});
        self.post(&format!("{NAMESPACE}/pods/{name}/binding"), binding).await;
        let status = json!({
            "phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": "True"}],
        });
        self.status(name, status).await;
    }

    async fn status(&self, pod: &str, status: Value) {
        let path = format!("{NAMESPACE}/pods/{pod}/status");
        let answer = self.server.patch(&path, MERGE, json!({"status": status})).await;
        assert_eq!(answer.code, 200, "{}", answer.text);
    }

    async fn evict(&self, pod: &str, query: &str) -> (u16, Value) {
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}});
        let answer = self.server.post(&format!("{NAMESPACE}/pods/{pod}/eviction{query}"), eviction).await;
        (answer.code, answer.body)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_has_endpoints_and_slices_while_it_is_there() {
    let world = Controlled::start().await;
    world.post("/api/v1/nodes", json!({"metadata": {"name": "n1"}})).await;
    let spec = json!({"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]});
    world.post(&format!("{NAMESPACE}/services"), json!({"metadata": {"name": "web"}, "spec": spec})).await;
    world.until(SLICES, |list| items(list).len() == 1).await;
    world.pod("a", "10.42.0.1").await;
    let ready = |list: &Value| {
        let endpoint = &items(list)[0]["endpoints"][0];
        endpoint["conditions"]["ready"] == true && endpoint["addresses"] == json!(["10.42.0.1"])
    };
    let slices = world.until(SLICES, ready).await;
    assert_eq!(items(&slices)[0]["ports"], json!([{"name": "", "port": 8080, "protocol": "TCP"}]));
    let endpoints = world.until(&format!("{NAMESPACE}/endpoints/web"), |e| e["subsets"].is_array()).await;
    assert_eq!(endpoints["subsets"][0]["addresses"][0]["ip"], "10.42.0.1");
    world.status("a", json!({"conditions": [{"type": "Ready", "status": "False"}]})).await;
    world.until(SLICES, |list| items(list)[0]["endpoints"][0]["conditions"]["ready"] == false).await;
    world.server.delete(&format!("{NAMESPACE}/services/web"), Value::Null).await;
    world.until(SLICES, |list| items(list).is_empty()).await;
    world.until(&format!("{NAMESPACE}/endpoints"), |list| items(list).is_empty()).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_written_by_hand_are_mirrored_while_they_are_there() {
    let world = Controlled::start().await;
    let spec = json!({"ports": [{"port": 5432}]});
    world.post(&format!("{NAMESPACE}/services"), json!({"metadata": {"name": "db"}, "spec": spec})).await;
    let subsets = json!([{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 5432}]}]);
    let endpoints = json!({"metadata": {"name": "db"}, "subsets": subsets});
    world.post(&format!("{NAMESPACE}/endpoints"), endpoints).await;
    let mirror = world.until(SLICES, |list| items(list).len() == 1).await;
    assert_eq!(items(&mirror)[0]["endpoints"][0]["addresses"], json!(["192.0.2.1"]));
    let path = format!("{NAMESPACE}/endpoints/db");
    let subsets = json!([{"addresses": [{"ip": "192.0.2.2"}], "ports": [{"port": 5432}]}]);
    world.server.patch(&path, MERGE, json!({"subsets": subsets})).await;
    let follows = |list: &Value| items(list)[0]["endpoints"][0]["addresses"] == json!(["192.0.2.2"]);
    world.until(SLICES, follows).await;
    world.server.delete(&path, Value::Null).await;
    world.until(SLICES, |list| items(list).is_empty()).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn evictions_take_no_more_than_the_budget_has() {
    let world = Controlled::start().await;
    world.post("/api/v1/nodes", json!({"metadata": {"name": "n1"}})).await;
    for (name, ip) in [("a", "10.42.0.1"), ("b", "10.42.0.2"), ("c", "10.42.0.3")] {
        world.pod(name, ip).await;
    }
    let budget = |name: &str, spec: Value| {
        let mut budget = json!({"metadata": {"name": name}, "spec": spec});
        budget["spec"]["selector"] = json!({"matchLabels": {"app": "web"}});
        budget
    };
    world.post(BUDGETS, budget("web", json!({"minAvailable": 2}))).await;
    let path = format!("{BUDGETS}/web");
    world.until(&path, |budget| budget["status"]["disruptionsAllowed"] == 1).await;
    assert_eq!(world.evict("a", "?dryRun=All").await.0, 201);
    assert_eq!(world.server.get(&path).await.body["status"]["disruptionsAllowed"], 1, "a dry run is free");
    let answers = futures::future::join_all(["a", "b", "c"].map(|pod| world.evict(pod, ""))).await;
    let codes: Vec<u16> = answers.iter().map(|(code, _)| *code).collect();
    assert_eq!(codes.iter().filter(|code| **code == 201).count(), 1, "{answers:?}");
    let (_, refusal) = answers.iter().find(|(code, _)| *code == 429).unwrap();
    assert_eq!(refusal["message"], "Cannot evict pod as it would violate the pod's disruption budget.");
    assert_eq!(refusal["details"]["causes"][0]["reason"], "DisruptionBudget");
    let gone =
        |budget: &Value| budget["status"]["currentHealthy"] == 2 && budget["status"]["expectedPods"] == 3;
    world.until(&path, gone).await;
    let evicted = ["a", "b", "c"][codes.iter().position(|code| *code == 201).unwrap()];
    let kept = ["a", "b", "c"][codes.iter().position(|code| *code == 429).unwrap()];
    let pod = world.server.get(&format!("{NAMESPACE}/pods/{evicted}")).await.body;
    assert!(pod["metadata"]["deletionTimestamp"].is_string());
    let conditions = pod["status"]["conditions"].as_array().unwrap();
    assert!(
        conditions.iter().any(|c| c["type"] == "DisruptionTarget" && c["reason"] == "EvictionByEvictionAPI")
    );
    let (code, refusal) = world.evict(kept, "").await;
    assert_eq!(
        (code, &refusal["details"]["causes"][0]["message"]),
        (429, &json!("The disruption budget web needs 2 healthy pods and has 2 currently"),)
    );
    // A pod that is not ready is in nobody's way.
    world.status(kept, json!({"conditions": [{"type": "Ready", "status": "False"}]})).await;
    world.until(&path, |budget| budget["status"]["currentHealthy"] == 1).await;
    assert_eq!(world.evict(kept, "").await.0, 429, "too few are healthy");
    world.server.patch(&path, MERGE, json!({"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}})).await;
    assert_eq!(world.evict(kept, "").await.0, 201);
    world.post(BUDGETS, budget("second", json!({"maxUnavailable": 1}))).await;
    let last = ["a", "b", "c"].into_iter().find(|pod| *pod != evicted && *pod != kept).unwrap();
    let (code, refusal) = world.evict(last, "").await;
    assert_eq!(code, 500);
    assert_eq!(
        refusal["message"],
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    );
    world.stop().await;
}
