//! Answers in protobuf, as typed clients of client-go ask for them: the same objects as in JSON.

use http::StatusCode;
use litek8s_machinery::protobuf::from_protobuf;
use litek8s_machinery::resource::type_of;
use serde_json::{Value, json};

use crate::client::{Client, Running};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn decoded(bytes: &[u8]) -> Value {
    from_protobuf(bytes, &type_of).unwrap_or_else(|error| panic!("{error}: {bytes:?}"))
}

/// Reads a path in both media types; gives the JSON.
async fn the_same_in_both(admin: &Client, path: &str) -> Value {
    let plain = admin.get(path).await.json();
    let answer = admin.with_header("accept", &format!("{PROTOBUF},application/json")).get(path).await;
    assert_eq!(answer.headers["content-type"], PROTOBUF, "{path}");
    let mut read = decoded(answer.bytes());
    // Items of a list carry no type of their own in protobuf, nor in a typed client's JSON.
    let mut expected = plain.clone();
    for item in expected["items"].as_array_mut().into_iter().flatten() {
        item.as_object_mut().unwrap().retain(|name, _| name != "apiVersion" && name != "kind");
    }
    for list in [&mut read, &mut expected] {
        // The server writes objects of its own meanwhile: two lists are seldom of one revision.
        if let Some(metadata) = list["items"].is_array().then(|| &mut list["metadata"]) {
            metadata.as_object_mut().unwrap().remove("resourceVersion");
        }
        for item in list["items"].as_array_mut().into_iter().flatten() {
            item.as_object_mut().unwrap().retain(|_, value| *value != json!({}));
        }
        list.as_object_mut().unwrap().retain(|_, value| *value != json!({}));
    }
    assert_eq!(read, expected, "{path}");
    plain
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_lists_and_failures_come_in_protobuf() {
    let server = Running::start().await;
    let admin = server.admin(true).await;
    let map = json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"k": "v"}});
    admin.post(MAPS, &map).await;
    for path in [
        &format!("{MAPS}/a"),
        MAPS,
        "/api/v1/namespaces/default/services/kubernetes",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin",
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
    ] {
        the_same_in_both(&admin, path).await;
    }
    let only = admin.with_header("accept", PROTOBUF);
    let missing = only.get(&format!("{MAPS}/b")).await;
    assert_eq!(missing.code, StatusCode::NOT_FOUND);
    let status = decoded(missing.bytes());
    assert_eq!((&status["kind"], &status["details"]["name"]), (&json!("Status"), &json!("b")));
    let metadata = format!("{PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
    let partial = decoded(admin.with_header("accept", &metadata).get(MAPS).await.bytes());
    assert_eq!(partial["kind"], "PartialObjectMetadataList");
    assert_eq!(partial["items"][0]["metadata"]["labels"], json!({"x": "y"}));
    assert!(partial["items"][0].get("data").is_none());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_in_protobuf_is_framed_by_lengths() {
    let server = Running::start().await;
    let admin = server.admin(false).await;
    admin.post(MAPS, &json!({"metadata": {"name": "a"}})).await;
    let events = format!("{MAPS}?watch=1&resourceVersion=0&timeoutSeconds=1");
    let accept = format!("{PROTOBUF};stream=watch,application/json");
    let watched = admin.with_header("accept", &accept).get(&events).await;
    assert_eq!(watched.headers["content-type"], format!("{PROTOBUF};stream=watch"));
    let mut rest = watched.bytes();
    let mut names = Vec::new();
    while let Some((length, frames)) = rest.split_at_checked(4) {
        let length = u32::from_be_bytes(length.try_into().unwrap()) as usize;
        let (frame, behind) = frames.split_at(length);
        rest = behind;
        // WatchEvent: type = 1, object = 2 { raw = 1 }, where the object lies in its envelope.
        let envelope = frame.windows(4).position(|bytes| bytes == b"k8s\0").unwrap();
        assert_eq!(&frame[..7], b"\x0a\x05ADDED");
        names.push(decoded(&frame[envelope..])["metadata"]["name"].as_str().unwrap().to_owned());
    }
    assert!(names.contains(&"a".to_owned()), "{names:?}");
    assert!(rest.is_empty());
    server.stop().await;
}
