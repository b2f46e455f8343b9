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
        tasks.spawn(crate::reconcile::run(server.api.clone(), term, over.clone()));
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

/// Whoever runs the pods says that they are ready.
async fn make_ready(world: &Controlled) {
    let pods = world.server.get(PODS).await.body;
    for pod in pods["items"].as_array().unwrap() {
        let path = format!("{PODS}/{}/status", pod["metadata"]["name"].as_str().unwrap());
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00Z"});
        let status = json!({"status": {"phase": "Running", "conditions": [ready]}});
        assert_eq!(world.server.patch(&path, "application/merge-patch+json", status).await.code, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stateful_set_grows_in_order_shrinks_and_is_taken_over() {
    let world = Controlled::start().await;
    let path = "/apis/apps/v1/namespaces/default/statefulsets";
    let mut set = workload(2);
    set["spec"]["volumeClaimTemplates"] = json!([{
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }]);
    world.post(path, set.clone()).await;
    world.until(PODS, |pods| items(pods) == 1).await;
    make_ready(&world).await;
    world.until(PODS, |pods| items(pods) == 2 && pods["items"][1]["metadata"]["name"] == "web-1").await;
    make_ready(&world).await;
    let web = format!("{path}/web");
    let settled = world.until(&web, |set| set["status"]["availableReplicas"] == 2).await;
    assert_eq!(settled["status"]["currentRevision"], settled["status"]["updateRevision"]);
    let scale = json!({"spec": {"replicas": 1}});
    let answer = world.server.patch(&format!("{web}/scale"), "application/merge-patch+json", scale).await;
    assert_eq!(answer.code, 200, "{}", answer.text);
    world.until(PODS, |pods| items(pods) == 1).await;
    let claims = world.server.get("/api/v1/namespaces/default/persistentvolumeclaims").await.body;
    assert_eq!(items(&claims), 2, "the data of the second stays");
    world.server.delete(&format!("{web}?propagationPolicy=Orphan"), Value::Null).await;
    let orphan = |pods: &Value| pods["items"][0]["metadata"]["ownerReferences"].is_null();
    world.until(PODS, |pods| items(pods) == 1 && orphan(pods)).await;
    world.until(&web, |set| set["code"] == 404).await;
    set["spec"]["replicas"] = json!(1);
    world.post(path, set).await;
    world.until(PODS, |pods| items(pods) == 1 && !orphan(pods)).await;
    world.server.delete(&format!("{web}?propagationPolicy=Foreground"), Value::Null).await;
    world.until(path, |sets| items(sets) == 0).await;
    assert_eq!(items(&world.server.get(PODS).await.body), 0);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_set_follows_the_nodes() {
    let world = Controlled::start().await;
    let path = "/apis/apps/v1/namespaces/default/daemonsets";
    let mut set = workload(0);
    set["spec"].as_object_mut().unwrap().remove("replicas");
    world.post(path, set).await;
    for node in ["n1", "n2"] {
        world.post("/api/v1/nodes", json!({"metadata": {"name": node}})).await;
    }
    world.until(PODS, |pods| items(pods) == 2).await;
    make_ready(&world).await;
    let web = format!("{path}/web");
    world.until(&web, |set| set["status"]["numberAvailable"] == 2).await;
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "j"}]}}}});
    world.server.patch(&web, "application/strategic-merge-patch+json", image).await;
    // One node at a time: the second waits until the first is ready.
    world.until(&web, |set| set["status"]["updatedNumberScheduled"] == 1).await;
    world.until(PODS, |pods| items(pods) == 2).await;
    make_ready(&world).await;
    world.until(&web, |set| set["status"]["updatedNumberScheduled"] == 2).await;
    world.server.delete("/api/v1/nodes/n2", Value::Null).await;
    world.until(PODS, |pods| items(pods) == 1).await;
    let revisions = "/apis/apps/v1/namespaces/default/controllerrevisions";
    assert_eq!(items(&world.server.get(revisions).await.body), 2);
    world.server.delete(&web, Value::Null).await;
    world.until(PODS, |pods| items(pods) == 0).await;
    world.until(revisions, |kept| items(kept) == 0).await;
    world.stop().await;
}

/// Whoever runs the pods says that they have ended.
async fn end_all(world: &Controlled, phase: &str) {
    let pods = world.server.get(PODS).await.body;
    for pod in pods["items"].as_array().unwrap() {
        let path = format!("{PODS}/{}/status", pod["metadata"]["name"].as_str().unwrap());
        let status = json!({"status": {"phase": phase}});
        assert_eq!(world.server.patch(&path, "application/merge-patch+json", status).await.code, 200);
    }
}

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

#[tokio::test(flavor = "multi_thread")]
async fn a_job_completes_and_every_way_to_delete_it_frees_its_pods() {
    let world = Controlled::start().await;
    let spec = json!({
        "completions": 2, "parallelism": 2,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
    });
    for (name, propagation) in [("a", "Background"), ("b", "Foreground"), ("c", "Orphan")] {
        world.post(JOBS, json!({"metadata": {"name": name}, "spec": spec})).await;
        world.until(PODS, |pods| items(pods) == 2).await;
        let job = format!("{JOBS}/{name}");
        if name == "a" {
            end_all(&world, "Succeeded").await;
            let done = world.until(&job, |job| job["status"]["conditions"][1]["type"] == "Complete").await;
            assert_eq!(done["status"]["succeeded"], 2);
        }
        world.server.delete(&format!("{job}?propagationPolicy={propagation}"), Value::Null).await;
        world.until(JOBS, |jobs| items(jobs) == 0).await;
        if propagation == "Orphan" {
            let free = |pod: &Value| pod["metadata"]["finalizers"].is_null();
            world
                .until(PODS, |pods| items(pods) == 2 && pods["items"].as_array().unwrap().iter().all(free))
                .await;
        } else {
            world.until(PODS, |pods| items(pods) == 0).await;
        }
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cron_job_starts_jobs_and_cannot_be_misread() {
    let world = Controlled::start().await;
    let path = "/apis/batch/v1/namespaces/default/cronjobs";
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let cron = |schedule: &str, zone: Value| {
        let spec =
            json!({"schedule": schedule, "timeZone": zone, "jobTemplate": {"spec": {"template": template}}});
        json!({"metadata": {"name": "tick"}, "spec": spec})
    };
    for (schedule, zone, wanted) in [
        (
            "* * * * 8",
            json!(null),
            "spec.schedule: Invalid value: \"* * * * 8\": end of range (8) above maximum (6): 8",
        ),
        (
            "* * * * *",
            json!("Mars/Olympus"),
            "spec.timeZone: Invalid value: \"Mars/Olympus\": unknown time zone Mars/Olympus",
        ),
    ] {
        let refused = world.server.post(path, cron(schedule, zone)).await;
        assert_eq!(refused.code, 422);
        assert!(refused.text.replace('\\', "").contains(wanted), "{}", refused.text);
    }
    world.post(path, cron("@every 1s", json!("Europe/Berlin"))).await;
    let started =
        world.until(&format!("{path}/tick"), |cron| cron["status"]["active"][0]["kind"] == "Job").await;
    let name = started["status"]["active"][0]["name"].as_str().unwrap().to_owned();
    assert!(name.starts_with("tick-"));
    world.until(PODS, |pods| items(pods) >= 1).await;
    world.server.delete(&format!("{path}/tick"), Value::Null).await;
    world.until(JOBS, |jobs| items(jobs) == 0).await;
    world.until(PODS, |pods| items(pods) == 0).await;
    world.stop().await;
}
