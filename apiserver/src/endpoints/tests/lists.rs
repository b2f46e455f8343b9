//! Which state a list shows, and in which pieces.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::*;

#[tokio::test]
async fn a_list_shows_what_is_selected_in_order() {
    let server = Server::start().await;
    for (name, tier) in [("c", "web"), ("a", "db"), ("b", "web")] {
        server.config_map(name, json!({"tier": tier})).await;
    }
    let all = server.get(MAPS).await;
    assert_eq!((all.code, names(&all.body)), (200, vec!["a", "b", "c"]));
    assert_eq!(all.body["kind"], "ConfigMapList");
    assert_eq!(all.body["metadata"]["resourceVersion"], server.api.replica.view().revision().to_string());
    assert_eq!(names(&server.get(&format!("{MAPS}?labelSelector=tier%3Dweb")).await.body), ["b", "c"]);
    assert_eq!(names(&server.get(&format!("{MAPS}?labelSelector=tier+notin+(web)")).await.body), ["a"]);
    assert_eq!(names(&server.get(&format!("{MAPS}?fieldSelector=metadata.name%3Db")).await.body), ["b"]);
    assert_eq!(
        names(&server.get("/api/v1/configmaps?fieldSelector=metadata.name!%3Db").await.body),
        ["a", "c"]
    );
    assert!(names(&server.get("/api/v1/namespaces/kube-system/configmaps").await.body).is_empty());
}

#[tokio::test]
async fn wrong_selectors_and_versions_are_told_in_upstreams_words() {
    let server = Server::start().await;
    let cases = [
        ("fieldSelector=data.a%3Db", 400, "field label not supported: data.a"),
        ("labelSelector=a+b", 400, "unable to parse requirement"),
        ("resourceVersion=x", 400, "invalid resource version"),
        (
            "resourceVersionMatch=Exact",
            422,
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        (
            "resourceVersion=0&resourceVersionMatch=Exact",
            422,
            "\"exact\" is forbidden for resourceVersion \"0\"",
        ),
        (
            "resourceVersion=1&resourceVersionMatch=Nearly",
            422,
            "supported values: \"Exact\", \"NotOlderThan\"",
        ),
        (
            "resourceVersion=1&resourceVersionMatch=Exact&continue=x",
            422,
            "forbidden when continue is provided",
        ),
        ("sendInitialEvents=true", 422, "sendInitialEvents is forbidden for list"),
        ("continue=%25%25", 400, "continue key is not valid"),
        ("limit=x", 400, "strconv.ParseInt"),
    ];
    for (query, code, text) in cases {
        let answer = server.get(&format!("{MAPS}?{query}")).await;
        assert_eq!(answer.code, code, "{query}: {}", answer.text);
        assert_eq!(answer.body["kind"], "Status");
        let message = answer.body["message"].as_str().unwrap();
        assert!(message.contains(text), "{query}: {message}");
    }
}

#[tokio::test]
async fn chunks_stay_at_the_revision_of_the_first_one() {
    let server = Server::start().await;
    for name in ["a", "b", "c", "d", "e"] {
        server.config_map(name, json!({})).await;
    }
    let first = server.get(&format!("{MAPS}?limit=2")).await;
    assert_eq!(names(&first.body), ["a", "b"]);
    assert_eq!(first.body["metadata"]["remainingItemCount"], 3);
    server.delete(&format!("{MAPS}/c"), Value::Null).await;
    server.config_map("bb", json!({})).await;
    let token = first.body["metadata"]["continue"].as_str().unwrap();
    let second = server.get(&format!("{MAPS}?limit=2&continue={token}")).await;
    assert_eq!(names(&second.body), ["c", "d"]);
    assert_eq!(second.body["metadata"]["resourceVersion"], first.body["metadata"]["resourceVersion"]);
    let token = second.body["metadata"]["continue"].as_str().unwrap();
    let last = server.get(&format!("{MAPS}?limit=2&continue={token}")).await;
    assert_eq!(names(&last.body), ["e"]);
    assert!(last.body["metadata"].get("continue").is_none());
    let refused = server.get(&format!("{MAPS}?resourceVersion=3&continue={token}")).await;
    assert_eq!(refused.code, 400);
}

#[tokio::test]
async fn an_expired_token_comes_with_one_that_goes_on() {
    let server = Server::remembering(Limits { events: 4, ..Limits::default() }).await;
    for name in ["a", "b", "c"] {
        server.config_map(name, json!({})).await;
    }
    let first = server.get(&format!("{MAPS}?limit=1")).await;
    let old = first.body["metadata"]["continue"].as_str().unwrap();
    for name in ["d", "e", "f", "g", "h", "i"] {
        server.config_map(name, json!({})).await;
    }
    let answer = server.get(&format!("{MAPS}?limit=1&continue={old}")).await;
    assert_eq!((answer.code, &answer.body["reason"]), (410, &json!("Expired")), "{}", answer.text);
    assert!(answer.text.contains("The provided continue parameter is too old"));
    let token = answer.body["metadata"]["continue"].as_str().unwrap();
    let rest = server.get(&format!("{MAPS}?continue={token}")).await;
    assert_eq!(names(&rest.body), ["b", "c", "d", "e", "f", "g", "h", "i"]);
    let gone = server.get(&format!("{MAPS}?resourceVersion=2&resourceVersionMatch=Exact")).await;
    assert_eq!((gone.code, &gone.body["reason"]), (410, &json!("Expired")));
}

#[tokio::test]
async fn a_list_that_takes_too_long_is_told_so() {
    let server = Server::start().await;
    for name in ["a", "b", "c"] {
        server.config_map(name, json!({})).await;
    }
    let first = server.get(&format!("{MAPS}?limit=1")).await;
    let given = first.body["metadata"]["continue"].as_str().unwrap();
    let mut token: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(given).unwrap()).unwrap();
    token["since"] = json!(token["since"].as_i64().unwrap() - 301);
    let old = URL_SAFE_NO_PAD.encode(token.to_string());
    let answer = server.get(&format!("{MAPS}?limit=1&continue={old}")).await;
    assert_eq!((answer.code, &answer.body["reason"]), (410, &json!("Expired")), "{}", answer.text);
    let next = answer.body["metadata"]["continue"].as_str().unwrap();
    let rest = server.get(&format!("{MAPS}?limit=1&continue={next}")).await;
    assert_eq!(names(&rest.body), ["b"]);
    assert_eq!(rest.body["metadata"]["remainingItemCount"], 1);
}

#[tokio::test]
async fn versions_choose_the_state() {
    let server = Server::start().await;
    let first = server.config_map("a", json!({})).await;
    let version = first.body["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    server.config_map("b", json!({})).await;
    let list = |query: String| async move { server.get(&format!("{MAPS}?{query}")).await };
    let exact = list(format!("resourceVersion={version}&resourceVersionMatch=Exact")).await;
    assert_eq!(names(&exact.body), ["a"]);
    assert_eq!(exact.body["metadata"]["resourceVersion"], version.as_str());
}

#[tokio::test]
async fn a_version_not_reached_is_waited_for_and_then_a_timeout() {
    let server = Server::start().await;
    let answer = server.get(&format!("{MAPS}?resourceVersion=1000000")).await;
    assert_eq!(answer.code, 504, "{}", answer.text);
    assert_eq!(answer.body["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    assert_eq!(answer.body["details"]["retryAfterSeconds"], 1);
}

#[tokio::test]
async fn tables_and_metadata_are_forms_of_every_read() {
    let server = Server::start().await;
    server.config_map("a", json!({"x": "y"})).await;
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    for path in [MAPS.to_owned(), format!("{MAPS}/a")] {
        let answer = server.get_as(&path, table).await;
        assert_eq!(answer.body["kind"], "Table", "{}", answer.text);
        assert_eq!(answer.body["rows"][0]["cells"][0], "a");
        assert_eq!(answer.body["rows"][0]["object"]["kind"], "PartialObjectMetadata");
        assert_eq!(answer.headers["content-type"], "application/json");
    }
    let partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let one = server.get_as(&format!("{MAPS}/a"), partial).await;
    assert_eq!(one.body["kind"], "PartialObjectMetadata");
    assert!(one.body.get("data").is_none());
    let list = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let all = server.get_as(MAPS, list).await;
    assert_eq!(all.body["items"][0]["kind"], "PartialObjectMetadata");
    assert_eq!(server.get_as(MAPS, partial).await.code, 406);
    let none = server.get_as(&format!("{MAPS}?includeObject=None"), table).await;
    assert!(none.body["rows"][0]["object"].is_null());
    let yaml = server.get_as(&format!("{MAPS}/a"), "application/yaml").await;
    assert!(yaml.text.contains("kind: ConfigMap"), "{}", yaml.text);
}

#[tokio::test]
async fn what_is_not_served_is_a_status() {
    let server = Server::start().await;
    for (path, code) in [
        ("/api/v1/namespaces/default/nothings", 404),
        ("/api/v1/namespaces/default/configmaps/x", 404),
        ("/apis/none.example.com/v1/x", 404),
        ("/api/v1/namespaces/default/configmaps/x/scale", 404),
    ] {
        let answer = server.get(path).await;
        assert_eq!((answer.code, &answer.body["kind"]), (code, &json!("Status")), "{path}");
    }
    for (method, path) in [
        (Method::PUT, MAPS),
        (Method::PATCH, MAPS),
        (Method::POST, "/api/v1/namespaces/default/configmaps/x"),
        (Method::PUT, "/api/v1/nodes"),
    ] {
        let media = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let answer = server.send(request(method.clone(), path, media, "{}".into())).await;
        assert_eq!(
            (answer.code, &answer.body["reason"]),
            (405, &json!("MethodNotAllowed")),
            "{method} {path}"
        );
    }
    let answer = server.get("/api/v1/namespaces/default/configmaps/x").await;
    assert_eq!(answer.body["message"], "configmaps \"x\" not found");
}
