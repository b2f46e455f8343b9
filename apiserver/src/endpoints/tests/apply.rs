//! Server-side apply through the verb: creation, ownership, conflicts and force.

use super::*;

const APPLY: &str = "application/apply-patch+yaml";

#[tokio::test]
async fn an_apply_creates_and_then_owns() {
    let server = Server::start().await;
    let path = format!("{MAPS}/a");
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  x: '1'\n  y: '1'\n";
    assert_eq!(server.patch(&path, APPLY, body).await.code, 422);
    let created = server.patch(&format!("{path}?fieldManager=one"), APPLY, body).await;
    assert_eq!(created.code, 201, "{}", created.text);
    let entry = &created.body["metadata"]["managedFields"][0];
    assert_eq!((&entry["manager"], &entry["operation"]), (&json!("one"), &json!("Apply")));
    let version = created.body["metadata"]["resourceVersion"].clone();
    let same = server.patch(&format!("{path}?fieldManager=one"), APPLY, body).await;
    assert_eq!((same.code, &same.body["metadata"]["resourceVersion"]), (200, &version), "{}", same.text);
    let other = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  x: '2'\n";
    let conflict = server.patch(&format!("{path}?fieldManager=two"), APPLY, other).await;
    assert_eq!((conflict.code, &conflict.body["reason"]), (409, &json!("Conflict")), "{}", conflict.text);
    assert_eq!(conflict.body["details"]["causes"][0]["field"], ".data.x");
    let forced = server.patch(&format!("{path}?fieldManager=two&force=true"), APPLY, other).await;
    assert_eq!(forced.body["data"], json!({"x": "2", "y": "1"}), "{}", forced.text);
    let less = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata: {}\n";
    let removed = server.patch(&format!("{path}?fieldManager=one"), APPLY, less).await;
    assert_eq!(removed.body["data"], json!({"x": "2"}), "{}", removed.text);
}

#[tokio::test]
async fn an_apply_of_what_the_schema_does_not_know_fails() {
    let server = Server::start().await;
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ncolor: red\n";
    let answer = server.patch(&format!("{MAPS}/a?fieldManager=one"), APPLY, body).await;
    assert!(answer.code >= 400 && answer.text.contains("color"), "{}", answer.text);
    let wrong = server.patch(&format!("{MAPS}/b?fieldManager=one"), APPLY, body).await;
    assert_eq!(wrong.code, 400, "{}", wrong.text);
    let dry = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n";
    assert_eq!(server.patch(&format!("{MAPS}/a?fieldManager=one&dryRun=All"), APPLY, dry).await.code, 201);
    assert_eq!(server.get(&format!("{MAPS}/a")).await.code, 404);
}

#[tokio::test]
async fn a_key_that_stands_twice_is_refused_with_its_line() {
    let server = Server::start().await;
    let path = format!("{MAPS}/a?fieldManager=one&fieldValidation=");
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  x: '1'\n  x: '2'\n";
    let refused = server.patch(&format!("{path}Strict"), APPLY, body).await;
    let message = refused.body["message"].as_str().unwrap_or_default();
    assert!(
        refused.code == 400 && message.ends_with("line 7: key \"x\" already set in map"),
        "{}",
        refused.text
    );
    let warned = server.patch(&format!("{path}Warn"), APPLY, body).await;
    assert_eq!((warned.code, &warned.body["data"]["x"]), (201, &json!("2")), "{}", warned.text);
    assert!(
        warned.warnings.iter().any(|warning| warning.contains("already set in map")),
        "{:?}",
        warned.warnings
    );
}

#[tokio::test]
async fn whoever_may_only_change_objects_makes_none() {
    let server = Server::start().await;
    let bob = server.asked_by(UserInfo::new("bob", ["system:authenticated"]));
    let path = format!("{MAPS}/a?fieldManager=one");
    let body =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}});
    let refused = bob.patch(&path, APPLY, body.clone()).await;
    assert_eq!(refused.code, 403, "{}", refused.text);
    assert_eq!(
        refused.body["message"],
        "configmaps \"a\" is forbidden: User \"bob\" cannot create resource \"configmaps\" in API group \"\" in the namespace \"default\""
    );
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}});
    let replaced = bob.put("/api/v1/namespaces/default/events/e", event.clone()).await;
    assert_eq!(replaced.code, 403, "{}", replaced.text);
    assert_eq!(server.patch(&path, APPLY, body.clone()).await.code, 201);
    assert_eq!(bob.patch(&path, APPLY, body).await.code, 200, "it is there now");
    let made = server.put("/api/v1/namespaces/default/events/e", event).await;
    assert_eq!(made.code, 201, "{}", made.text);
}
