//! Custom resources: served from the write of their definition on, by the rules of their schema.

use super::*;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const MERGE: &str = "application/merge-patch+json";

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {
                            "type": "object",
                            "x-kubernetes-validations": [{"rule": "self.replicas <= 10", "message": "too many"}],
                            "properties": {
                                "replicas": {"type": "integer", "default": 1, "minimum": 0},
                                "color": {"type": "string"},
                            },
                        },
                        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
                    },
                }},
            }],
        },
    })
}

impl Server {
    async fn with_widgets() -> Self {
        let server = Self::start().await;
        let created = server.post(DEFINITIONS, definition()).await;
        assert_eq!(created.code, 201, "{}", created.text);
        server
    }

    async fn widget(&self, name: &str, spec: Value) -> Answer {
        let body = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec});
        self.post(WIDGETS, body).await
    }
}

#[tokio::test]
async fn a_custom_resource_is_served_when_its_definition_is_answered() {
    let server = Server::with_widgets().await;
    let created = server.widget("a", json!({"color": "red", "unknown": 1})).await;
    assert_eq!(created.code, 201, "{}", created.text);
    assert_eq!(created.body["spec"], json!({"color": "red", "replicas": 1}));
    assert_eq!(created.body["metadata"]["generation"], 1);
    assert!(created.warnings.iter().any(|w| w == "unknown field \"spec.unknown\""), "{:?}", created.warnings);
    assert_eq!(names(&server.get(WIDGETS).await.body), ["a"]);
    assert!(server.get("/openapi/v3").await.text.contains("apis/example.com/v1"));
    let strict = format!("{WIDGETS}?fieldValidation=Strict");
    let body = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "b"}, "spec": {"unknown": 1}});
    assert_eq!(server.post(&strict, body).await.code, 400);
}

#[tokio::test]
async fn the_schema_and_its_rules_hold() {
    let server = Server::with_widgets().await;
    let many = server.widget("a", json!({"replicas": 11})).await;
    assert!(many.code == 422 && many.text.contains("too many"), "{}", many.text);
    let negative = server.widget("a", json!({"replicas": -1})).await;
    assert!(negative.code == 422 && negative.text.contains("spec.replicas"), "{}", negative.text);
    let text = server.widget("a", json!({"replicas": "1"})).await;
    assert_eq!(text.code, 422, "{}", text.text);
}

#[tokio::test]
async fn updates_of_custom_resources_need_a_version_and_patches_their_kinds() {
    let server = Server::with_widgets().await;
    let created = server.widget("a", json!({})).await.body;
    let path = format!("{WIDGETS}/a");
    let mut blind = created.clone();
    blind["metadata"]["resourceVersion"] = Value::Null;
    let refused = server.put(&path, blind).await;
    assert!(
        refused.code == 422 && refused.text.contains("must be specified for an update"),
        "{}",
        refused.text
    );
    let strategic = server
        .patch(&path, "application/strategic-merge-patch+json", json!({"spec": {"color": "red"}}))
        .await;
    assert_eq!(strategic.code, 415, "{}", strategic.text);
    assert!(!strategic.text.contains("strategic-merge-patch"));
    let merged =
        server.patch(&path, MERGE, json!({"spec": {"color": "red"}, "status": {"replicas": 5}})).await;
    assert_eq!(
        (&merged.body["metadata"]["generation"], merged.body.get("status")),
        (&json!(2), None),
        "{}",
        merged.text
    );
    let status = server
        .patch(
            &format!("{path}/status"),
            MERGE,
            json!({"spec": {"color": "blue"}, "metadata": {"labels": {"x": "y"}}, "status": {"replicas": 5}}),
        )
        .await;
    assert_eq!(status.code, 200, "{}", status.text);
    assert_eq!(
        (&status.body["spec"]["color"], &status.body["status"]["replicas"]),
        (&json!("red"), &json!(5))
    );
    assert_eq!(
        (status.body["metadata"].get("labels"), &status.body["metadata"]["generation"]),
        (None, &json!(2))
    );
    let scale = server.get(&format!("{path}/scale")).await;
    assert_eq!(
        (&scale.body["spec"]["replicas"], &scale.body["status"]["replicas"]),
        (&json!(1), &json!(5)),
        "{}",
        scale.text
    );
}

#[tokio::test]
async fn an_apply_owns_what_it_says_of_a_custom_resource() {
    let server = Server::with_widgets().await;
    let body = "apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: a\nspec:\n  color: red\n";
    let path = format!("{WIDGETS}/a?fieldManager=one");
    let created = server.patch(&path, "application/apply-patch+yaml", body).await;
    assert_eq!(created.code, 201, "{}", created.text);
    assert_eq!(created.body["spec"], json!({"color": "red", "replicas": 1}));
    let fields = created.body["metadata"]["managedFields"][0]["fieldsV1"].to_string();
    assert!(fields.contains("f:color") && !fields.contains("f:replicas"), "{fields}");
}

#[tokio::test]
async fn nothing_is_created_under_a_definition_that_ends() {
    let server = Server::with_widgets().await;
    server.widget("a", json!({})).await;
    let marked = server.delete(&format!("{DEFINITIONS}/widgets.example.com"), Value::Null).await;
    assert_eq!(marked.code, 200, "{}", marked.text);
    let late = server.widget("b", json!({})).await;
    assert!(matches!(late.code, 404 | 405), "{}", late.text);
    let view = server.api.replica.view();
    let widgets = litek8s_store::GroupResource::new("example.com", "widgets");
    assert_eq!(view.list(&widgets, None).count(), 1);
}

#[tokio::test]
async fn a_definition_that_changes_ends_its_watches() {
    let server = Server::with_widgets().await;
    let (response, _) =
        server.open(request(Method::GET, &format!("{WIDGETS}?watch=true"), "", Bytes::new())).await;
    let column = json!([{"op": "add", "path": "/spec/versions/0/additionalPrinterColumns", "value": [{"name": "Color", "type": "string", "jsonPath": ".spec.color"}]}]);
    let changed = server
        .patch(&format!("{DEFINITIONS}/widgets.example.com"), "application/json-patch+json", column)
        .await;
    assert_eq!(changed.code, 200, "{}", changed.text);
    let ended = tokio::time::timeout(std::time::Duration::from_secs(2), response.into_body().collect()).await;
    assert!(ended.is_ok());
}

#[tokio::test]
async fn the_conditions_of_a_definition_name_the_generation_they_are_about() {
    let server = Server::with_widgets().await;
    let path = format!("{DEFINITIONS}/widgets.example.com");
    let observed = |body: &Value| {
        let conditions = body["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let all: Vec<_> =
            conditions.iter().map(|condition| condition["observedGeneration"].clone()).collect();
        assert!(all.iter().all(|one| *one == body["metadata"]["generation"]) && !all.is_empty(), "{body}");
        body["metadata"]["generation"].clone()
    };
    assert_eq!(observed(&server.get(&path).await.body), 1);
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(observed(&server.patch(&path, MERGE, label).await.body), 1);
    let short = json!({"spec": {"names": {"shortNames": ["wdg"]}}});
    assert_eq!(observed(&server.patch(&path, MERGE, short).await.body), 2);
}

#[tokio::test]
async fn no_definition_takes_the_place_of_a_built_in_resource() {
    let server = Server::start().await;
    let mut taking = definition();
    taking["metadata"] = json!({
        "name": "clusterroles.rbac.authorization.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, testing"},
    });
    taking["spec"]["group"] = json!("rbac.authorization.k8s.io");
    taking["spec"]["scope"] = json!("Cluster");
    taking["spec"]["names"] = json!({"plural": "clusterroles", "kind": "ClusterRole"});
    let mut older = taking["spec"]["versions"][0].clone();
    older["storage"] = json!(false);
    taking["spec"]["versions"][0]["name"] = json!("v2");
    taking["spec"]["versions"].as_array_mut().unwrap().push(older);
    let made = server.post(DEFINITIONS, taking).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let group = "/apis/rbac.authorization.k8s.io";
    assert_eq!(server.get(&format!("{group}/v2/clusterroles")).await.code, 404);
    let bob = server.asked_by(UserInfo::new("bob", ["system:authenticated"]));
    let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let role = json!({"metadata": {"name": "all"}, "rules": rules});
    let refused = bob.post(&format!("{group}/v1/clusterroles"), role).await;
    assert_eq!(refused.code, 403, "the rules of the built-in resource hold: {}", refused.text);
}
