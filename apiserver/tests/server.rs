//! A real server on loopback over a directory of its own, spoken to by TLS with every kind of credential.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

#[path = "server/admission.rs"]
mod admission;
#[path = "server/aggregation.rs"]
mod aggregation;
#[path = "server/audit.rs"]
mod audit;
#[path = "server/backend.rs"]
mod backend;
#[path = "server/certificates.rs"]
mod certificates;
#[path = "server/client.rs"]
mod client;
#[path = "server/conformance.rs"]
mod conformance;
#[path = "server/crowding.rs"]
mod crowding;
#[path = "server/flow_control.rs"]
mod flow_control;
#[path = "server/metrics.rs"]
mod metrics;
#[path = "server/protobuf.rs"]
mod protobuf;
#[path = "server/restart.rs"]
mod restart;
#[path = "server/streams.rs"]
mod streams;

use client::{Client, Running, json_of};
use http::{Method, StatusCode};
use litek8s_apiserver::run::Access;
use litek8s_daemon::pki::{inspect, key_and_request, sha256_fingerprint};
use serde_json::{Value, json};

const NODE_CERTIFICATE: &str = "/v1-litek8s/node-certificate";

#[tokio::test(flavor = "multi_thread")]
async fn strangers_see_health_version_and_the_ca_only() {
    let server = Running::start().await;
    let client = server.anonymous().await;
    assert_eq!(client.get("/livez").await.text(), "ok");
    let version = client.get("/version").await.json();
    assert_eq!(version["gitVersion"], "v1.37.0+litek8s");
    assert!(client.get("/v1-litek8s/ca").await.text().starts_with("-----BEGIN CERTIFICATE-----"));
    for path in ["/api", "/apis", "/api/v1/namespaces", "/metrics", "/", "/openapi/v3", "/nothing"] {
        let answer = client.get(path).await;
        assert_eq!(answer.code, StatusCode::UNAUTHORIZED, "{path}");
        let status = answer.json();
        assert_eq!(
            (status["kind"].as_str(), status["reason"].as_str()),
            (Some("Status"), Some("Unauthorized"))
        );
        assert!(answer.headers.contains_key("audit-id"));
        assert_eq!(answer.headers["cache-control"], "no-cache, private");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_body_is_read_so_that_its_connection_lives_on() {
    let server = Running::start().await;
    let client = server.anonymous().await;
    let large = json!({"data": "x".repeat(200 << 10)});
    for _ in 0..5 {
        let refused = client.post("/api/v1/namespaces/default/configmaps", &large).await;
        assert_eq!(refused.code, StatusCode::UNAUTHORIZED);
        assert_eq!(client.get("/livez").await.text(), "ok");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_names_its_checks() {
    let server = Running::start().await;
    let client = server.anonymous().await;
    let verbose = client.get("/readyz?verbose").await.text();
    for check in
        ["ping", "log", "etcd", "leader", "poststarthook/bootstrap", "autoregister-completion", "shutdown"]
    {
        assert!(verbose.contains(&format!("[+]{check} ok\n")), "{verbose}");
    }
    assert!(verbose.ends_with("readyz check passed\n"));
    for path in ["/readyz", "/readyz/leader", "/readyz/etcd-readiness", "/livez/ping", "/healthz/etcd"] {
        assert_eq!(client.get(path).await.text(), "ok", "{path}");
    }
    let excluding = client.get("/livez?verbose&exclude=log&exclude=nothing&exclude=none").await.text();
    let text = "[+]ping ok\n[+]log excluded: ok\n[+]etcd ok\n\
        warn: some health checks cannot be excluded: no matches for \"nothing\", \"none\"\nlivez check passed\n";
    assert_eq!(excluding, text);
    assert_eq!(client.get("/readyz/nothing").await.code, StatusCode::NOT_FOUND);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_administrator_finds_the_first_objects_over_both_protocols() {
    let server = Running::start().await;
    for http2 in [false, true] {
        let admin = server.admin(http2).await;
        assert_eq!(admin.is_http2(), http2);
        let namespaces = admin.get("/api/v1/namespaces").await.json();
        let names: Vec<&str> = namespaces["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|n| n["metadata"]["name"].as_str())
            .collect();
        assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system"]);
    }
    let admin = server.admin(true).await;
    let service = admin.get("/api/v1/namespaces/default/services/kubernetes").await.json();
    assert_eq!(service["spec"]["clusterIP"], "10.43.0.1");
    let slice =
        admin.get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes").await.json();
    assert_eq!(slice["endpoints"][0]["addresses"], json!(["127.0.0.1"]));
    let metrics = admin.get("/metrics").await.text();
    assert!(
        metrics
            .contains(r#"apiserver_request_total{verb="LIST",group="",version="v1",resource="namespaces""#),
        "{metrics}"
    );
    assert!(metrics.contains("litek8s_store_revision "));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gathered_roles_are_filled() {
    let server = Running::start().await;
    let admin = server.admin(true).await;
    let mut rules = 0;
    for _ in 0..50 {
        let role = admin.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/admin").await.json();
        rules = role["rules"].as_array().map_or(0, Vec::len);
        if rules > 15 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert!(rules > 15, "{rules}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_joins_with_a_token_and_renews_with_its_certificate() {
    let server = Running::start().await;
    let token = server.agent_token();
    let stranger = server.anonymous().await;
    let ca = stranger.get("/v1-litek8s/ca").await.text();
    let der = litek8s_daemon::pki::der_of_pem(&ca).unwrap();
    assert_eq!(sha256_fingerprint(&der), token.ca_hash());
    let joining = key_and_request("whatever").unwrap();
    let body = json!({"nodeName": "n1", "csr": joining.request});
    let refused = stranger.post(NODE_CERTIFICATE, &body).await;
    assert_eq!(refused.code, StatusCode::UNAUTHORIZED);
    let forged = token.reveal().replace("::node:", "::node:x");
    assert_eq!(
        stranger.with_token(&forged).post(NODE_CERTIFICATE, &body).await.code,
        StatusCode::UNAUTHORIZED
    );
    let with_token = stranger.with_token(&token.reveal());
    let bad_name = json!({"nodeName": "../n1", "csr": joining.request});
    assert_eq!(with_token.post(NODE_CERTIFICATE, &bad_name).await.code, StatusCode::BAD_REQUEST);
    let bad_request = json!({"nodeName": "n1", "csr": "hello"});
    assert_eq!(with_token.post(NODE_CERTIFICATE, &bad_request).await.code, StatusCode::BAD_REQUEST);
    let joined = with_token.post(NODE_CERTIFICATE, &body).await.json();
    let certificate = joined["certificate"].as_str().unwrap();
    let info = inspect(certificate).unwrap();
    assert_eq!(
        (info.common_name.as_str(), info.organizations),
        ("system:node:n1", vec!["system:nodes".to_owned()])
    );

    let node = server.client(Some((certificate, &joining.key)), true).await;
    assert_eq!(node.get("/api/v1/nodes").await.code, StatusCode::OK);
    assert_eq!(node.get("/api/v1/namespaces/kube-system/secrets").await.code, StatusCode::FORBIDDEN);
    let object = |name: &str, labels: Value| json!({"metadata": {"name": name, "labels": labels}});
    assert_eq!(node.post("/api/v1/nodes", &object("n2", json!({}))).await.code, StatusCode::FORBIDDEN);
    let relay = object("n1", json!({"litek8s.dev/relay": "true"}));
    assert_eq!(node.post("/api/v1/nodes", &relay).await.code, StatusCode::FORBIDDEN);
    let own = node.post("/api/v1/nodes", &object("n1", json!({}))).await;
    assert_eq!(own.code, StatusCode::CREATED, "{}", own.text());
    let renewed = node.post(NODE_CERTIFICATE, &body).await;
    assert_eq!(renewed.code, StatusCode::OK, "{}", renewed.text());
    let other = json!({"nodeName": "n2", "csr": joining.request});
    assert_eq!(node.post(NODE_CERTIFICATE, &other).await.code, StatusCode::UNAUTHORIZED);
    assert_eq!(
        with_token.get("/api/v1/nodes").await.code,
        StatusCode::UNAUTHORIZED,
        "a join token buys a certificate and nothing else"
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_account_gets_a_token_and_is_told_what_it_may() {
    let server = Running::start().await;
    let admin = server.admin(true).await;
    let account = json!({"metadata": {"name": "web"}});
    let made = admin.post("/api/v1/namespaces/default/serviceaccounts", &account).await;
    assert_eq!(made.code, StatusCode::CREATED, "{}", made.text());
    let path = "/api/v1/namespaces/default/serviceaccounts/web/token";
    let short = admin.post(path, &json!({"spec": {"expirationSeconds": 10}})).await;
    assert_eq!(short.code, StatusCode::UNPROCESSABLE_ENTITY);
    let issued = admin.post(path, &json!({"spec": {"expirationSeconds": 900}})).await;
    assert_eq!(issued.code, StatusCode::CREATED, "{}", issued.text());
    let token = issued.json()["status"]["token"].as_str().unwrap().to_owned();
    let web = server.anonymous().await.with_token(&token);
    let me = web.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &json!({})).await.json();
    assert_eq!(me["status"]["userInfo"]["username"], "system:serviceaccount:default:web");
    let wanted = json!({"verb": "get", "resource": "pods", "namespace": "default"});
    let ask = json!({"spec": {"resourceAttributes": wanted}});
    let access = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    assert_eq!(web.post(access, &ask).await.json()["status"]["allowed"], false);
    let answer = web.get("/api/v1/namespaces/default/pods").await;
    assert_eq!(answer.code, StatusCode::FORBIDDEN);
    assert_eq!(
        answer.json()["message"],
        r#"pods is forbidden: User "system:serviceaccount:default:web" cannot list resource "pods" in API group "" in the namespace "default""#
    );
    let binding = json!({"metadata": {"name": "web"}, "roleRef":
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node"},
        "subjects": [{"kind": "ServiceAccount", "name": "web", "namespace": "default"}]});
    let bound = admin.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).await;
    assert_eq!(bound.code, StatusCode::CREATED, "{}", bound.text());
    assert_eq!(web.get("/api/v1/nodes").await.code, StatusCode::OK, "the next request sees the binding");
    let review = json!({"spec": {"token": token}});
    let reviewed = admin.post("/apis/authentication.k8s.io/v1/tokenreviews", &review).await.json();
    assert_eq!(reviewed["status"]["authenticated"], true);
    let gone = admin.send(Method::DELETE, "/api/v1/namespaces/default/serviceaccounts/web", None).await;
    assert_eq!(gone.code, StatusCode::OK);
    assert_eq!(
        web.get("/api/v1/nodes").await.code,
        StatusCode::UNAUTHORIZED,
        "the token ends with its account"
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acting_as_somebody_else_needs_the_right_and_takes_the_own_ones_away() {
    let server = Running::start().await;
    let admin = server.admin(false).await;
    let bob = admin.with_header("impersonate-user", "bob").with_header("impersonate-group", "dev");
    let me = bob.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &json!({})).await.json();
    assert_eq!(me["status"]["userInfo"]["username"], "bob");
    assert_eq!(me["status"]["userInfo"]["groups"], json!(["dev", "system:authenticated"]));
    assert_eq!(bob.get("/api/v1/namespaces").await.code, StatusCode::FORBIDDEN);
    let token = server.node_identity("n1").await;
    let node = server.client(Some((&token.certificate, &token.key)), false).await;
    let refused = node.with_header("impersonate-user", "bob").get("/api/v1/nodes").await;
    assert_eq!(refused.code, StatusCode::FORBIDDEN);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_administrator_of_a_namespace_reaches_no_other_one() {
    let server = Running::start().await;
    let admin = server.admin(false).await;
    for name in ["foo", "bar"] {
        let made = admin.post("/api/v1/namespaces", &json!({"metadata": {"name": name}})).await;
        assert_eq!(made.code, StatusCode::CREATED, "{}", made.text());
    }
    let binding = json!({"metadata": {"name": "bob"}, "roleRef":
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}]});
    let bound = admin.post("/apis/rbac.authorization.k8s.io/v1/namespaces/foo/rolebindings", &binding).await;
    assert_eq!(bound.code, StatusCode::CREATED, "{}", bound.text());
    let bob = admin.with_header("impersonate-user", "bob");
    let gone = bob.send(Method::DELETE, "/api/v1/namespaces/foo/namespaces/bar", None).await;
    assert_eq!(gone.code, StatusCode::NOT_FOUND, "{}", gone.text());
    let review =
        json!({"spec": {"user": "alice", "resourceAttributes": {"verb": "get", "resource": "nodes"}}});
    let asked = bob.post("/apis/authorization.k8s.io/v1/namespaces/foo/subjectaccessreviews", &review).await;
    assert_eq!(asked.code, StatusCode::NOT_FOUND, "{}", asked.text());
    assert_eq!(bob.get("/api/v1/namespaces/foo").await.code, StatusCode::OK);
    let bar = admin.get("/api/v1/namespaces/bar").await.json();
    assert_eq!(bar["status"]["phase"], "Active");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_certificate_does_not_get_through_tls() {
    let server = Running::start().await;
    let elsewhere = Running::start().await;
    let foreign = elsewhere.admin_identity();
    let client = server.try_client(Some((&foreign.certificate, &foreign.key)), false).await;
    // TLS 1.3 clients learn of the refusal at their first read.
    let refused = match client {
        Err(_) => true,
        Ok(client) => client.try_send(Method::GET, "/livez", None).await.is_none(),
    };
    assert!(refused);
    server.stop().await;
    elsewhere.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_keeps_the_cluster() {
    let server = Running::start().await;
    let kubeconfig = server.kubeconfig();
    let namespace = json!({"metadata": {"name": "kept"}});
    assert_eq!(
        server.admin(true).await.post("/api/v1/namespaces", &namespace).await.code,
        StatusCode::CREATED
    );
    let server = server.restart().await;
    assert_eq!(server.kubeconfig(), kubeconfig);
    let kept = server.admin(true).await.get("/api/v1/namespaces/kept").await;
    assert_eq!(kept.code, StatusCode::OK);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_ends_in_order_when_the_server_stops() {
    let server = Running::start().await;
    let admin: Client = server.admin(true).await;
    let watch = admin.open("/api/v1/namespaces?watch=1&resourceVersion=0").await;
    assert_eq!(watch.status(), StatusCode::OK);
    let (body, ()) = tokio::join!(client::read(watch), server.stop());
    let first: Value = json_of(body.split(|b| *b == b'\n').next().unwrap());
    assert_eq!(first["type"], "ADDED");
}

#[tokio::test(flavor = "multi_thread")]
async fn controllers_of_this_process_act_under_a_role_of_their_own() {
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let server = Running::start_with(Some(std::sync::Arc::new(move |access: Access, over| {
        let sender = sender.clone();
        Box::pin(async move {
            sender.send(access)?;
            over.cancelled().await;
            Ok(())
        })
    })))
    .await;
    let access = receiver.recv().await.unwrap();
    assert!(access.ca_pem.starts_with("-----BEGIN CERTIFICATE-----"));
    let controllers = server.anonymous().await.with_token(&access.token);
    let me = controllers.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &json!({})).await.json();
    assert_eq!(me["status"]["userInfo"]["username"], "system:litek8s:controllers");
    assert_eq!(controllers.get("/api/v1/services").await.code, StatusCode::OK);
    assert_eq!(controllers.get("/api/v1/secrets").await.code, StatusCode::FORBIDDEN);
    let event = json!({"metadata": {"generateName": "e-"}, "reason": "Tested",
        "involvedObject": {"kind": "Namespace", "name": "default", "namespace": "default"}});
    let made = controllers.post("/api/v1/namespaces/default/events", &event).await;
    assert_eq!(made.code, StatusCode::CREATED, "{}", made.text());
    server.stop().await;
}
