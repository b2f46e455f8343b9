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
