//! Mutating policies over a real store: what they change, what they leave alone, and what is no policy.

use serde_json::{Value, json};

use crate::endpoints::tests::{Answer, MAPS, Server};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings";

fn policy(name: &str, mut spec: Value) -> Value {
    for (field, value) in [
        ("reinvocationPolicy", json!("Never")),
        (
            "matchConstraints",
            json!({"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
                "operations": ["CREATE", "UPDATE"],
            }]}),
        ),
    ] {
        if spec[field].is_null() {
            spec[field] = value;
        }
    }
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": name}, "spec": spec})
}

fn applies(expression: &str) -> Value {
    json!([{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}])
}

fn patches(expression: &str) -> Value {
    json!([{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}])
}

impl Server {
    async fn in_force(&self, name: &str, spec: Value) {
        let made = self.post(POLICIES, policy(name, spec)).await;
        assert_eq!(made.code, 201, "{}", made.text);
        let body = json!({"metadata": {"name": name}, "spec": {"policyName": name}});
        let made = self.post(BINDINGS, body).await;
        assert_eq!(made.code, 201, "{}", made.text);
    }

    async fn made(&self, name: &str, data: Value) -> Answer {
        self.post(MAPS, json!({"metadata": {"name": name}, "data": data})).await
    }

    async fn refused(&self, spec: Value, wanted: &str) {
        let answer = self.post(POLICIES, policy("bad", spec)).await;
        assert!(answer.code == 422 && answer.text.contains(wanted), "{}", answer.text);
    }
}

#[tokio::test]
async fn an_applied_configuration_merges_into_the_object() {
    let server = Server::start().await;
    let expression = r#"Object{
        metadata: Object.metadata{annotations: {"by": "policy"}, ?labels: optional.none()},
        data: {"added": variables.greeting + object.metadata.name},
    }"#;
    let spec = json!({
        "variables": [{"name": "greeting", "expression": "'hello '"}],
        "mutations": applies(expression),
    });
    server.in_force("demo", spec).await;
    let made = server.made("a", json!({"own": "1"})).await;
    assert_eq!(made.code, 201, "{}", made.text);
    assert_eq!(made.body["data"], json!({"own": "1", "added": "hello a"}));
    assert_eq!(made.body["metadata"]["annotations"], json!({"by": "policy"}));
    assert!(made.body["metadata"].get("labels").is_none(), "{}", made.text);
}

#[tokio::test]
async fn keyed_lists_merge_by_their_keys() {
    let server = Server::start().await;
    let rules = json!({"resourceRules": [{
        "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"], "operations": ["CREATE"],
    }]});
    let expression = r#"Object{spec: Object.spec{replicas: 7, template: Object.spec.template{
        spec: Object.spec.template.spec{containers: [
            Object.spec.template.spec.containers{name: "web", imagePullPolicy: "Always"},
            Object.spec.template.spec.containers{name: "side", image: "side:1"},
        ]}}}}"#;
    server.in_force("demo", json!({"matchConstraints": rules, "mutations": applies(expression)})).await;
    let deployment = json!({"metadata": {"name": "d"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}},
    }});
    let made = server.post("/apis/apps/v1/namespaces/default/deployments", deployment).await;
    assert_eq!(made.code, 201, "{}", made.text);
    assert_eq!(made.body["spec"]["replicas"], 7);
    let containers = &made.body["spec"]["template"]["spec"]["containers"];
    assert_eq!(containers[0]["image"], "web:1", "{containers}");
    assert_eq!(containers[0]["imagePullPolicy"], "Always");
    // What a policy adds gets its defaults.
    assert_eq!(containers[1]["terminationMessagePolicy"], "File", "{containers}");
}

#[tokio::test]
async fn json_patches_are_made_in_order() {
    let server = Server::start().await;
    let expression = r#"
        (has(object.data) ? [] : [JSONPatch{op: "add", path: "/data", value: {}}]) + [
            JSONPatch{op: "add", path: "/data/" + jsonpatch.escapeKey("a.b"), value: "1"},
            JSONPatch{op: "copy", from: "/data/a.b", path: "/data/c"},
        ]"#;
    server.in_force("demo", json!({"mutations": patches(expression)})).await;
    let made = server.post(MAPS, json!({"metadata": {"name": "a"}})).await;
    assert_eq!(made.body["data"], json!({"a.b": "1", "c": "1"}), "{}", made.text);
}

#[tokio::test]
async fn a_failed_test_leaves_the_object_as_it_is() {
    let server = Server::start().await;
    let expression = r#"[JSONPatch{op: "add", path: "/data/x", value: "y"},
        JSONPatch{op: "test", path: "/data/own", value: "2"}]"#;
    server.in_force("demo", json!({"mutations": patches(expression)})).await;
    assert_eq!(server.made("a", json!({"own": "1"})).await.body["data"], json!({"own": "1"}));
    assert_eq!(server.made("b", json!({"own": "2"})).await.body["data"], json!({"own": "2", "x": "y"}));
}

#[tokio::test]
async fn a_policy_that_asks_for_it_sees_what_came_after() {
    let server = Server::start().await;
    let seen = applies("Object{data: {'seen': has(object.data) && 'b' in object.data ? 'yes' : 'no'}}");
    server.in_force("a-watches", json!({"mutations": seen, "reinvocationPolicy": "IfNeeded"})).await;
    let adds = json!({"mutations": applies("Object{data: {'b': '1'}}")});
    server.in_force("b-adds", adds).await;
    let made = server.made("m", json!({})).await;
    assert_eq!(made.body["data"], json!({"b": "1", "seen": "yes"}), "{}", made.text);
}

#[tokio::test]
async fn conditions_and_bindings_narrow_and_failures_count_as_the_policy_says() {
    let server = Server::start().await;
    let spec = json!({
        "matchConditions": [{"name": "only-a", "expression": "object.metadata.name == 'a'"}],
        "mutations": applies("Object{data: {'x': object.data.missing}}"),
    });
    server.in_force("demo", spec.clone()).await;
    assert_eq!(server.made("b", json!({"k": "v"})).await.code, 201);
    let refused = server.made("a", json!({"k": "v"})).await;
    assert_eq!((refused.code, &refused.body["reason"]), (403, &json!("Invalid")), "{}", refused.text);
    let message = refused.body["message"].as_str().unwrap();
    assert!(message.starts_with("policy 'demo' with binding 'demo' denied request: "), "{message}");
    assert!(message.ends_with("no such key: missing"), "{message}");
    let path = format!("{POLICIES}/demo");
    let ignore = json!({"spec": {"failurePolicy": "Ignore"}});
    assert_eq!(server.patch(&path, "application/merge-patch+json", ignore).await.code, 200);
    assert_eq!(server.made("a", json!({"k": "v"})).await.body["data"], json!({"k": "v"}));
}

#[tokio::test]
async fn validation_sees_what_policies_made() {
    let server = Server::start().await;
    server.in_force("demo", json!({"mutations": applies("Object{data: {'not a key': 'x'}}")})).await;
    let refused = server.made("a", json!({})).await;
    assert!(refused.code == 422 && refused.text.contains("a valid config key"), "{}", refused.text);
}

#[tokio::test]
async fn what_is_no_policy_is_refused_at_its_write() {
    let server = Server::start().await;
    server.refused(json!({"mutations": []}), "mutations must contain at least one item").await;
    server.refused(json!({"mutations": applies("'text'")}), "must evaluate to Object").await;
    server.refused(json!({"mutations": patches("[1]")}), "must evaluate to list(JSONPatch)").await;
    let wrong = "Object{spec: Object.status{}}";
    server.refused(json!({"mutations": applies(wrong)}), "unexpected type name").await;
    server
        .refused(json!({"mutations": applies("Object{spec: nothing}")}), "undeclared reference to 'nothing'")
        .await;
    let both = json!([{"patchType": "JSONPatch", "applyConfiguration": {"expression": "Object{}"}}]);
    server.refused(json!({"mutations": both}), "must be specified when patchType is JSONPatch").await;
    let deletes = json!({"resourceRules": [{
        "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["DELETE"]}]});
    let spec = json!({"matchConstraints": deletes, "mutations": applies("Object{}")});
    server.refused(spec, "Unsupported value: \\\"DELETE\\\"").await;
}
