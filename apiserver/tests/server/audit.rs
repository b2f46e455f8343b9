//! The audit log of a running server: whose requests are in it, how much of them, and never a secret.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::client::{Running, json_of};

const POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: None
  nonResourceURLs: ["/readyz*", "/livez*"]
- level: RequestResponse
"#;

/// A server with an audit log, and the path of that.
async fn start() -> (Running, std::path::PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let (policy, log) = (directory.path().join("policy.yaml"), directory.path().join("audit.log"));
    std::fs::write(&policy, POLICY).unwrap();
    let flags = [
        "--audit-policy-file".to_owned(),
        policy.to_str().unwrap().to_owned(),
        "--audit-log-path".to_owned(),
        log.to_str().unwrap().to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    (Running::start_over(directory, &flags).await, log)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_says_who_did_what_and_no_secret() {
    let (server, log) = start().await;
    let admin = server.admin(true).await.with_header("user-agent", "test/1");
    let map = json!({"metadata": {"name": "m"}, "data": {"color": "blue"}});
    let path = "/api/v1/namespaces/default/configmaps";
    let created = admin.post(path, &map).await;
    assert_eq!(created.code, StatusCode::CREATED);
    let id = created.headers["audit-id"].to_str().unwrap().to_owned();
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"password": "hunter2"}});
    assert_eq!(admin.post("/api/v1/namespaces/default/secrets", &secret).await.code, StatusCode::CREATED);
    assert!(admin.get("/api/v1/namespaces/default/secrets/s").await.text().contains("password"));
    let jane = admin.with_header("impersonate-user", "jane");
    assert_eq!(jane.get(path).await.code, StatusCode::FORBIDDEN);
    let forged = server.anonymous().await.with_token("nothing.good.atall");
    assert_eq!(forged.send(Method::DELETE, path, None).await.code, StatusCode::UNAUTHORIZED);
    let watch = admin.get(&format!("{path}?watch=true&timeoutSeconds=1")).await;
    assert_eq!(watch.code, StatusCode::OK);
    let metrics = admin.get("/metrics").await.text();
    assert!(metrics.contains("apiserver_audit_event_total "), "{metrics}");
    // What was answered is in the file once the server has stopped.
    let directory = server.directory();
    server.stop().await;
    let text = std::fs::read_to_string(&log).unwrap();
    drop(directory);
    assert!(!text.contains("hunter2") && !text.contains("aHVudGVyMg"), "no secret");
    assert!(!text.contains("managedFields") && !text.contains("/readyz"));
    let events: Vec<Value> = text.lines().map(|line| json_of(line.as_bytes())).collect();
    let of = |fits: &dyn Fn(&Value) -> bool| events.iter().filter(|e| fits(e)).cloned().collect::<Vec<_>>();

    let event = &of(&|e| e["auditID"] == *id)[..];
    let [event] = event else { panic!("{event:?}") };
    assert_eq!((&event["kind"], &event["apiVersion"]), (&json!("Event"), &json!("audit.k8s.io/v1")));
    assert_eq!((&event["level"], &event["stage"]), (&json!("RequestResponse"), &json!("ResponseComplete")));
    assert_eq!(event["user"]["username"], "system:admin");
    assert_eq!((&event["verb"], &event["requestURI"]), (&json!("create"), &json!(path)));
    assert_eq!((&event["sourceIPs"], &event["userAgent"]), (&json!(["127.0.0.1"]), &json!("test/1")));
    let reference =
        json!({"resource": "configmaps", "namespace": "default", "name": "m", "apiVersion": "v1"});
    assert_eq!(event["objectRef"], reference);
    assert_eq!(event["requestObject"]["data"]["color"], "blue");
    assert!(event["responseObject"]["metadata"]["uid"].is_string());
    assert_eq!(event["responseStatus"]["code"], 201);
    assert_eq!(event["annotations"]["authorization.k8s.io/decision"], "allow");

    let secrets = of(&|e| e["objectRef"]["resource"] == "secrets" && e["userAgent"] == "test/1");
    assert_eq!(secrets.len(), 2);
    assert!(secrets.iter().all(|e| e["level"] == "Metadata" && e["objectRef"]["name"] == "s"), "{secrets:?}");

    let acting = &of(&|e| e["impersonatedUser"]["username"] == "jane")[0];
    assert_eq!(acting["user"]["username"], "system:admin");
    assert_eq!(acting["annotations"]["authorization.k8s.io/decision"], "forbid");
    assert_eq!(
        (&acting["responseStatus"]["code"], &acting["responseStatus"]["reason"]),
        (&json!(403), &json!("Forbidden"))
    );

    let refused = &of(&|e| e["responseStatus"]["code"] == 401)[0];
    assert_eq!(
        (&refused["verb"], &refused["user"]),
        (&json!("deletecollection"), &json!({"username": "", "groups": []}))
    );

    let stages: Vec<Value> = of(&|e| e["verb"] == "watch" && e["userAgent"] == "test/1")
        .iter()
        .map(|e| e["stage"].clone())
        .collect();
    assert_eq!(stages, ["ResponseStarted", "ResponseComplete"]);
}

/// What the log says of the requests for a path.
fn events(log: &std::path::Path, path: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap();
    text.lines().map(|line| json_of(line.as_bytes())).filter(|event| event["requestURI"] == path).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_admission_found_is_in_the_log() {
    let (server, log) = start().await;
    let admin = server.admin(true).await;
    let labels = json!({"pod-security.kubernetes.io/audit": "restricted"});
    let namespace = json!({"metadata": {"name": "strict", "labels": labels}});
    assert_eq!(admin.post("/api/v1/namespaces", &namespace).await.code, StatusCode::CREATED);
    let group = "/apis/admissionregistration.k8s.io/v1";
    let policy = json!({"metadata": {"name": "colors"}, "spec": {
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
            "operations": ["CREATE"], "resources": ["configmaps"]}]},
        "auditAnnotations": [{"key": "color", "valueExpression": "object.data.color"}],
        "validations": [{"expression": "object.data.color == 'red'", "message": "not red"}]}});
    let binding = json!({"metadata": {"name": "colors"},
        "spec": {"policyName": "colors", "validationActions": ["Audit"]}});
    for (kind, object) in
        [("validatingadmissionpolicies", policy), ("validatingadmissionpolicybindings", binding)]
    {
        let made = admin.post(&format!("{group}/{kind}"), &object).await;
        assert_eq!(made.code, StatusCode::CREATED, "{}", made.text());
    }
    let maps = "/api/v1/namespaces/strict/configmaps";
    let map = json!({"metadata": {"name": "m"}, "data": {"color": "blue"}});
    assert_eq!(admin.post(maps, &map).await.code, StatusCode::CREATED);
    let account = "/api/v1/namespaces/strict/serviceaccounts/default";
    admin.until(account, |found| found["kind"] == "ServiceAccount").await;
    let pods = "/api/v1/namespaces/strict/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(admin.post(pods, &pod).await.code, StatusCode::CREATED);
    let directory = server.directory();
    server.stop().await;

    let of = |path: &str| events(&log, path).pop().unwrap()["annotations"].clone();
    let (map, pod) = (of(maps), of(pods));
    drop(directory);
    assert_eq!(
        (&map["authorization.k8s.io/decision"], &map["colors/color"]),
        (&json!("allow"), &json!("blue"))
    );
    assert!(map["authorization.k8s.io/reason"].is_string());
    let failure = map["validation.policy.admission.k8s.io/validation_failure"].as_str().unwrap();
    assert_eq!(
        json_of(failure.as_bytes()),
        json!([{"message": "not red", "policy": "colors", "binding": "colors", "expressionIndex": 0,
            "validationActions": ["Audit"]}])
    );
    assert_eq!(pod["pod-security.kubernetes.io/enforce-policy"], "privileged:latest");
    let violations = pod["pod-security.kubernetes.io/audit-violations"].as_str().unwrap();
    assert!(violations.starts_with("would violate PodSecurity \"restricted:latest\": "), "{violations}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgraded_connection_is_complete_when_it_ends() {
    let (server, log) = start().await;
    let path = "/v1-litek8s/nodes/n5/streams";
    let identity = server.node_identity("n5").await;
    let node = server.client(Some((&identity.certificate, &identity.key)), false).await;
    let upgrade = node.with_header("connection", "upgrade").with_header("upgrade", "litek8s-streams.v1");
    let response = upgrade.open(path).await;
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    let connection = hyper::upgrade::on(response).await.unwrap();
    let stages = || events(&log, path).iter().map(|event| event["stage"].clone()).collect::<Vec<_>>();
    let until = async |wanted: &[&str]| {
        while stages() != wanted {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    until(&["ResponseStarted"]).await;
    // Another request comes after it in the log, and this one is still not complete.
    let admin = server.admin(true).await;
    assert_eq!(admin.get("/api/v1/namespaces/default").await.code, StatusCode::OK);
    while events(&log, "/api/v1/namespaces/default").is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(stages(), ["ResponseStarted"]);
    drop(connection);
    until(&["ResponseStarted", "ResponseComplete"]).await;
    server.stop().await;
}
