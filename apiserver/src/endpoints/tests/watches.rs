//! What watchers are told, in which order, and how a watch begins and ends.

use super::*;
use crate::response::Body;

/// An open watch.
struct Events {
    body: Body,
    pending: String,
}

impl Events {
    /// The next event, within two seconds.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some(end) = self.pending.find('\n') {
                let line: String = self.pending.drain(..=end).collect();
                let event: Value = serde_json::from_str(&line).unwrap();
                return Some((event["type"].as_str().unwrap().to_owned(), event["object"].clone()));
            }
            let frame =
                tokio::time::timeout(std::time::Duration::from_secs(2), self.body.frame()).await.ok()??;
            self.pending.push_str(std::str::from_utf8(frame.unwrap().data_ref().unwrap()).unwrap());
        }
    }

    async fn named(&mut self) -> Option<(String, String)> {
        let (kind, object) = self.next().await?;
        Some((kind, object["metadata"]["name"].as_str().unwrap_or_default().to_owned()))
    }
}

impl Server {
    async fn watch(&self, query: &str, accept: &str) -> Events {
        let mut request = request(Method::GET, &format!("{MAPS}?watch=true&{query}"), "", Bytes::new());
        if !accept.is_empty() {
            request.headers_mut().insert(http::header::ACCEPT, accept.parse().unwrap());
        }
        let (response, _) = self.open(request).await;
        assert_eq!(response.status(), 200);
        Events { body: response.into_body(), pending: String::new() }
    }
}

fn event(kind: &str, name: &str) -> Option<(String, String)> {
    Some((kind.to_owned(), name.to_owned()))
}

#[tokio::test]
async fn a_watch_from_a_version_tells_every_later_event_once_in_order() {
    let server = Server::start().await;
    let version = server.config_map("a", json!({})).await.body["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned();
    server.config_map("b", json!({})).await;
    let mut events = server.watch(&format!("resourceVersion={version}"), "").await;
    assert_eq!(events.named().await, event("ADDED", "b"));
    server.patch(&format!("{MAPS}/a"), "application/merge-patch+json", json!({"data": {"x": "y"}})).await;
    assert_eq!(events.named().await, event("MODIFIED", "a"));
    server.delete(&format!("{MAPS}/a"), Value::Null).await;
    let (kind, object) = events.next().await.unwrap();
    assert_eq!(kind, "DELETED");
    assert_eq!(object["metadata"]["resourceVersion"], server.api.replica.view().revision().to_string());
    assert_eq!(object["data"], json!({"a": "b", "x": "y"}));
}

#[tokio::test]
async fn a_watch_from_nothing_begins_with_what_is_there() {
    let server = Server::start().await;
    server.config_map("a", json!({})).await;
    for query in ["", "resourceVersion=0"] {
        let mut events = server.watch(query, "").await;
        assert_eq!(events.named().await, event("ADDED", "a"), "{query}");
    }
}

#[tokio::test]
async fn initial_events_end_with_the_annotated_bookmark() {
    let server = Server::start().await;
    let list = "allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let is_end = |object: &Value| object["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true";
    let mut empty = server.watch(list, "").await;
    let (kind, object) = empty.next().await.unwrap();
    assert!(kind == "BOOKMARK" && is_end(&object), "{object}");
    assert_eq!((&object["kind"], &object["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
    server.config_map("a", json!({"tier": "web"})).await;
    server.config_map("b", json!({})).await;
    for accept in ["", table, partial] {
        let mut events = server.watch(&format!("{list}&labelSelector=tier"), accept).await;
        assert_eq!(events.next().await.unwrap().0, "ADDED");
        let (kind, object) = events.next().await.unwrap();
        let object = if accept == table { object["rows"][0]["object"].clone() } else { object };
        assert!(kind == "BOOKMARK" && is_end(&object), "{accept}: {object}");
        assert!(object["metadata"]["resourceVersion"].is_string());
        server
            .patch(&format!("{MAPS}/a"), "application/merge-patch+json", json!({"data": {"n": accept}}))
            .await;
        assert_eq!(events.next().await.unwrap().0, "MODIFIED");
    }
}

#[tokio::test]
async fn entering_and_leaving_a_selector_are_added_and_deleted() {
    let server = Server::start().await;
    let mut events = server.watch("labelSelector=tier%3Dweb", "").await;
    server.config_map("a", json!({"tier": "db"})).await;
    let label = |tier: Value| json!({"metadata": {"labels": {"tier": tier}}});
    let merge = "application/merge-patch+json";
    server.patch(&format!("{MAPS}/a"), merge, label(json!("web"))).await;
    assert_eq!(events.named().await, event("ADDED", "a"));
    server.patch(&format!("{MAPS}/a"), merge, label(Value::Null)).await;
    let (kind, object) = events.next().await.unwrap();
    assert_eq!((kind.as_str(), &object["metadata"]["labels"]["tier"]), ("DELETED", &json!("web")));
    assert_eq!(object["metadata"]["resourceVersion"], server.api.replica.view().revision().to_string());
    server.delete(&format!("{MAPS}/a"), Value::Null).await;
    server.config_map("b", json!({"tier": "web"})).await;
    assert_eq!(events.named().await, event("ADDED", "b"));
}

#[tokio::test]
async fn tables_of_a_watch_define_their_columns_once() {
    let server = Server::start().await;
    server.config_map("a", json!({})).await;
    server.config_map("b", json!({})).await;
    let mut events = server.watch("", "application/json;as=Table;v=v1;g=meta.k8s.io").await;
    let (_, first) = events.next().await.unwrap();
    assert!(first["columnDefinitions"].as_array().is_some_and(|c| !c.is_empty()), "{first}");
    let (_, second) = events.next().await.unwrap();
    assert!(second["columnDefinitions"].as_array().is_none_or(Vec::is_empty));
    assert_eq!(second["rows"][0]["cells"][0], "b");
}

#[tokio::test]
async fn a_version_that_is_too_old_is_an_error_in_the_stream() {
    let server = Server::remembering(Limits { events: 4, ..Limits::default() }).await;
    for n in 0..8 {
        server.config_map(&format!("m{n}"), json!({})).await;
    }
    let mut events = server.watch("resourceVersion=1", "").await;
    let (kind, status) = events.next().await.unwrap();
    assert_eq!(
        (kind.as_str(), &status["code"], &status["reason"]),
        ("ERROR", &json!(410), &json!("Expired"))
    );
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn a_watch_ends_at_its_timeout_with_a_whole_body() {
    let server = Server::start().await;
    let begun = std::time::Instant::now();
    let mut events = server.watch("timeoutSeconds=1", "").await;
    assert_eq!(events.next().await, None);
    assert!((900..1900).contains(&begun.elapsed().as_millis()));
}

#[tokio::test]
async fn a_timeout_beyond_every_clock_is_a_long_one() {
    let server = Server::start().await;
    let mut events = server.watch(&format!("timeoutSeconds={}", i64::MAX), "").await;
    server.config_map("a", json!({})).await;
    assert_eq!(events.named().await, event("ADDED", "a"));
}

#[tokio::test]
async fn wrong_watch_options_are_told_before_the_stream() {
    let server = Server::start().await;
    for (query, text) in [
        ("sendInitialEvents=true", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
        (
            "resourceVersionMatch=NotOlderThan",
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
        ("sendInitialEvents=true&resourceVersionMatch=Exact", "supported values: \"NotOlderThan\""),
    ] {
        let answer = server.get(&format!("{MAPS}?watch=true&{query}")).await;
        assert_eq!(answer.code, 422, "{query}: {}", answer.text);
        assert!(answer.body["message"].as_str().unwrap().contains(text), "{query}: {}", answer.text);
    }
}

#[tokio::test]
async fn a_watcher_that_reads_slowly_loses_nothing_and_delays_nobody() {
    let server = Server::start().await;
    let mut slow = server.watch("", "").await;
    let mut fast = server.watch("", "").await;
    for n in 0..300 {
        server.config_map(&format!("m{n:03}"), json!({})).await;
        assert_eq!(fast.named().await, event("ADDED", &format!("m{n:03}")));
    }
    for n in 0..300 {
        assert_eq!(slow.named().await, event("ADDED", &format!("m{n:03}")));
    }
}

/// What a client of a watch believes there is.
#[derive(Default)]
struct Mirror(std::collections::BTreeMap<String, Value>);

impl Mirror {
    fn take(&mut self, kind: &str, object: Value) {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        match kind {
            "ADDED" => assert!(self.0.insert(name, object).is_none(), "added twice"),
            "MODIFIED" => assert!(self.0.insert(name, object).is_some(), "modified before it was added"),
            "DELETED" => assert!(self.0.remove(&name).is_some(), "deleted before it was added"),
            other => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn whoever_follows_a_watch_ends_with_the_list() {
    let server = Server::start().await;
    let queries =
        ["", "labelSelector=tier%3Da", "fieldSelector=metadata.name%3Dm3", "labelSelector=tier!%3Db"];
    let mut open = Vec::new();
    for query in queries {
        open.push((query, server.watch(query, "").await, Mirror::default()));
    }
    // A fixed sequence that looks random: the same run every time.
    let mut state = 12_345_u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for step in 0..300 {
        let path = format!("{MAPS}/m{}", next(8));
        let tier = [json!("a"), json!("b"), Value::Null][usize::try_from(next(3)).unwrap()].clone();
        if next(4) == 0 {
            server.delete(&path, Value::Null).await;
            continue;
        }
        let body = json!({"metadata": {"labels": {"tier": tier}}, "data": {"step": step.to_string()}});
        if server.patch(&path, "application/merge-patch+json", body).await.code == 404 {
            let name = path.rsplit('/').next().unwrap();
            let body = json!({"metadata": {"name": name, "labels": {"tier": tier}}});
            server.post(MAPS, body).await;
        }
    }
    for (query, events, mirror) in &mut open {
        let list = server.get(&format!("{MAPS}?{query}")).await.body;
        let wanted: Vec<Value> = list["items"].as_array().unwrap().clone();
        while mirror.0.values().cloned().collect::<Vec<_>>() != wanted {
            let (kind, object) =
                events.next().await.unwrap_or_else(|| panic!("{query}: the watch lacks something"));
            mirror.take(&kind, object);
        }
    }
}
