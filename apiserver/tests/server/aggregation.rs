//! Groups that others serve: proxied for the user, watched over, and never in the way when they are dead.

use http::{Method, StatusCode};
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::backend::{API_SERVICES, Backend, NAME, available};
use crate::client::{Running, json_of};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const THINGS: &str = "/apis/things.example.com/v1/namespaces/default/things";

#[tokio::test(flavor = "multi_thread")]
async fn an_aggregated_group_is_asked_for_the_user_and_streams_both_ways() {
    let server = Running::start().await;
    let admin = server.admin(true).await;
    let backend = Backend::start(&admin).await;
    backend.register(&admin).await;
    assert_eq!(available(&admin, "Passed").await, "all checks passed");

    let spoofing = admin.with_header("x-remote-user", "root").with_header("x-remote-extra-scopes", "all");
    let jane =
        spoofing.with_header("impersonate-user", "jane").with_header("impersonate-group", "system:masters");
    let seen = jane.get(&format!("{THINGS}/one")).await.json();
    assert_eq!(seen["user"], json!(["jane"]));
    assert_eq!(seen["groups"], json!(["system:masters", "system:authenticated"]));
    assert_eq!((&seen["extra"], &seen["impersonate"]), (&json!([]), &json!([])));
    assert_eq!(
        (&seen["host"], &seen["forwarded"]),
        (&json!(["things.default.svc:443"]), &json!(["127.0.0.1"]))
    );
    let nobody = admin.with_header("impersonate-user", "nobody");
    assert_eq!(nobody.get(THINGS).await.code, StatusCode::FORBIDDEN, "roles are asked before backends");

    let large = json!({"data": "x".repeat(4 << 20)});
    let made = admin.post(THINGS, &large).await;
    assert_eq!((made.code, made.json() == large), (StatusCode::CREATED, true), "a body has no limit here");
    assert_eq!(admin.get(&format!("{THINGS}/redirect")).await.code, StatusCode::BAD_GATEWAY);

    let mut watch = admin.open(&format!("{THINGS}?watch=1")).await;
    let first = watch.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(json_of(&first)["object"]["metadata"]["name"], "a", "events come one by one");
    let rest = watch.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(json_of(&rest)["object"]["metadata"]["name"], "b");

    let upgrading =
        server.admin(false).await.with_header("connection", "Upgrade").with_header("upgrade", "echo");
    let switched = upgrading.open(&format!("{THINGS}/one/echo")).await;
    assert_eq!(switched.status(), StatusCode::SWITCHING_PROTOCOLS);
    let mut stream = TokioIo::new(hyper::upgrade::on(switched).await.unwrap());
    stream.write_all(b"hello").await.unwrap();
    let mut heard = [0; 5];
    stream.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"hello");
    drop(stream);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_condition_says_what_a_backend_lacks_and_requests_are_told() {
    let server = Running::start().await;
    let admin = server.admin(true).await;
    let backend = Backend::start(&admin).await;
    backend.register(&admin).await;
    available(&admin, "Passed").await;
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let unready = json!({"endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": false}}]});
    let patch = admin.with_content("application/merge-patch+json");
    assert_eq!(
        patch.send(Method::PATCH, &format!("{slices}/things"), Some(&unready)).await.code,
        StatusCode::OK
    );
    let text = r#"endpointslices for service/things in "default" have no addresses with port name "https""#;
    assert_eq!(available(&admin, "MissingEndpoints").await, text);
    let refused = admin.get(THINGS).await;
    assert_eq!(refused.code, StatusCode::SERVICE_UNAVAILABLE);
    let status = refused.json();
    assert_eq!((&status["kind"], &status["reason"]), (&json!("Status"), &json!("ServiceUnavailable")));
    assert!(status["message"].as_str().unwrap().contains(text), "{status}");

    backend.kill();
    let ready = json!({"endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": true}}]});
    patch.send(Method::PATCH, &format!("{slices}/things"), Some(&ready)).await;
    let text = available(&admin, "FailedDiscoveryCheck").await;
    assert!(text.contains("/apis/things.example.com/v1: ") && text.contains("onnection refused"), "{text}");
    admin.send(Method::DELETE, &format!("{slices}/things"), None).await;
    assert_eq!(
        available(&admin, "EndpointsNotFound").await,
        r#"cannot find endpointslices for service/things in "default""#
    );
    admin.send(Method::DELETE, "/api/v1/namespaces/default/services/things", None).await;
    assert_eq!(available(&admin, "ServiceNotFound").await, r#"service/things in "default" is not present"#);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_served_here_has_local_apiservices_and_theirs_go_with_a_definition() {
    let server = Running::start().await;
    let admin = server.admin(true).await;
    let local = |object: &Value| object["status"]["conditions"][0]["reason"] == "Local";
    let apps = admin.until(&format!("{API_SERVICES}/v1.apps"), local).await;
    assert_eq!(
        apps["spec"],
        json!({"group": "apps", "version": "v1", "groupPriorityMinimum": 17800, "versionPriority": 15})
    );
    assert_eq!(apps["metadata"]["labels"], json!({"kube-aggregator.kubernetes.io/automanaged": "onstart"}));
    let core = admin.get(&format!("{API_SERVICES}/v1.")).await.json();
    assert_eq!(core["spec"], json!({"version": "v1", "groupPriorityMinimum": 18000, "versionPriority": 1}));
    let own = admin.get(&format!("{API_SERVICES}/v1.apiregistration.k8s.io")).await;
    assert_eq!(own.code, StatusCode::NOT_FOUND);
    let table = admin
        .with_header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .get(API_SERVICES)
        .await
        .json();
    assert_eq!(
        table["rows"][0]["cells"].as_array().unwrap()[..3],
        [json!("v1."), json!("Local"), json!("True")]
    );

    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let definition = json!({"metadata": {"name": "toys.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "toys", "kind": "Toy"},
        "versions": [{"name": "v1beta1", "served": true, "storage": true, "schema": schema}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(admin.post(definitions, &definition).await.code, StatusCode::CREATED);
    let toys = format!("{API_SERVICES}/v1beta1.example.com");
    let made = admin.until(&toys, local).await;
    assert_eq!(made["metadata"]["labels"], json!({"kube-aggregator.kubernetes.io/automanaged": "true"}));
    assert_eq!(made["spec"]["groupPriorityMinimum"], 1000);
    admin.send(Method::DELETE, &toys, None).await;
    admin.until(&toys, local).await;
    admin.send(Method::DELETE, &format!("{definitions}/toys.example.com"), None).await;
    admin.until(&toys, |object| object["code"] == 404).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_apiservice_that_contradicts_itself_is_refused() {
    let server = Running::start().await;
    let admin = server.admin(true).await;
    let service = json!({"namespace": "default", "name": "things"});
    for (more, field) in [
        (json!({"caBundle": "eA=="}), "spec.caBundle"),
        (json!({"insecureSkipTLSVerify": true}), "spec.insecureSkipTLSVerify"),
        (json!({"service": {"name": "things"}}), "spec.service.namespace"),
        (
            json!({"service": service, "caBundle": "eA==", "insecureSkipTLSVerify": true}),
            "may not be true if caBundle",
        ),
    ] {
        let mut spec = json!({"group": "things.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let refused = admin.post(API_SERVICES, &json!({"metadata": {"name": NAME}, "spec": spec})).await;
        assert_eq!(refused.code, StatusCode::UNPROCESSABLE_ENTITY, "{field}");
        assert!(refused.text().contains(field), "{}", refused.text());
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn discovery_and_openapi_have_the_backends_and_live_on_without_them() {
    let server = Running::start().await;
    let admin = server.admin(true).await;
    let aggregated = admin.with_header("accept", AGGREGATED);
    let backend = Backend::start(&admin).await;
    backend.register(&admin).await;
    let of_group = |list: &Value| -> Option<Value> {
        let items = list["items"].as_array().unwrap();
        items.iter().find(|item| item["metadata"]["name"] == "things.example.com").cloned()
    };
    let freshness = |list: &Value| of_group(list).map(|group| group["versions"][0]["freshness"].clone());
    let list = aggregated.until("/apis", |list| freshness(list) == Some(json!("Current"))).await;
    let things = of_group(&list).unwrap()["versions"][0]["resources"][0].clone();
    assert_eq!((&things["resource"], &things["scope"]), (&json!("things"), &json!("Namespaced")));
    assert_eq!(
        things["responseKind"],
        json!({"group": "things.example.com", "version": "v1", "kind": "Thing"})
    );
    assert_eq!(things["subresources"][0]["subresource"], "echo");
    let names: Vec<&Value> =
        list["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]).collect();
    assert_eq!(
        (names[0], names[names.len() - 1]),
        (&json!("apiregistration.k8s.io"), &json!("things.example.com"))
    );
    assert!(admin.get("/apis").await.text().contains("things.example.com"));
    assert_eq!(admin.get("/apis/things.example.com").await.json()["preferredVersion"]["version"], "v1");
    assert_eq!(admin.get("/apis/things.example.com/v1").await.json()["resources"][0]["name"], "things");
    let index = admin.get("/openapi/v3").await.json();
    let url = index["paths"]["apis/things.example.com/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
    assert!(admin.get(&url).await.text().contains("com.example.Thing"), "{url}");
    let swagger = admin.get("/openapi/v2").await.json();
    assert!(swagger["definitions"]["com.example.Thing"].is_object());
    assert!(
        swagger["definitions"]["com.example.Unused"].is_null() && swagger["paths"]["/elsewhere"].is_null()
    );
    assert!(swagger["definitions"]["io.k8s.api.apps.v1.Deployment"].is_object());

    backend.kill();
    let unready = json!({"endpoints": []});
    let slice = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/things";
    admin.with_content("application/merge-patch+json").send(Method::PATCH, slice, Some(&unready)).await;
    let list = aggregated.until("/apis", |list| freshness(list) == Some(json!("Stale"))).await;
    assert_eq!(of_group(&list).unwrap()["versions"][0]["resources"][0]["resource"], "things");
    for path in ["/apis", "/openapi/v3", "/openapi/v2"] {
        let answer = admin.get(path).await;
        assert_eq!(answer.code, StatusCode::OK, "{path}");
        assert!(answer.text().contains("apps") && !answer.text().contains("things.example.com"), "{path}");
    }
    let gone = admin.get("/apis/things.example.com/v1").await;
    assert_eq!(gone.code, StatusCode::SERVICE_UNAVAILABLE);
    admin.send(Method::DELETE, &format!("{API_SERVICES}/{NAME}"), None).await;
    aggregated.until("/apis", |list| of_group(list).is_none()).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_is_emptied_at_its_backends_and_not_held_by_a_dead_one() {
    let server = Running::start().await;
    let admin = server.admin(true).await;
    let backend = Backend::start(&admin).await;
    backend.register(&admin).await;
    available(&admin, "Passed").await;
    let gone = |object: &Value| object["code"] == 404;
    for name in ["alive", "dead"] {
        let made = admin.post("/api/v1/namespaces", &json!({"metadata": {"name": name}})).await;
        assert_eq!(made.code, StatusCode::CREATED);
    }
    admin.send(Method::DELETE, "/api/v1/namespaces/alive", None).await;
    admin.until("/api/v1/namespaces/alive", gone).await;
    let deleted = "DELETE /apis/things.example.com/v1/namespaces/alive/things";
    assert!(backend.asked().iter().any(|asked| asked == deleted), "{:?}", backend.asked());

    // A request that is never answered is of its own namespace only.
    for name in ["hanging", "other"] {
        let made = admin.post("/api/v1/namespaces", &json!({"metadata": {"name": name}})).await;
        assert_eq!(made.code, StatusCode::CREATED);
    }
    admin.send(Method::DELETE, "/api/v1/namespaces/hanging", None).await;
    backend.until_asked("DELETE /apis/things.example.com/v1/namespaces/hanging/things").await;
    let begun = std::time::Instant::now();
    admin.send(Method::DELETE, "/api/v1/namespaces/other", None).await;
    admin.until("/api/v1/namespaces/other", gone).await;
    assert!(begun.elapsed().as_secs() < 4, "{:?}", begun.elapsed());
    assert_eq!(admin.get("/api/v1/namespaces/hanging").await.code, StatusCode::OK);

    backend.kill();
    let config = json!({"metadata": {"name": "kept", "finalizers": ["example.com/hold"]}});
    assert_eq!(admin.post("/api/v1/namespaces/dead/configmaps", &config).await.code, StatusCode::CREATED);
    admin.send(Method::DELETE, "/api/v1/namespaces/dead", None).await;
    let failing = |object: &Value| {
        let conditions = object["status"]["conditions"].as_array();
        conditions
            .is_some_and(|all| all.iter().any(|c| c["reason"] == "DiscoveryFailed" && c["status"] == "True"))
    };
    admin.until("/api/v1/namespaces/dead", failing).await;
    let free = json!({"metadata": {"finalizers": null}});
    let patch = admin.with_content("application/merge-patch+json");
    patch.send(Method::PATCH, "/api/v1/namespaces/dead/configmaps/kept", Some(&free)).await;
    admin.until("/api/v1/namespaces/dead", gone).await;
    server.stop().await;
}
