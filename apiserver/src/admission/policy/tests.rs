//! Policies over a real store: what they refuse, in whose words, and what leaves them alone.

use serde_json::{Value, json};

use crate::endpoints::tests::{MAPS, Server};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

fn policy(name: &str, spec: Value) -> Value {
    let mut spec = spec;
    if spec["matchConstraints"].is_null() {
        spec["matchConstraints"] = json!({"resourceRules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
            "operations": ["CREATE", "UPDATE", "DELETE"],
        }]});
    }
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name}, "spec": spec})
}

impl Server {
    async fn enforce(&self, spec: Value, binding: Value) {
        let made = self.post(POLICIES, policy("demo", spec)).await;
        assert_eq!(made.code, 201, "{}", made.text);
        let mut spec = binding;
        spec["policyName"] = json!("demo");
        let body = json!({"metadata": {"name": "bind"}, "spec": spec});
        let made = self.post(BINDINGS, body).await;
        assert_eq!(made.code, 201, "{}", made.text);
    }

    async fn map(&self, name: &str, data: Value) -> crate::endpoints::tests::Answer {
        self.post(MAPS, json!({"metadata": {"name": name}, "data": data})).await
    }
}

fn deny() -> Value {
    json!({"validationActions": ["Deny"]})
}

#[tokio::test]
async fn a_policy_in_force_refuses_in_upstreams_words() {
    let server = Server::start().await;
    let spec = json!({
        "variables": [
            {"name": "size", "expression": "has(object.data) ? object.data.size() : 0"},
            {"name": "twice", "expression": "variables.size * 2"},
        ],
        "validations": [
            {"expression": "variables.twice <= 4", "messageExpression": "'too many: ' + string(variables.size)"},
            {"expression": "object.metadata.name != 'bad'", "reason": "Forbidden", "message": "no such name"},
        ],
    });
    server.enforce(spec, deny()).await;
    assert_eq!(server.map("ok", json!({"a": "1"})).await.code, 201);
    let many = server.map("many", json!({"a": "1", "b": "2", "c": "3"})).await;
    assert_eq!(
        many.body["message"],
        "configmaps \"many\" is forbidden: ValidatingAdmissionPolicy 'demo' with binding 'bind' denied request: too many: 3"
    );
    assert_eq!((many.code, &many.body["reason"]), (422, &json!("Invalid")));
    let named = server.map("bad", json!({})).await;
    assert_eq!((named.code, &named.body["reason"]), (403, &json!("Forbidden")), "{}", named.text);
    let cause = named.body["details"]["causes"][0]["message"].as_str().unwrap();
    assert!(cause.ends_with("denied request: no such name"), "{cause}");
}

#[tokio::test]
async fn updates_deletes_and_dry_runs_are_judged_too() {
    let server = Server::start().await;
    server.map("a", json!({"keep": "1"})).await;
    let spec = json!({"validations": [
        {"expression": "request.operation != 'DELETE' || !('keep' in oldObject.data)", "message": "kept"},
        {"expression": "request.operation != 'UPDATE' || oldObject.data == object.data", "message": "fixed"},
    ]});
    server.enforce(spec, deny()).await;
    let path = format!("{MAPS}/a");
    let deleted = server.delete(&path, Value::Null).await;
    assert!(deleted.code == 422 && deleted.text.contains("kept"), "{}", deleted.text);
    let merge = "application/merge-patch+json";
    let patched = server.patch(&format!("{path}?dryRun=All"), merge, json!({"data": {"x": "y"}})).await;
    assert!(patched.code == 422 && patched.text.contains("fixed"), "{}", patched.text);
    let labelled = server.patch(&path, merge, json!({"metadata": {"labels": {"x": "y"}}})).await;
    assert_eq!(labelled.code, 200, "{}", labelled.text);
}

#[tokio::test]
async fn warnings_and_failure_policies_do_what_they_say() {
    let server = Server::start().await;
    let spec = json!({"failurePolicy": "Ignore", "validations": [
        {"expression": "object.data.missing == 'x'"}, {"expression": "false", "message": "always"},
    ]});
    server.enforce(spec.clone(), json!({"validationActions": ["Warn", "Audit"]})).await;
    let made = server.map("a", json!({"a": "b"})).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let warning = "Validation failed for ValidatingAdmissionPolicy 'demo' with binding 'bind': always";
    assert_eq!(made.warnings, [warning]);
    let mut fails = policy("demo", json!({"validations": [{"expression": "object.data.missing == 'x'"}]}));
    fails["metadata"]["resourceVersion"] =
        server.get(&format!("{POLICIES}/demo")).await.body["metadata"]["resourceVersion"].clone();
    assert_eq!(server.put(&format!("{POLICIES}/demo"), fails).await.code, 200);
    let warned = server.map("b", json!({"a": "b"})).await;
    let text = "expression 'object.data.missing == 'x'' resulted in error: no such key: missing";
    assert!(warned.warnings.iter().any(|w| w.ends_with(text)), "{:?}", warned.warnings);
}

#[tokio::test]
async fn conditions_and_selectors_narrow_a_policy() {
    let server = Server::start().await;
    let spec = json!({
        "matchConditions": [{"name": "not-admin", "expression": "!request.userInfo.groups.exists(g, g == 'system:masters')"}],
        "validations": [{"expression": "false"}],
    });
    server.enforce(spec, deny()).await;
    assert_eq!(server.map("a", json!({})).await.code, 201);
    let other = json!({"matchConstraints": {"namespaceSelector": {"matchLabels": {"strict": "yes"}},
        "resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}]},
        "validations": [{"expression": "namespaceObject.metadata.labels.strict != 'yes'"}]});
    assert_eq!(server.post(POLICIES, policy("other", other)).await.code, 201);
    let body = json!({"metadata": {"name": "other"}, "spec": {"policyName": "other", "validationActions": ["Deny"]}});
    assert_eq!(server.post(BINDINGS, body).await.code, 201);
    assert_eq!(server.map("b", json!({})).await.code, 201);
    let labels = json!({"metadata": {"labels": {"strict": "yes"}}});
    // The Namespace itself is matched by its own labels, and has no namespace object.
    let refused =
        server.patch("/api/v1/namespaces/default", "application/merge-patch+json", labels.clone()).await;
    assert_eq!(refused.code, 422, "{}", refused.text);
    let gone = server.delete(&format!("{POLICIES}/other"), Value::Null).await;
    assert_eq!(gone.code, 200, "{}", gone.text);
    let patched = server.patch("/api/v1/namespaces/default", "application/merge-patch+json", labels).await;
    assert_eq!(patched.code, 200, "{}", patched.text);
}

#[tokio::test]
async fn parameters_are_read_and_may_be_required() {
    let server = Server::start().await;
    let spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "Secret"},
        "validations": [{"expression": "params == null || object.metadata.name.size() <= int(params.metadata.labels.max)"}],
    });
    let binding = json!({"validationActions": ["Deny"],
        "paramRef": {"name": "limits", "parameterNotFoundAction": "Deny"}});
    server.enforce(spec, binding).await;
    let missing = server.map("a", json!({})).await;
    assert!(
        missing.text.contains("no params found for policy binding with `Deny` parameterNotFoundAction"),
        "{}",
        missing.text
    );
    let limits = json!({"metadata": {"name": "limits", "labels": {"max": "3"}}});
    assert_eq!(server.post("/api/v1/namespaces/default/secrets", limits).await.code, 201);
    assert_eq!(server.map("abc", json!({})).await.code, 201);
    assert_eq!(server.map("abcd", json!({})).await.code, 422);
}

#[tokio::test]
async fn the_authorizer_answers_for_the_user() {
    let server = Server::start().await;
    let spec = json!({"validations": [
        {"expression": "authorizer.group('').resource('configmaps').namespace('default').check('create').allowed()"},
        {"expression": "authorizer.requestResource.check('update').allowed()"},
        {"expression": "!authorizer.serviceAccount('default', 'nobody').path('/metrics').check('get').allowed()"},
    ]});
    server.enforce(spec, deny()).await;
    let made = server.map("a", json!({})).await;
    assert_eq!(made.code, 201, "{}", made.text);
}

#[tokio::test]
async fn what_cannot_be_compiled_is_no_policy_and_what_costs_too_much_refuses() {
    let server = Server::start().await;
    let bad =
        server.post(POLICIES, policy("bad", json!({"validations": [{"expression": "object.x +"}]}))).await;
    assert!(bad.code == 422 && bad.text.contains("compilation failed"), "{}", bad.text);
    let unknown = policy("bad", json!({"validations": [{"expression": "variables.nothing"}]}));
    let unknown = server.post(POLICIES, unknown).await;
    assert!(unknown.text.contains("undefined field 'nothing'"), "{}", unknown.text);
    let list: Vec<u32> = (0..200).collect();
    let loops = format!("{list:?}.all(a, {list:?}.all(b, {list:?}.all(c, a + b + c >= 0)))");
    server.enforce(json!({"validations": [{"expression": loops}]}), deny()).await;
    let refused = server.map("a", json!({})).await;
    assert!(refused.code == 422 && refused.text.contains("running out of cost budget"), "{}", refused.text);
}

#[tokio::test]
async fn no_policy_stands_before_policies() {
    let server = Server::start().await;
    let all = json!({"resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}]});
    server.enforce(json!({"matchConstraints": all, "validations": [{"expression": "false"}]}), deny()).await;
    assert_eq!(server.map("a", json!({})).await.code, 422);
    assert_eq!(server.delete(&format!("{BINDINGS}/bind"), Value::Null).await.code, 200);
    assert_eq!(server.map("a", json!({})).await.code, 201);
}

#[tokio::test]
async fn the_status_names_fields_that_the_kinds_of_a_policy_do_not_have() {
    let server = Server::start().await;
    let rules = json!([{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["deployments", "daemonsets"]}]);
    let spec = json!({"matchConstraints": {"resourceRules": rules}, "validations": [
        {"expression": "object.spec.replicas <= 5"},
        {"expression": "object.spec.template.spec.containers.all(c, c.image != '' && !has(c.imagee))"},
        {"expression": "object.metadata.name != request.name || object.kind == 'x'"},
    ]});
    let made = server.post(POLICIES, policy("typed", spec)).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let missing = |kind: &str, field: &str| format!("apps/v1, Kind={kind}: undefined field '{field}'");
    let image = ["Deployment", "DaemonSet"].map(|kind| missing(kind, "imagee")).join("\n");
    let warning = |at: usize, text: String| json!({"fieldRef": format!("spec.validations[{at}].expression"), "warning": text});
    let told = json!([warning(0, missing("DaemonSet", "replicas")), warning(1, image)]);
    let status = json!({"observedGeneration": 1, "typeChecking": {"expressionWarnings": told}});
    assert_eq!(made.body["status"], status);
    let better = json!({"spec": {"validations": [{"expression": "has(object.spec.template)"}]}});
    let path = format!("{POLICIES}/typed");
    let changed = server.patch(&path, "application/merge-patch+json", better).await;
    assert_eq!(changed.body["metadata"]["generation"], 2, "{}", changed.text);
    assert_eq!(changed.body["status"], json!({"observedGeneration": 2, "typeChecking": {}}));
}

#[tokio::test]
async fn a_policy_about_everything_judges_tokens_and_leaves_reviews_alone() {
    let server = Server::start().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    assert_eq!(server.post(accounts, json!({"metadata": {"name": "web"}})).await.code, 201);
    let everything = json!({"resourceRules": [{
        "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*", "*/*"], "operations": ["*"],
    }]});
    let spec =
        json!({"matchConstraints": everything, "validations": [{"expression": "false", "message": "no"}]});
    server.enforce(spec, deny()).await;
    let token = server.post(&format!("{accounts}/web/token"), json!({"spec": {}})).await;
    assert!(token.code == 422 && token.text.contains("denied request: no"), "{}", token.text);
    let review = server.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({})).await;
    assert_eq!(review.code, 201, "{}", review.text);
}
