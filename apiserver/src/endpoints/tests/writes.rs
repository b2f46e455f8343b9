//! Creates, updates and patches: what is set, what is refused, and what changes nothing.

use super::*;

#[tokio::test]
async fn a_create_sets_what_only_the_server_sets() {
    let server = Server::start().await;
    let body = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"},
        "metadata": {"name": "a", "uid": "mine", "creationTimestamp": null, "deletionTimestamp": "2020-01-01T00:00:00Z", "generation": 9},
    });
    let answer = server.post(MAPS, body.clone()).await;
    assert_eq!(answer.code, 201, "{}", answer.text);
    let metadata = &answer.body["metadata"];
    assert_ne!(metadata["uid"], "mine");
    assert_eq!(metadata["namespace"], "default");
    assert!(metadata["creationTimestamp"].is_string() && metadata["deletionTimestamp"].is_null());
    assert_eq!(metadata["managedFields"][0]["manager"], "tester");
    assert_eq!(metadata["managedFields"][0]["operation"], "Update");
    let again = server.post(MAPS, body).await;
    assert_eq!((again.code, &again.body["reason"]), (409, &json!("AlreadyExists")));
    assert_eq!(again.body["message"], "configmaps \"a\" already exists");
    assert_eq!(server.get(&format!("{MAPS}/a")).await.body, answer.body);
}

#[tokio::test]
async fn bad_creates_are_refused_in_upstreams_words() {
    let server = Server::start().await;
    let cases = [
        (
            MAPS,
            json!({"metadata": {"name": "a", "namespace": "other"}}),
            400,
            "does not match the namespace sent on the request",
        ),
        (MAPS, json!({"metadata": {}}), 422, "name or generateName is required"),
        (MAPS, json!({"metadata": {"name": "A_b"}}), 422, "metadata.name: Invalid value: \"A_b\""),
        (
            MAPS,
            json!({"metadata": {"name": "a"}, "apiVersion": "v2"}),
            400,
            "does not match the expected API version (v1)",
        ),
        (MAPS, json!({"metadata": {"name": "a"}, "kind": "Pod"}), 400, "cannot be handled as a ConfigMap"),
        (
            MAPS,
            json!({"metadata": {"name": "a", "resourceVersion": "1"}}),
            500,
            "should not be set on objects to be created",
        ),
        (MAPS, json!({"metadata": {"name": "a"}, "data": {"": "b"}}), 422, "data[]"),
        (
            "/api/v1/namespaces/none/configmaps",
            json!({"metadata": {"name": "a"}}),
            404,
            "namespaces \"none\" not found",
        ),
        (MAPS, json!([]), 400, "must be of type ConfigMap"),
    ];
    for (path, body, code, text) in cases {
        let answer = server.post(path, body.clone()).await;
        assert_eq!(answer.code, code, "{body}: {}", answer.text);
        assert!(
            answer.body["message"].as_str().unwrap().contains(text),
            "{body}: {}",
            answer.body["message"]
        );
    }
    let media = server.send(request(Method::POST, MAPS, "text/plain", "x".into())).await;
    assert_eq!(media.code, 415, "{}", media.text);
    let big = "x".repeat(super::super::MAX_BODY + 1);
    let large = server.send(request(Method::POST, MAPS, "application/json", big.into())).await;
    assert_eq!((large.code, &large.body["reason"]), (413, &json!("RequestEntityTooLarge")));
}

#[tokio::test]
async fn a_generated_name_ends_at_random() {
    let server = Server::start().await;
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let answer = server.post(MAPS, json!({"metadata": {"generateName": "job-"}})).await;
        let name = answer.body["metadata"]["name"].as_str().unwrap().to_owned();
        assert!(name.starts_with("job-") && name.len() == 9, "{name}");
        assert!(seen.insert(name));
    }
}

#[tokio::test]
async fn unknown_and_duplicate_fields_are_ignored_warned_of_or_refused() {
    let server = Server::start().await;
    let text = r#"{"metadata": {"name": "a"}, "data": {"a": "b", "a": "c"}, "color": "red"}"#;
    let send = |validation: &str| {
        let path = format!("{MAPS}?dryRun=All&fieldValidation={validation}");
        server.send(request(Method::POST, &path, "application/json", text.into()))
    };
    assert!(send("Ignore").await.warnings.is_empty());
    let warned = send("").await;
    assert_eq!(warned.code, 201);
    assert!(warned.warnings.iter().any(|w| w == "unknown field \"color\""), "{:?}", warned.warnings);
    assert!(warned.warnings.iter().any(|w| w == "duplicate field \"data.a\""), "{:?}", warned.warnings);
    let strict = send("Strict").await;
    assert_eq!(strict.code, 400);
    let message = strict.body["message"].as_str().unwrap();
    assert!(
        message.contains("strict decoding error: ") && message.contains("unknown field \"color\""),
        "{message}"
    );
    assert_eq!(send("Sometimes").await.code, 422);
}

#[tokio::test]
async fn a_dry_run_answers_and_stores_nothing() {
    let server = Server::start().await;
    let before = server.api.replica.view().revision();
    let path = format!("{MAPS}?dryRun=All");
    assert_eq!(server.post(&path, json!({"metadata": {"name": "a"}})).await.code, 201);
    assert_eq!(server.get(&format!("{MAPS}/a")).await.code, 404);
    assert_eq!(server.api.replica.view().revision(), before);
    assert_eq!(
        server.post(&format!("{MAPS}?dryRun=Some"), json!({"metadata": {"name": "a"}})).await.code,
        422
    );
}

#[tokio::test]
async fn updates_check_what_the_client_saw() {
    let server = Server::start().await;
    let created = server.config_map("a", json!({})).await.body;
    let path = format!("{MAPS}/a");
    let mut changed = created.clone();
    changed["data"]["a"] = json!("c");
    let updated = server.put(&path, changed.clone()).await;
    assert_eq!(updated.code, 200, "{}", updated.text);
    assert_ne!(updated.body["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
    let stale = server.put(&path, changed.clone()).await;
    assert_eq!((stale.code, &stale.body["reason"]), (409, &json!("Conflict")));
    assert!(
        stale.body["message"]
            .as_str()
            .unwrap()
            .starts_with("Operation cannot be fulfilled on configmaps \"a\": the object has been modified")
    );
    changed["metadata"]["resourceVersion"] = Value::Null;
    changed["metadata"]["uid"] = json!("other");
    let other = server.put(&path, changed.clone()).await;
    assert!(
        other.code == 409 && other.text.contains("Precondition failed: UID in precondition: other"),
        "{}",
        other.text
    );
    changed["metadata"]["uid"] = Value::Null;
    changed["data"]["a"] = json!("unconditional");
    assert_eq!(server.put(&path, changed.clone()).await.code, 200);
    assert_eq!(server.put(&format!("{MAPS}/b"), changed.clone()).await.code, 400);
    changed["metadata"]["name"] = json!("b");
    assert_eq!(server.put(&format!("{MAPS}/b"), changed).await.code, 404);
}

#[tokio::test]
async fn a_write_that_changes_nothing_keeps_the_version() {
    let server = Server::start().await;
    let created = server.config_map("a", json!({})).await.body;
    let path = format!("{MAPS}/a");
    let before = server.api.replica.view().revision();
    assert_eq!(server.put(&path, created.clone()).await.body, created);
    let merge = server.patch(&path, "application/merge-patch+json", json!({"data": {"a": "b"}})).await;
    assert_eq!(merge.body, created);
    assert_eq!(server.api.replica.view().revision(), before);
}

#[tokio::test]
async fn three_patches_change_one_object() {
    let server = Server::start().await;
    server.config_map("a", json!({})).await;
    let path = format!("{MAPS}/a");
    let json = server
        .patch(&path, "application/json-patch+json", json!([{"op": "add", "path": "/data/j", "value": "1"}]))
        .await;
    assert_eq!(json.body["data"], json!({"a": "b", "j": "1"}), "{}", json.text);
    let merge =
        server.patch(&path, "application/merge-patch+json", json!({"data": {"j": null, "m": "2"}})).await;
    assert_eq!(merge.body["data"], json!({"a": "b", "m": "2"}));
    let strategic =
        server.patch(&path, "application/strategic-merge-patch+json", json!({"data": {"s": "3"}})).await;
    assert_eq!(strategic.body["data"], json!({"a": "b", "m": "2", "s": "3"}));
    let failed = server
        .patch(&path, "application/json-patch+json", json!([{"op": "test", "path": "/data/a", "value": "z"}]))
        .await;
    assert_eq!(failed.code, 422, "{}", failed.text);
    let stale = json!({"metadata": {"resourceVersion": "1"}, "data": {"x": "y"}});
    assert_eq!(server.patch(&path, "application/merge-patch+json", stale).await.code, 409);
    assert_eq!(server.patch(&path, "application/x", "{}").await.code, 415);
    assert_eq!(server.patch(&path, "application/merge-patch+json", "[").await.code, 400);
}

#[tokio::test]
async fn a_service_gets_one_address_and_keeps_it() {
    let server = Server::start().await;
    let path = "/api/v1/namespaces/default/services";
    let service = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
    let ports = json!([{"port": 80}]);
    let created = server.post(path, service("a", json!({"ports": ports, "type": "NodePort"}))).await;
    assert_eq!(created.code, 201, "{}", created.text);
    let ip = created.body["spec"]["clusterIP"].as_str().unwrap().to_owned();
    assert!(ip.starts_with("10.43."), "{ip}");
    assert_eq!(created.body["spec"]["clusterIPs"], json!([ip]));
    assert_eq!(created.body["spec"]["ports"][0]["targetPort"], 80);
    let port = created.body["spec"]["ports"][0]["nodePort"].as_u64().unwrap();
    assert!((30_000..=32_767).contains(&port));
    let taken = server.post(path, service("b", json!({"ports": ports, "clusterIP": ip}))).await;
    assert!(taken.code == 422 && taken.text.contains("provided IP is already allocated"), "{}", taken.text);
    let outside = server.post(path, service("b", json!({"ports": ports, "clusterIP": "10.99.0.1"}))).await;
    assert_eq!(outside.code, 422, "{}", outside.text);
    let moved = json!({"spec": {"clusterIP": "10.43.0.99", "clusterIPs": ["10.43.0.99"]}});
    let moved = server.patch(&format!("{path}/a"), "application/merge-patch+json", moved).await;
    assert!(moved.code == 422 && moved.text.contains("may not change once set"), "{}", moved.text);
    let replaced =
        server.put(&format!("{path}/a"), service("a", json!({"ports": ports, "type": "NodePort"}))).await;
    assert_eq!(replaced.body["spec"]["clusterIP"], ip.as_str(), "{}", replaced.text);
    assert_eq!(replaced.body["spec"]["ports"][0]["nodePort"], port);
    server.delete(&format!("{path}/a"), Value::Null).await;
    let reused = server.post(path, service("b", json!({"ports": ports, "clusterIP": ip}))).await;
    assert_eq!(reused.code, 201, "{}", reused.text);
    let headless = server.post(path, service("h", json!({"ports": ports, "clusterIP": "None"}))).await;
    assert_eq!(headless.body["spec"]["clusterIPs"], json!(["None"]), "{}", headless.text);
}

#[tokio::test]
async fn many_services_at_once_get_addresses_of_their_own() {
    let server = Server::start().await;
    let path = "/api/v1/namespaces/default/services";
    let create = |n: usize| {
        let server = &server;
        async move {
            let body = json!({"metadata": {"name": format!("s{n}")}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
            let answer = server.post(path, body).await;
            assert_eq!(answer.code, 201, "{}", answer.text);
            let spec = &answer.body["spec"];
            (spec["clusterIP"].to_string(), spec["ports"][0]["nodePort"].to_string())
        }
    };
    let made = futures::future::join_all((0..50).map(create)).await;
    let ips: std::collections::BTreeSet<_> = made.iter().map(|m| &m.0).collect();
    let ports: std::collections::BTreeSet<_> = made.iter().map(|m| &m.1).collect();
    assert_eq!((ips.len(), ports.len()), (50, 50));
}

#[tokio::test]
async fn status_is_a_door_of_its_own() {
    let server = Server::start().await;
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let labels = json!({"app": "web"});
    let body = json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}},
        "status": {"replicas": 9},
    });
    let created = server.post(path, body).await;
    assert_eq!(created.code, 201, "{}", created.text);
    assert_eq!(created.body["metadata"]["generation"], 1);
    assert_ne!(created.body["status"]["replicas"], 9);
    let mut status = created.body.clone();
    status["status"] = json!({"replicas": 2, "readyReplicas": 2, "observedGeneration": 1});
    status["spec"]["replicas"] = json!(7);
    let updated = server.put(&format!("{path}/web/status"), status).await;
    assert_eq!(updated.code, 200, "{}", updated.text);
    assert_eq!(
        (&updated.body["spec"]["replicas"], &updated.body["status"]["readyReplicas"]),
        (&json!(2), &json!(2))
    );
    assert_eq!(updated.body["metadata"]["generation"], 1);
    let scaled = server
        .patch(
            &format!("{path}/web"),
            "application/merge-patch+json",
            json!({"spec": {"replicas": 3}, "status": {"replicas": 0}}),
        )
        .await;
    assert_eq!(scaled.body["metadata"]["generation"], 2);
    assert_eq!(scaled.body["status"]["replicas"], 2);
    let scale = server.get(&format!("{path}/web/scale")).await;
    assert_eq!(
        (&scale.body["kind"], &scale.body["spec"]["replicas"]),
        (&json!("Scale"), &json!(3)),
        "{}",
        scale.text
    );
    assert_eq!(scale.body["status"], json!({"replicas": 2, "selector": "app=web"}));
    let set = server
        .patch(&format!("{path}/web/scale"), "application/merge-patch+json", json!({"spec": {"replicas": 5}}))
        .await;
    assert_eq!((set.code, &set.body["spec"]["replicas"]), (200, &json!(5)), "{}", set.text);
    let now = server.get(&format!("{path}/web")).await.body;
    assert_eq!((&now["spec"]["replicas"], &now["metadata"]["generation"]), (&json!(5), &json!(3)));
    let selector = json!({"spec": {"selector": {"matchLabels": {"app": "other"}}, "template": {"metadata": {"labels": {"app": "other"}}}}});
    let immutable = server.patch(&format!("{path}/web"), "application/merge-patch+json", selector).await;
    assert!(immutable.code == 422 && immutable.text.contains("field is immutable"), "{}", immutable.text);
}

#[tokio::test]
async fn a_secret_takes_plain_text_and_stays_as_it_is_when_immutable() {
    let server = Server::start().await;
    let path = "/api/v1/namespaces/default/secrets";
    let created = server
        .post(path, json!({"metadata": {"name": "a"}, "stringData": {"k": "v"}, "immutable": true}))
        .await;
    assert_eq!(
        (&created.body["data"]["k"], &created.body["type"]),
        (&json!("dg=="), &json!("Opaque")),
        "{}",
        created.text
    );
    assert!(created.body.get("stringData").is_none());
    let changed = server
        .patch(&format!("{path}/a"), "application/merge-patch+json", json!({"data": {"k": "eA=="}}))
        .await;
    assert!(
        changed.code == 422 && changed.text.contains("field is immutable when `immutable` is set"),
        "{}",
        changed.text
    );
}

#[tokio::test]
async fn typed_clients_write_protobuf() {
    use litek8s_machinery::protobuf::to_protobuf;
    use litek8s_machinery::schema::TypeName;

    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
    let server = Server::start().await;
    let encode =
        |ty: &str, object: Value| Bytes::from(to_protobuf(TypeName::find(ty).unwrap().schema(), &object));
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "labels": {"owner": "helm"}}, "data": {"k": "dg=="}, "type": "helm.sh/release.v1"});
    let path = "/api/v1/namespaces/default/secrets";
    let created = server.send(request(Method::POST, path, PROTOBUF, encode("core/v1.Secret", secret))).await;
    assert_eq!(created.code, 201, "{}", created.text);
    assert_eq!(
        (&created.body["data"]["k"], &created.body["type"]),
        (&json!("dg=="), &json!("helm.sh/release.v1"))
    );
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": created.body["metadata"]["uid"]}});
    let body = encode("meta/v1.DeleteOptions", options);
    let deleted = server.send(request(Method::DELETE, &format!("{path}/a"), PROTOBUF, body)).await;
    assert_eq!(deleted.code, 200, "{}", deleted.text);
    let broken = server.send(request(Method::POST, path, PROTOBUF, "{}".into())).await;
    assert_eq!(broken.code, 400, "{}", broken.text);
}

#[tokio::test]
async fn a_path_names_an_object_where_the_verb_wants_one_and_nowhere_else() {
    let server = Server::start().await;
    let named = format!("{MAPS}/a");
    let map = json!({"metadata": {"name": "b"}});
    assert_eq!(server.post(&named, map.clone()).await.code, 405, "the right to create `a` makes no `b`");
    assert_eq!(server.put(MAPS, map.clone()).await.code, 405);
    let apply = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "b"}});
    let applied =
        server.patch(&format!("{MAPS}?fieldManager=x"), "application/apply-patch+yaml", apply).await;
    assert_eq!(applied.code, 405, "{}", applied.text);
    let reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    assert_eq!(server.post(reviews, json!({})).await.code, 201);
    assert_eq!(server.post(&format!("{reviews}/a"), json!({})).await.code, 405);
    assert!(names(&server.get(MAPS).await.body).is_empty());
}

#[tokio::test]
async fn what_is_of_the_cluster_is_in_no_namespace() {
    let server = Server::start().await;
    let inside = "/api/v1/namespaces/default/namespaces";
    assert_eq!(server.get(inside).await.code, 404);
    assert_eq!(server.get(&format!("{inside}?fieldSelector=metadata.name%3Ddefault")).await.code, 404);
    assert_eq!(server.delete(&format!("{inside}/kube-system"), Value::Null).await.code, 404);
    assert_eq!(server.post(inside, json!({"metadata": {"name": "x"}})).await.code, 404);
    assert_eq!(server.get("/api/v1/namespaces/default").await.code, 200);
    assert_eq!(server.get("/api/v1/namespaces?fieldSelector=metadata.name%3Ddefault").await.code, 200);
    for review in
        ["authentication.k8s.io/v1/{}tokenreviews", "authorization.k8s.io/v1/{}subjectaccessreviews"]
    {
        let asked =
            server.post(&format!("/apis/{}", review.replace("{}", "namespaces/default/")), json!({})).await;
        assert_eq!(asked.code, 404, "{}", asked.text);
    }
}
