//! Deletion in one step and in two, preconditions, and collections.

use super::*;

#[tokio::test]
async fn a_delete_answers_a_success_and_the_object_is_gone() {
    let server = Server::start().await;
    let uid = server.config_map("a", json!({})).await.body["metadata"]["uid"].clone();
    let path = format!("{MAPS}/a");
    let dry =
        server.delete(&path, json!({"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]})).await;
    assert_eq!(dry.code, 200, "{}", dry.text);
    let wrong = server.delete(&path, json!({"preconditions": {"uid": "other"}})).await;
    assert!(wrong.code == 409 && wrong.text.contains("does not match the UID in record"), "{}", wrong.text);
    let wrong = server.delete(&path, json!({"preconditions": {"resourceVersion": "1"}})).await;
    assert_eq!(wrong.code, 409);
    let done = server.delete(&path, Value::Null).await;
    assert_eq!(done.code, 200);
    assert_eq!(done.body["status"], "Success");
    assert_eq!(done.body["details"], json!({"name": "a", "kind": "configmaps", "uid": uid}));
    assert_eq!(server.delete(&path, Value::Null).await.code, 404);
}

#[tokio::test]
async fn finalizers_keep_an_object_until_the_last_is_gone() {
    let server = Server::start().await;
    let body = json!({"metadata": {"name": "a", "finalizers": ["example.com/x", "example.com/y"]}});
    server.post(MAPS, body).await;
    let path = format!("{MAPS}/a");
    let marked = server.delete(&path, Value::Null).await;
    assert_eq!(marked.code, 200);
    assert!(marked.body["metadata"]["deletionTimestamp"].is_string(), "{}", marked.text);
    assert_eq!(marked.body["metadata"]["deletionGracePeriodSeconds"], 0);
    let again = server.delete(&path, Value::Null).await;
    assert_eq!(again.body["metadata"]["resourceVersion"], marked.body["metadata"]["resourceVersion"]);
    let taken = server.post(MAPS, json!({"metadata": {"name": "a"}})).await;
    assert!(
        taken.code == 409 && taken.text.contains("object is being deleted: configmaps"),
        "{}",
        taken.text
    );
    let merge = "application/merge-patch+json";
    let more = server
        .patch(&path, merge, json!({"metadata": {"finalizers": ["example.com/x", "example.com/z"]}}))
        .await;
    assert!(more.code == 422 && more.text.contains("no new finalizers can be added"), "{}", more.text);
    let undo = server.patch(&path, merge, json!({"metadata": {"deletionTimestamp": null}})).await;
    assert!(undo.body["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(
        server.patch(&path, merge, json!({"metadata": {"finalizers": ["example.com/y"]}})).await.code,
        200
    );
    assert_eq!(server.patch(&path, merge, json!({"metadata": {"finalizers": null}})).await.code, 200);
    assert_eq!(server.get(&path).await.code, 404);
}

#[tokio::test]
async fn propagation_is_left_to_the_garbage_collector() {
    let server = Server::start().await;
    for (policy, finalizer) in [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")] {
        let name = policy.to_lowercase();
        server.config_map(&name, json!({})).await;
        let marked = server.delete(&format!("{MAPS}/{name}"), json!({"propagationPolicy": policy})).await;
        assert_eq!(marked.body["metadata"]["finalizers"], json!([finalizer]), "{}", marked.text);
    }
    server.config_map("b", json!({})).await;
    let path = format!("{MAPS}/b?propagationPolicy=Background");
    assert_eq!(server.delete(&path, Value::Null).await.body["status"], "Success");
    let both = json!({"propagationPolicy": "Orphan", "orphanDependents": true});
    server.config_map("c", json!({})).await;
    let refused = server.delete(&format!("{MAPS}/c"), both).await;
    assert!(refused.code == 422 && refused.text.contains("cannot be both set"), "{}", refused.text);
    assert_eq!(server.delete(&format!("{MAPS}/c"), json!({"propagationPolicy": "Never"})).await.code, 422);
}

#[tokio::test]
async fn a_collection_goes_by_selector() {
    let server = Server::start().await;
    for (name, tier) in [("a", "web"), ("b", "db"), ("c", "web")] {
        server.config_map(name, json!({"tier": tier})).await;
    }
    let gone = server.delete(&format!("{MAPS}?labelSelector=tier%3Dweb"), Value::Null).await;
    assert_eq!(names(&gone.body), ["a", "c"], "{}", gone.text);
    assert_eq!(names(&server.get(MAPS).await.body), ["b"]);
}

#[tokio::test]
async fn a_namespace_waits_for_its_finalizer_and_takes_nothing_new() {
    let server = Server::start().await;
    let path = "/api/v1/namespaces";
    let created = server.post(path, json!({"metadata": {"name": "n"}})).await;
    assert_eq!(created.body["status"]["phase"], "Active");
    assert_eq!(created.body["metadata"]["labels"]["kubernetes.io/metadata.name"], "n");
    assert_eq!(server.delete("/api/v1/namespaces/default", Value::Null).await.code, 403);
    let marked = server.delete(&format!("{path}/n"), Value::Null).await;
    assert_eq!(marked.body["status"]["phase"], "Terminating", "{}", marked.text);
    let late = server.post("/api/v1/namespaces/n/configmaps", json!({"metadata": {"name": "a"}})).await;
    assert_eq!(late.code, 403);
    assert_eq!(late.body["details"]["causes"][0]["reason"], "NamespaceTerminating");
    let mut finalized = marked.body.clone();
    finalized["spec"]["finalizers"] = json!([]);
    let done = server.put(&format!("{path}/n/finalize"), finalized).await;
    assert_eq!(done.code, 200, "{}", done.text);
    assert_eq!(server.get(&format!("{path}/n")).await.code, 404);
}

#[tokio::test]
async fn a_pod_on_a_node_gets_its_grace() {
    let server = Server::start().await;
    let path = "/api/v1/namespaces/default/pods";
    let pod = |name: &str| json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let created = server.post(path, pod("a")).await;
    assert_eq!(created.code, 201, "{}", created.text);
    assert_eq!(created.body["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
    assert_eq!(created.body["spec"]["serviceAccountName"], "default");
    let binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}});
    let moved = server
        .patch(&format!("{path}/a"), "application/merge-patch+json", r#"{"spec": {"nodeName": "n1"}}"#)
        .await;
    assert_eq!((moved.code, moved.text.contains("spec.nodeName")), (422, true), "{}", moved.text);
    let bound = server.post(&format!("{path}/a/binding"), binding.clone()).await;
    assert_eq!(bound.code, 201, "{}", bound.text);
    assert_eq!(server.get(&format!("{path}/a")).await.body["metadata"]["generation"], 1);
    assert_eq!(server.post(&format!("{path}/a/binding"), binding.clone()).await.code, 409);
    assert_eq!(server.post("/api/v1/namespaces/default/bindings", binding).await.code, 409);
    assert_eq!(names(&server.get(&format!("{path}?fieldSelector=spec.nodeName%3Dn1")).await.body), ["a"]);
    let marked = server.delete(&format!("{path}/a"), Value::Null).await;
    assert_eq!(marked.body["metadata"]["deletionGracePeriodSeconds"], 30, "{}", marked.text);
    assert_eq!(server.get(&format!("{path}/a")).await.code, 200);
    server.delete(&format!("{path}/a"), json!({"gracePeriodSeconds": 0})).await;
    assert_eq!(server.get(&format!("{path}/a")).await.code, 404);
    let mut patient = pod("c");
    patient["spec"]["terminationGracePeriodSeconds"] = json!(300_000_000_000_i64);
    patient["spec"]["nodeName"] = json!("n1");
    server.post(path, patient).await;
    let marked = server.delete(&format!("{path}/c"), Value::Null).await;
    assert_eq!(marked.body["metadata"]["deletionTimestamp"], "9999-12-30T22:00:00Z", "{}", marked.text);
    server.post(path, pod("b")).await;
    let evicted = server.post(&format!("{path}/b/eviction"), json!({"metadata": {"name": "b"}})).await;
    assert_eq!(evicted.code, 201, "{}", evicted.text);
    assert_eq!(server.get(&format!("{path}/b")).await.code, 404);
}
