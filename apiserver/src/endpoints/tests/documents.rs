//! Discovery and OpenAPI as kubectl asks for them.

use super::*;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

#[tokio::test]
async fn aggregated_discovery_is_chosen_by_accept_and_kept_by_tag() {
    let server = Server::start().await;
    for path in ["/api", "/apis"] {
        let answer = server.get_as(path, AGGREGATED).await;
        assert_eq!(answer.code, 200);
        assert_eq!(answer.body["kind"], "APIGroupDiscoveryList", "{}", answer.text);
        let media = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        assert_eq!(answer.headers["content-type"], media);
        let mut again = request(Method::GET, path, "", Bytes::new());
        again.headers_mut().insert("accept", AGGREGATED.parse().unwrap());
        again.headers_mut().insert("if-none-match", answer.headers["etag"].clone());
        assert_eq!(server.send(again).await.code, 304);
        let legacy = server.get_as(path, "application/json").await;
        assert_ne!(legacy.body["kind"], "APIGroupDiscoveryList");
        let beta =
            "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        assert_ne!(server.get_as(path, beta).await.body["kind"], "APIGroupDiscoveryList");
    }
    let groups = server.get_as("/apis", AGGREGATED).await.body;
    let apps = groups["items"].as_array().unwrap().iter().find(|g| g["metadata"]["name"] == "apps").unwrap();
    let deployments =
        apps["versions"][0]["resources"].as_array().unwrap().iter().find(|r| r["resource"] == "deployments");
    let deployments = deployments.unwrap();
    assert_eq!(
        (&deployments["scope"], &deployments["shortNames"]),
        (&json!("Namespaced"), &json!(["deploy"]))
    );
}

#[tokio::test]
async fn legacy_discovery_names_every_resource() {
    let server = Server::start().await;
    assert_eq!(server.get("/api").await.body["versions"], json!(["v1"]));
    let core = server.get("/api/v1").await.body;
    assert_eq!((&core["kind"], &core["groupVersion"]), (&json!("APIResourceList"), &json!("v1")));
    let all: Vec<_> =
        core["resources"].as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap()).collect();
    for name in ["pods", "pods/status", "pods/binding", "services", "namespaces/finalize"] {
        assert!(all.contains(&name), "{name} is not in {all:?}");
    }
    let group = server.get("/apis/apps").await.body;
    assert_eq!(
        (&group["kind"], &group["preferredVersion"]["groupVersion"]),
        (&json!("APIGroup"), &json!("apps/v1"))
    );
    assert_eq!(server.get("/apis/apps/v1").await.body["groupVersion"], "apps/v1");
    assert_eq!(server.get("/apis/none.example.com").await.code, 404);
    assert_eq!(server.get("/apis/apps/v9").await.code, 404);
}

#[tokio::test]
async fn a_schema_lives_under_its_hash() {
    let server = Server::start().await;
    let index = server.get("/openapi/v3").await.body;
    let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap();
    let schema = server.get(url).await;
    assert_eq!(schema.code, 200);
    assert_eq!(schema.headers["cache-control"], "public, immutable");
    let text = schema.text;
    assert!(
        text.contains("io.k8s.api.apps.v1.Deployment") && text.contains("x-kubernetes-group-version-kind")
    );
    let moved = server.get("/openapi/v3/apis/apps/v1?hash=OLD").await;
    assert_eq!((moved.code, moved.headers["location"].to_str().unwrap()), (301, url));
    let v2 = server.get("/openapi/v2").await;
    assert_eq!((v2.code, &v2.body["swagger"]), (200, &json!("2.0")));
    let protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    assert_eq!(server.get_as("/openapi/v2", protobuf).await.code, 200);
    assert_eq!(server.get_as("/openapi/v3/apis/apps/v1", protobuf).await.code, 406);
    assert_eq!(server.get("/openapi/v3/apis/none/v1").await.code, 404);
}
