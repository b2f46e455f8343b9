//! What upstream's conformance suite asks of a server without nodes, where no other test does.

use http::StatusCode;
use litek8s_machinery::protobuf::from_protobuf;
use litek8s_machinery::resource::type_of;
use serde_json::{Value, json};

use crate::client::Running;

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

#[tokio::test(flavor = "multi_thread")]
async fn a_review_is_answered_as_asked_and_never_as_a_table() {
    let server = Running::start().await;
    let admin = server.admin(true).await;
    let review = json!({"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}});
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let refused = admin.with_header("accept", table).post(REVIEWS, &review).await;
    assert_eq!(refused.code, StatusCode::NOT_ACCEPTABLE, "{}", refused.text());
    assert_eq!(refused.json()["reason"], "NotAcceptable");
    let either =
        admin.with_header("accept", &format!("{table},application/json")).post(REVIEWS, &review).await;
    assert_eq!(either.json()["status"]["allowed"], true);
    let typed =
        admin.with_header("accept", "application/vnd.kubernetes.protobuf").post(REVIEWS, &review).await;
    assert_eq!(typed.headers["content-type"], "application/vnd.kubernetes.protobuf");
    let read: Value = from_protobuf(typed.bytes(), &type_of).unwrap();
    assert_eq!(
        (&read["kind"], &read["status"]["allowed"]),
        (&json!("SelfSubjectAccessReview"), &json!(true))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_and_volume_attributes_are_kept() {
    let server = Running::start().await;
    let admin = server.admin(true).await;
    let devices = "/apis/resource.k8s.io/v1";
    let claims = format!("{devices}/namespaces/default/resourceclaims");
    let request = json!({"name": "one", "exactly": {"deviceClassName": "gpu"}});
    let claim = json!({"metadata": {"name": "mine"}, "spec": {"devices": {"requests": [request.clone()]}}});
    let made = admin.post(&claims, &claim).await;
    assert_eq!(made.code, StatusCode::CREATED, "{}", made.text());
    let exactly = &made.json()["spec"]["devices"]["requests"][0]["exactly"];
    assert_eq!(exactly, &json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}));
    let mut changed = made.json();
    changed["spec"]["devices"]["requests"][0]["name"] = json!("two");
    let refused = admin.send(http::Method::PUT, &format!("{claims}/mine"), Some(&changed)).await;
    assert_eq!(refused.code, StatusCode::UNPROCESSABLE_ENTITY, "{}", refused.text());
    let mut given = made.json();
    given["status"] = json!({"allocation": {"devices": {"results": []}}, "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]});
    let answer = admin.send(http::Method::PUT, &format!("{claims}/mine/status"), Some(&given)).await;
    assert_eq!(answer.code, StatusCode::OK, "{}", answer.text());
    let table =
        admin.with_header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io").get(&claims).await;
    assert_eq!(table.json()["rows"][0]["cells"][1], "allocated,reserved", "{}", table.text());

    let slice = |node: &str| {
        let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
        let spec =
            json!({"driver": "d.example.com", "nodeName": node, "pool": pool, "devices": [{"name": "d0"}]});
        json!({"metadata": {"generateName": "slice-"}, "spec": spec})
    };
    for node in ["a", "b"] {
        let made = admin.post(&format!("{devices}/resourceslices"), &slice(node)).await;
        assert_eq!(made.code, StatusCode::CREATED, "{}", made.text());
        assert_eq!(made.json()["metadata"]["generation"], 1);
    }
    let of_a = admin.get(&format!("{devices}/resourceslices?fieldSelector=spec.nodeName%3Da")).await.json();
    assert_eq!(of_a["items"].as_array().map(Vec::len), Some(1), "{of_a}");
    let class =
        json!({"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": "true"}}]}});
    let made = admin.post(&format!("{devices}/deviceclasses"), &class).await;
    assert_eq!(made.code, StatusCode::CREATED, "{}", made.text());
    let template = json!({"metadata": {"name": "t"}, "spec": {"spec": {"devices": {"requests": [request]}}}});
    let made = admin.post(&format!("{devices}/namespaces/default/resourceclaimtemplates"), &template).await;
    assert_eq!(made.code, StatusCode::CREATED, "{}", made.text());

    let attributes = "/apis/storage.k8s.io/v1/volumeattributesclasses";
    let class =
        json!({"metadata": {"name": "fast"}, "driverName": "d.example.com", "parameters": {"iops": "9"}});
    let made = admin.post(attributes, &class).await;
    assert_eq!(made.code, StatusCode::CREATED, "{}", made.text());
    let mut changed = made.json();
    changed["parameters"]["iops"] = json!("10");
    let refused = admin.send(http::Method::PUT, &format!("{attributes}/fast"), Some(&changed)).await;
    assert_eq!(refused.code, StatusCode::UNPROCESSABLE_ENTITY, "{}", refused.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_can_be_relabelled_and_its_image_changed() {
    let server = Running::start().await;
    let admin = server.admin(true).await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}});
    let mut made = admin.post(pods, &pod).await.json();
    assert!(made["spec"].as_object().unwrap().values().all(|value| !value.is_null()), "{made}");
    made["metadata"]["labels"] = json!({"a": "b"});
    made["spec"]["containers"][0]["image"] = json!("i:2");
    let changed = admin.send(http::Method::PUT, &format!("{pods}/p"), Some(&made)).await;
    assert_eq!(changed.code, StatusCode::OK, "{}", changed.text());
    assert_eq!(changed.json()["spec"]["containers"][0]["image"], "i:2");
    let mut larger = changed.json();
    larger["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
    let refused = admin.send(http::Method::PUT, &format!("{pods}/p"), Some(&larger)).await;
    assert_eq!(refused.code, StatusCode::UNPROCESSABLE_ENTITY, "{}", refused.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_object_has_the_status_of_its_type() {
    let server = Running::start().await;
    let admin = server.admin(true).await;
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let claim = json!({"metadata": {"name": "c"}, "spec": spec, "status": {"phase": "Bound"}});
    let made = admin.post(claims, &claim).await;
    assert_eq!(made.json()["status"], json!({"phase": "Pending"}), "{}", made.text());
    assert!(!made.json()["metadata"]["managedFields"].to_string().contains("f:status"), "{}", made.text());
    let spec =
        json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/v"}});
    let made = admin
        .post("/api/v1/persistentvolumes", &json!({"metadata": {"name": "v"}, "spec": spec}))
        .await
        .json();
    assert_eq!(made["status"]["phase"], "Pending", "{made}");
    assert_eq!(made["status"]["lastPhaseTransitionTime"], made["metadata"]["creationTimestamp"]);

    let devices = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
    let request = json!({"name": "one", "exactly": {"deviceClassName": "gpu"}});
    let claim = json!({"metadata": {"name": "d"}, "spec": {"devices": {"requests": [request]}}});
    let made = admin.post(devices, &claim).await;
    assert_eq!(made.json()["status"], json!({}), "{}", made.text());
    let patch = json!([{"op": "add", "path": "/status/allocation", "value": {}}]);
    let patched = admin
        .with_content("application/json-patch+json")
        .send(http::Method::PATCH, &format!("{devices}/d/status"), Some(&patch))
        .await;
    assert_eq!(patched.json()["status"], json!({"allocation": {"devices": {}}}), "{}", patched.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_a_missing_runtime_class_is_refused() {
    let server = Running::start().await;
    let admin = server.admin(true).await;
    let spec = json!({"runtimeClassName": "sandbox", "containers": [{"name": "c", "image": "i"}]});
    let pod = json!({"metadata": {"name": "p"}, "spec": spec});
    let pods = "/api/v1/namespaces/default/pods";
    let refused = admin.post(pods, &pod).await;
    assert_eq!(refused.code, StatusCode::FORBIDDEN, "{}", refused.text());
    let message = "pods \"p\" is forbidden: pod rejected: RuntimeClass \"sandbox\" not found";
    assert_eq!(refused.json()["message"], message);
    let class =
        json!({"metadata": {"name": "sandbox"}, "handler": "h", "overhead": {"podFixed": {"cpu": "10m"}}});
    admin.post("/apis/node.k8s.io/v1/runtimeclasses", &class).await;
    let made = admin.post(pods, &pod).await;
    assert_eq!(made.json()["spec"]["overhead"], json!({"cpu": "10m"}), "{}", made.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_selected_by_the_names_of_either_version() {
    let server = Running::start().await;
    let admin = server.admin(true).await;
    let events = "/apis/events.k8s.io/v1/namespaces/default/events";
    let event = json!({
        "metadata": {"name": "e"}, "eventTime": "2020-01-01T00:00:00.000000Z", "reason": "Test", "action": "Do",
        "reportingController": "tester", "reportingInstance": "tester-1", "type": "Normal", "note": "n",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
    });
    let made = admin.post(events, &event).await;
    assert_eq!(made.code, StatusCode::CREATED, "{}", made.text());
    let core = "/api/v1/namespaces/default/events";
    for (path, selector) in [
        (events, "reportingController%3Dtester"),
        (events, "regarding.name%3Dp"),
        (core, "reportingComponent%3Dtester"),
        (core, "involvedObject.name%3Dp"),
        (core, "source%3Dtester"),
    ] {
        let found = admin.get(&format!("{path}?fieldSelector={selector}")).await.json();
        assert_eq!(found["items"].as_array().map(Vec::len), Some(1), "{selector}: {found}");
    }
}
