//! Proxies of nodes, pods and Services to a web server that tells what it was asked.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls_pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::place::{Place, until};
use crate::client::Client;

const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
const POD_IP: &str = "10.42.1.5";

/// Starts it on loopback, with TLS or without; its port.
async fn web_server(tls: bool) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let acceptor = acceptor();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                if tls {
                    serve(acceptor.accept(stream).await.unwrap()).await;
                } else {
                    serve(stream).await;
                }
            });
        }
    });
    port
}

fn acceptor() -> TlsAcceptor {
    let made = rcgen::generate_simple_self_signed(vec!["nobody.example".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
    let service = service_fn(|request| async move { Ok::<_, Infallible>(answer(request).await) });
    let connection =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // Whoever goes away half-way is no concern.
    let _ = connection.with_upgrades().await;
}

async fn answer(mut request: Request<Incoming>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    match request.uri().path() {
        "/teapot" => *response.status_mut() = StatusCode::IM_A_TEAPOT,
        "/away" => {
            *response.status_mut() = StatusCode::FOUND;
            response.headers_mut().insert(header::LOCATION, "/login?next=away".parse().unwrap());
        }
        "/shout" => {
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            response.headers_mut().insert(header::CONNECTION, "Upgrade".parse().unwrap());
            response.headers_mut().insert(header::UPGRADE, "shout".parse().unwrap());
            let upgrade = hyper::upgrade::on(&mut request);
            tokio::spawn(async move {
                let mut stream = TokioIo::new(upgrade.await.unwrap());
                let mut five = [0; 5];
                while stream.read_exact(&mut five).await.is_ok() {
                    five.make_ascii_uppercase();
                    stream.write_all(&five).await.unwrap();
                }
            });
        }
        _ => {
            let told = told(request).await;
            response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, "*".parse().unwrap());
            *response.body_mut() = Full::new(Bytes::from(told.to_string()));
        }
    }
    response
}

async fn told(request: Request<Incoming>) -> Value {
    let (parts, body) = request.into_parts();
    let headers: serde_json::Map<String, Value> = parts
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), json!(value.to_str().unwrap_or_default())))
        .collect();
    let body = body.collect().await.unwrap().to_bytes();
    json!({"method": parts.method.as_str(), "uri": parts.uri.to_string(), "headers": headers,
        "body": String::from_utf8_lossy(&body)})
}

/// Says of the pod what its node would: where it is.
async fn addressed(admin: &Client, pod: &str, ip: &str) {
    let status = json!({"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}]}});
    let patch = admin.with_header("content-type", "application/merge-patch+json");
    let done = patch.send(Method::PATCH, &format!("{PODS}/{pod}/status"), Some(&status)).await;
    assert_eq!(done.code, StatusCode::OK, "{}", done.text());
}

fn message(answer: &crate::client::Answer) -> String {
    answer.json()["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_gets_the_request_without_what_is_for_the_server() {
    let place = Place::start().await;
    let port = web_server(false).await;
    for http2 in [false, true] {
        let admin = place.server.admin(http2).await;
        addressed(&admin, "web", POD_IP).await;
        let pod = format!("{PODS}/web:{port}/proxy");
        let client = admin
            .with_header("authorization", "Basic c2VjcmV0")
            .with_header("x-remote-user", "root")
            .with_header("x-mine", "1")
            .with_header("cookie", "a=b");
        let answer =
            client.send(Method::POST, &format!("{pod}/a%20b/c/?q=%2F"), Some(&json!({"k": "v"}))).await;
        assert_eq!(answer.code, StatusCode::OK, "{}", answer.text());
        assert!(answer.headers.get(header::ACCESS_CONTROL_ALLOW_ORIGIN).is_none());
        let told = answer.json();
        assert_eq!((&told["method"], &told["uri"]), (&json!("POST"), &json!("/a%20b/c/?q=%2F")));
        assert_eq!(told["body"], r#"{"k":"v"}"#);
        let headers = &told["headers"];
        assert_eq!((&headers["x-mine"], &headers["cookie"]), (&json!("1"), &json!("a=b")));
        assert_eq!(headers["x-forwarded-uri"], format!("{pod}/a%20b/c/"));
        assert_eq!(headers["x-forwarded-for"], "127.0.0.1");
        for hidden in ["authorization", "x-remote-user"] {
            assert!(headers[hidden].is_null(), "{headers}");
        }
        for (method, path) in [(Method::DELETE, "/x"), (Method::OPTIONS, "/"), (Method::PUT, "/y?z")] {
            let told = admin.send(method.clone(), &format!("{pod}{path}"), None).await.json();
            assert_eq!((&told["method"], &told["uri"]), (&json!(method.as_str()), &json!(path)));
        }
        assert_eq!(admin.get(&format!("{pod}/teapot")).await.code, StatusCode::IM_A_TEAPOT);
        let away = admin.get(&format!("{pod}/away")).await;
        assert_eq!(away.headers[header::LOCATION], format!("{pod}/login?next=away"));
        let root = admin.get(&format!("{pod}?q=1")).await;
        assert_eq!(root.code, StatusCode::MOVED_PERMANENTLY);
        assert_eq!(root.headers[header::LOCATION], format!("{pod}/?q=1"));
    }
    place.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_cannot_be_asked_says_why() {
    let place = Place::start().await;
    let admin = place.server.admin(true).await;
    let refused = async |path: &str, code: u16, wanted: &str| {
        let answer = admin.get(path).await;
        assert_eq!((answer.code.as_u16(), message(&answer).as_str()), (code, wanted), "{path}");
    };
    let invalid = "invalid pod request \"ftp:web:21\"";
    refused(&format!("{PODS}/ftp:web:21/proxy/"), 400, invalid).await;
    refused(&format!("{PODS}/none/proxy/"), 404, "pods \"none\" not found").await;
    refused(&format!("{PODS}/web/proxy/"), 400, "address not allowed").await;
    addressed(&admin, "web", "127.0.0.1").await;
    refused(&format!("{PODS}/web/proxy/"), 400, "address not allowed").await;
    addressed(&admin, "web", POD_IP).await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let why =
        format!("error trying to reach service: dial tcp {POD_IP}:{closed}: connect: connection refused");
    refused(&format!("{PODS}/web:{closed}/proxy/"), 503, &why).await;
    let place = place.without_agent().await;
    until(async || {
        message(&admin.get(&format!("{PODS}/web:{closed}/proxy/")).await).contains("is not connected")
    })
    .await;
    place.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_is_asked_by_a_ready_pod_of_its_own_namespace() {
    let place = Place::start().await;
    let admin = place.server.admin(true).await;
    let (plain, secure) = (web_server(false).await, web_server(true).await);
    let ports = |plain: Value, secure: Value| json!([{"name": "http", "port": plain}, {"name": "https", "port": secure}]);
    let service = json!({"metadata": {"name": "web"}, "spec": {"ports": ports(json!(80), json!(443))}});
    assert_eq!(admin.post(SERVICES, &service).await.code, StatusCode::CREATED);
    let asked = async |name: &str| admin.get(&format!("{SERVICES}/{name}/proxy/hello?x=1")).await;
    let nobody = |name: &str| format!("no endpoints available for service {name:?}");
    assert_eq!(message(&asked("web:http").await), nobody("web:http"));
    addressed(&admin, "web", POD_IP).await;
    let slice = |target: Value| {
        json!({"metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4", "ports": ports(json!(plain), json!(secure)),
            "endpoints": [{"addresses": [POD_IP], "targetRef": target}]})
    };
    // Whoever writes slices must not choose whom the server asks.
    for target in [json!(null), json!({"kind": "Pod", "namespace": "kube-system", "name": "web"})] {
        let made = admin.post(SLICES, &slice(target)).await;
        assert_eq!(made.code, StatusCode::CREATED, "{}", made.text());
        assert_eq!(message(&asked("web:http").await), nobody("web:http"));
        admin.send(Method::DELETE, &format!("{SLICES}/web-1"), None).await;
    }
    let target = json!({"kind": "Pod", "namespace": "default", "name": "web"});
    assert_eq!(admin.post(SLICES, &slice(target)).await.code, StatusCode::CREATED);
    for name in ["web:http", "web:80", "http:web:80", "https:web:443", "https:web:https"] {
        let answer = asked(name).await;
        assert_eq!(answer.code, StatusCode::OK, "{name}: {}", answer.text());
        assert_eq!(answer.json()["uri"], "/hello?x=1");
    }
    let answer = asked("web:81").await;
    assert_eq!(message(&answer), "no service port 81 found for service \"web\"");
    assert_eq!(answer.code, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(message(&asked("web").await), nobody("web"), "no port is without a name");
    assert_eq!(message(&asked("none").await), "services \"none\" not found");
    addressed(&admin, "web", "10.42.1.6").await;
    assert_eq!(message(&asked("web:http").await), nobody("web:http"), "the pod has another address");
    place.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_shows_its_agent_and_what_listens_on_it() {
    let place = Place::start().await;
    let admin = place.server.admin(true).await;
    let own = |path: &str| format!("/api/v1/nodes/n1/proxy/{path}");
    assert_eq!(message(&admin.get(&own("healthz")).await), "nodes \"n1\" not found");
    let status = json!({"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]});
    let node = json!({"metadata": {"name": "n1"}, "status": status});
    assert_eq!(admin.post("/api/v1/nodes", &node).await.code, StatusCode::CREATED);
    let patch = admin.with_header("content-type", "application/merge-patch+json");
    patch.send(Method::PATCH, "/api/v1/nodes/n1/status", Some(&json!({"status": status}))).await;
    assert_eq!(admin.get(&own("healthz")).await.text(), "ok");
    let metrics = place.kubectl(&["get", "--raw", &own("metrics")]).await.ok();
    assert!(metrics.contains("process_threads"), "{metrics}");
    for hidden in ["containerLogs/default/web/app", "dial?address=192.0.2.1&port=22", "own/healthz"] {
        assert_eq!(admin.get(&own(hidden)).await.code, StatusCode::NOT_FOUND, "{hidden}");
    }
    assert_eq!(admin.post(&own("healthz"), &json!({})).await.code, StatusCode::METHOD_NOT_ALLOWED);
    let port = web_server(false).await;
    let told = admin.get(&format!("/api/v1/nodes/n1:{port}/proxy/x")).await.json();
    assert_eq!(told["uri"], "/x");
    place.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgraded_connection_goes_both_ways_until_one_side_ends() {
    let place = Place::start().await;
    let admin = place.server.admin(false).await;
    addressed(&admin, "web", POD_IP).await;
    let port = web_server(false).await;
    let client = admin.with_header("connection", "Upgrade").with_header("upgrade", "shout");
    let response = client.open(&format!("{PODS}/web:{port}/proxy/shout")).await;
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    assert_eq!(response.headers()[header::UPGRADE], "shout");
    let mut stream = TokioIo::new(hyper::upgrade::on(response).await.unwrap());
    for (said, heard) in [(b"hello", b"HELLO"), (b"again", b"AGAIN")] {
        stream.write_all(said).await.unwrap();
        let mut five = [0; 5];
        stream.read_exact(&mut five).await.unwrap();
        assert_eq!(&five, heard);
    }
    let open = "apiserver_longrunning_requests{";
    let proxied = |text: &str| {
        let mut lines =
            text.lines().filter(|line| line.starts_with(open) && line.contains("subresource=\"proxy\""));
        lines.any(|line| line.ends_with(" 1"))
    };
    let other = place.server.admin(true).await;
    other.until_text("/metrics", proxied).await;
    drop(stream);
    other.until_text("/metrics", |text| !proxied(text)).await;
    // One that does not change protocols answers as ever.
    let plain =
        place.server.admin(false).await.with_header("connection", "Upgrade").with_header("upgrade", "x");
    assert_eq!(plain.get(&format!("{PODS}/web:{port}/proxy/plain")).await.json()["headers"]["upgrade"], "x");
    place.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_proxy_what_and_how_is_the_subresources_matter() {
    let place = Place::start().await;
    let admin = place.server.admin(true).await;
    addressed(&admin, "web", POD_IP).await;
    let port = web_server(false).await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let role = json!({"metadata": {"name": "look"}, "rules": [{"apiGroups": [""], "resources": ["pods/proxy"],
        "resourceNames": [format!("web:{port}")], "verbs": ["get"]}]});
    let binding = json!({"metadata": {"name": "look"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "look"},
        "subjects": [{"kind": "User", "name": "eve", "apiGroup": "rbac.authorization.k8s.io"}]});
    for (kind, object) in [("roles", role), ("rolebindings", binding)] {
        assert_eq!(admin.post(&format!("{rbac}/{kind}"), &object).await.code, StatusCode::CREATED);
    }
    let eve = place.server.admin(true).await.with_header("impersonate-user", "eve");
    let pod = format!("{PODS}/web:{port}/proxy/x");
    let told = eve.get(&pod).await;
    assert_eq!(told.code, StatusCode::OK, "{}", told.text());
    assert!(told.json()["headers"]["impersonate-user"].is_null());
    let refused = eve.post(&pod, &json!({})).await;
    assert_eq!(refused.code, StatusCode::FORBIDDEN);
    assert!(message(&refused).contains("cannot create resource \"pods/proxy\""), "{}", message(&refused));
    assert_eq!(eve.get(&format!("{PODS}/web/proxy/x")).await.code, StatusCode::FORBIDDEN);

    let group = "/apis/admissionregistration.k8s.io/v1";
    let policy = json!({"metadata": {"name": "no-admin"}, "spec": {
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
            "operations": ["CONNECT"], "resources": ["pods/proxy"]}]},
        "validations": [{"expression": "!object.path.startsWith('/admin')", "message": "not there"}]}});
    let binding = json!({"metadata": {"name": "no-admin"},
        "spec": {"policyName": "no-admin", "validationActions": ["Deny"]}});
    for (kind, object) in
        [("validatingadmissionpolicies", policy), ("validatingadmissionpolicybindings", binding)]
    {
        let made = admin.post(&format!("{group}/{kind}"), &object).await;
        assert_eq!(made.code, StatusCode::CREATED, "{}", made.text());
    }
    let denied = admin.get(&format!("{PODS}/web:{port}/proxy/%61dmin")).await;
    assert!(message(&denied).contains("denied request: not there"), "{}", denied.text());
    assert_eq!(admin.get(&pod).await.code, StatusCode::OK);
    place.stop().await;
}
