//! The controllers beside a real store, driven as a client would drive them.

use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::endpoints::tests::{Answer, Server};
use crate::lifecycle;

/// A server with its controllers.
pub(in crate::reconcile) struct Controlled {
    pub(in crate::reconcile) server: Server,
    over: CancellationToken,
    tasks: tokio_util::task::TaskTracker,
}

impl Controlled {
    pub(in crate::reconcile) async fn start() -> Self {
        let server = Server::start().await;
        let term = server.api.replica.leadership().borrow().term;
        let (over, tasks) = (CancellationToken::new(), tokio_util::task::TaskTracker::new());
        tasks.spawn(lifecycle::run(server.api.clone(), term, over.clone()));
        Self { server, over, tasks }
    }

    pub(in crate::reconcile) async fn stop(self) {
        self.over.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    pub(in crate::reconcile) async fn post(&self, path: &str, body: Value) -> Answer {
        let answer = self.server.post(path, body).await;
        assert_eq!(answer.code, 201, "{}", answer.text);
        answer
    }

    /// Waits until what is at `path` is so.
    pub(in crate::reconcile) async fn until(&self, path: &str, is: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        for _ in 0..500 {
            last = self.server.get(path).await.body;
            if is(&last) {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{path} stays {last:#}");
    }
}

fn items(list: &Value) -> usize {
    list["items"].as_array().map_or(0, Vec::len)
}

const PODS: &str = "/api/v1/namespaces/default/pods";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn workload(replicas: i64) -> Value {
    json!({"metadata": {"name": "web"}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_set_has_its_pods_says_why_not_and_takes_them_along() {
    let world = Controlled::start().await;
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}});
    world.post("/api/v1/namespaces/default/resourcequotas", quota).await;
    world.post(SETS, workload(3)).await;
    let path = format!("{SETS}/web");
    let set = world.until(&path, |set| set["status"]["conditions"][0]["type"] == "ReplicaFailure").await;
    assert_eq!(set["status"]["conditions"][0]["reason"], "FailedCreate");
    let message = set["status"]["conditions"][0]["message"].as_str().unwrap();
    assert!(message.contains("exceeded quota: q"), "{message}");
    world.until(PODS, |pods| items(pods) == 2).await;
    let merge = "application/merge-patch+json";
    world.server.patch(&path, merge, json!({"spec": {"replicas": 2}})).await;
    let settled = |set: &Value| {
        set["status"]["replicas"] == 2
            && set["status"]["conditions"].is_null()
            && set["status"]["observedGeneration"] == set["metadata"]["generation"]
    };
    world.until(&path, settled).await;
    let pods = world.server.get(PODS).await.body;
    let pod = &pods["items"][0];
    assert!(pod["metadata"]["name"].as_str().unwrap().starts_with("web-"));
    assert_eq!(pod["metadata"]["ownerReferences"][0]["controller"], true);
    assert_eq!(pod["spec"]["serviceAccountName"], "default");
    let events = world.server.get("/api/v1/namespaces/default/events").await.body;
    let reasons: Vec<_> = events["items"].as_array().unwrap().iter().map(|e| e["reason"].clone()).collect();
    assert!(reasons.contains(&json!("SuccessfulCreate")) && reasons.contains(&json!("FailedCreate")));
    world.server.delete(&path, Value::Null).await;
    world.until(PODS, |pods| items(pods) == 0).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_rolls_out_back_and_away() {
    let world = Controlled::start().await;
    world.post(DEPLOYMENTS, workload(2)).await;
    world.until(PODS, |pods| items(pods) == 2).await;
    let path = format!("{DEPLOYMENTS}/web");
    let is = |revision: &str| {
        let revision = json!(revision);
        move |deployment: &Value| {
            deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == revision
                && deployment["status"]["observedGeneration"] == deployment["metadata"]["generation"]
        }
    };
    world.until(&path, is("1")).await;
    let merge = "application/strategic-merge-patch+json";
    let image = |image: &str| json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}});
    world.server.patch(&path, merge, image("j")).await;
    world.until(&path, is("2")).await;
    assert_eq!(items(&world.server.get(SETS).await.body), 2);
    world.server.patch(&path, merge, image("i")).await;
    world.until(&path, is("3")).await;
    assert_eq!(items(&world.server.get(SETS).await.body), 2, "the first set is used again");
    world.server.delete(&path, Value::Null).await;
    world.until(SETS, |sets| items(sets) == 0).await;
    world.until(PODS, |pods| items(pods) == 0).await;
    world.stop().await;
}
