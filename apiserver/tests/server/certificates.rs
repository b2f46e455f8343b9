//! CertificateSigningRequests over the wire: a machine with a bootstrap token, a person, and who may approve.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{Method, StatusCode};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::{Value, json};

use crate::client::{Client, Running};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// A key and a request object.
fn asking(name: &str, subject: (&str, &str), signer: &str) -> (String, Value) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, subject.0);
    params.distinguished_name.push(DnType::OrganizationName, subject.1);
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    let object = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {"signerName": signer, "request": STANDARD.encode(pem), "usages": ["digital signature", "client auth"]},
    });
    (key.serialize_pem(), object)
}

/// The certificate, once it is there.
async fn certificate(client: &Client, name: &str) -> String {
    for _ in 0..100 {
        let object = client.get(&format!("{REQUESTS}/{name}")).await.json();
        if let Some(encoded) = object["status"]["certificate"].as_str() {
            return String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap();
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("no certificate for {name}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_with_a_bootstrap_token_becomes_a_node() {
    let server = Running::start().await;
    let admin = server.admin(true).await;
    let secret = json!({
        "metadata": {"name": "bootstrap-token-abcdef"}, "type": "bootstrap.kubernetes.io/token",
        "stringData": {"token-id": "abcdef", "token-secret": "0123456789abcdef",
            "usage-bootstrap-authentication": "true"},
    });
    assert_eq!(admin.post("/api/v1/namespaces/kube-system/secrets", &secret).await.code, StatusCode::CREATED);
    let stranger = server.anonymous().await;
    let forged = stranger.with_token("abcdef.0123456789abcdee");
    assert_eq!(forged.get(REQUESTS).await.code, StatusCode::UNAUTHORIZED);
    let machine = stranger.with_token("abcdef.0123456789abcdef");
    assert_eq!(machine.get("/api/v1/nodes").await.code, StatusCode::FORBIDDEN);
    let signer = "kubernetes.io/kube-apiserver-client-kubelet";
    let (key, mut object) = asking("n1", ("system:node:n1", "system:nodes"), signer);
    object["spec"]["username"] = json!("system:admin");
    let created = machine.post(REQUESTS, &object).await;
    assert_eq!(created.code, StatusCode::CREATED, "{}", created.text());
    assert_eq!(created.json()["spec"]["username"], "system:bootstrap:abcdef");
    let pem = certificate(&machine, "n1").await;
    let node = server.client(Some((&pem, &key)), true).await;
    assert_eq!(node.get("/api/v1/nodes").await.code, StatusCode::OK);
    // The node renews it for itself, and for nobody else.
    let (_, object) = asking("again", ("system:node:n1", "system:nodes"), signer);
    assert_eq!(node.post(REQUESTS, &object).await.code, StatusCode::CREATED);
    certificate(&node, "again").await;
    let (_, object) = asking("other", ("system:node:n2", "system:nodes"), signer);
    assert_eq!(node.post(REQUESTS, &object).await.code, StatusCode::CREATED);
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    let other = node.get(&format!("{REQUESTS}/other")).await.json();
    assert!(other["status"]["conditions"].is_null() && other["status"]["certificate"].is_null(), "{other}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_gets_a_certificate_from_whoever_may_approve() {
    let server = Running::start().await;
    let admin = server.admin(true).await;
    let signer = "kubernetes.io/kube-apiserver-client";
    let (key, object) = asking("jane", ("jane", "dev"), signer);
    assert_eq!(admin.post(REQUESTS, &object).await.code, StatusCode::CREATED);
    let approval = format!("{REQUESTS}/jane/approval");
    let answer = json!([{"type": "Approved", "status": "True", "reason": "KubectlApprove", "message": "m"}]);
    let mut answered = admin.get(&format!("{REQUESTS}/jane")).await.json();
    answered["status"]["conditions"] = answer;
    answered["status"]["certificate"] = json!("AAAA");
    answered["spec"]["usages"] = json!(["any"]);
    // Whoever may write requests does not thereby approve them.
    let rules = json!([{"verbs": ["*"], "apiGroups": ["certificates.k8s.io"],
        "resources": ["certificatesigningrequests", "certificatesigningrequests/approval", "certificatesigningrequests/status"]}]);
    let role = json!({"metadata": {"name": "writer"}, "rules": rules});
    let binding = json!({"metadata": {"name": "writer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "writer"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "joe"}]});
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    assert_eq!(admin.post(&format!("{rbac}/clusterroles"), &role).await.code, StatusCode::CREATED);
    assert_eq!(admin.post(&format!("{rbac}/clusterrolebindings"), &binding).await.code, StatusCode::CREATED);
    let joe = admin.with_header("impersonate-user", "joe");
    let refused = joe.send(Method::PUT, &approval, Some(&answered)).await;
    assert_eq!(refused.code, StatusCode::FORBIDDEN, "{}", refused.text());
    assert!(
        refused.text().contains("user not permitted to approve requests with signerName"),
        "{}",
        refused.text()
    );
    let approved = admin.send(Method::PUT, &approval, Some(&answered)).await;
    assert_eq!(approved.code, StatusCode::OK, "{}", approved.text());
    let approved = approved.json();
    assert!(approved["status"]["certificate"].is_null(), "the answer is no certificate");
    assert_eq!(approved["spec"]["usages"], json!(["digital signature", "client auth"]));
    assert!(approved["status"]["conditions"][0]["lastUpdateTime"].is_string());
    let pem = certificate(&admin, "jane").await;
    let jane = server.client(Some((&pem, &key)), true).await;
    let me = jane.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &json!({})).await.json();
    assert_eq!(me["status"]["userInfo"]["username"], "jane");
    // An answer stays, and yes excludes no.
    let mut both = admin.get(&format!("{REQUESTS}/jane")).await.json();
    both["status"]["conditions"] = json!([{"type": "Denied", "status": "True"}]);
    let both = admin.send(Method::PUT, &approval, Some(&both)).await;
    assert_eq!(both.code, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(both.text().contains("may not remove a condition of type"), "{}", both.text());
    // Nobody asks for the administrators' group.
    let (_, object) = asking("root", ("jane", "system:masters"), signer);
    let refused = admin.post(REQUESTS, &object).await;
    assert_eq!(refused.code, StatusCode::FORBIDDEN);
    assert!(refused.text().contains("with system:masters group is not allowed"), "{}", refused.text());
    let (_, mut object) = asking("bad", ("jane", "dev"), "nodomain");
    object["spec"]["request"] = json!("aGVsbG8=");
    object["spec"]["usages"] = json!(["flying"]);
    let invalid = admin.post(REQUESTS, &object).await;
    assert_eq!(invalid.code, StatusCode::UNPROCESSABLE_ENTITY);
    for path in ["spec.request", "spec.usages[0]", "spec.signerName"] {
        assert!(invalid.text().contains(path), "{path}: {}", invalid.text());
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_comes_with_metadata_and_conditions_keep_their_order() {
    let server = Running::start().await;
    let admin = server.admin(true).await;
    let (_, object) = asking("mine", ("anna", "people"), "example.com/mine");
    let made = admin.post(REQUESTS, &object).await;
    assert_eq!(made.code, StatusCode::CREATED, "{}", made.text());
    let approval = format!("{REQUESTS}/mine/approval");
    let mut answer = made.json();
    answer["metadata"]["annotations"] = json!({"why": "known"});
    let condition = |ty: &str| json!({"type": ty, "status": "True", "reason": "Test"});
    answer["status"]["conditions"] = json!([condition("Looked"), condition("Approved")]);
    let answered = admin.send(Method::PUT, &approval, Some(&answer)).await;
    assert_eq!(answered.code, StatusCode::OK, "{}", answered.text());
    let mut status = answered.json();
    assert_eq!(status["metadata"]["annotations"], json!({"why": "known"}));
    status["status"]["conditions"].as_array_mut().unwrap().push(condition("Kept"));
    let kept = admin.send(Method::PUT, &format!("{REQUESTS}/mine/status"), Some(&status)).await.json();
    let types: Vec<_> = kept["status"]["conditions"].as_array().unwrap().iter().map(|c| &c["type"]).collect();
    assert_eq!(types, ["Looked", "Approved", "Kept"], "{kept}");
}
