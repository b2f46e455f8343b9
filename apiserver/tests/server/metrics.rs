//! What is counted, under which names, and how large answers travel.

use std::io::Read;

use http::{Method, StatusCode};
use http_body_util::BodyExt;
use serde_json::json;

use crate::client::Running;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(flavor = "multi_thread")]
async fn requests_and_events_are_counted_under_upstreams_names() {
    let server = Running::start().await;
    let admin = server.admin(true).await;
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let mut watch = admin.open(&format!("{MAPS}?watch=1")).await;
    let dry = admin.post(&format!("{MAPS}?dryRun=All"), &map("a")).await;
    assert_eq!(dry.code, StatusCode::CREATED);
    assert_eq!(admin.post(MAPS, &map("a")).await.code, StatusCode::CREATED);
    let apply = admin.with_content("application/apply-patch+yaml");
    let applied = apply.send(Method::PATCH, &format!("{MAPS}/b?fieldManager=me"), Some(&map("b"))).await;
    assert_eq!(applied.code, StatusCode::CREATED, "{}", applied.text());
    admin.get(&format!("{MAPS}/a")).await;
    admin.get(&format!("{MAPS}/a/nonsense-1")).await;
    admin.get("/apis/nonsense-2/v1/nonsense-3/nonsense-4").await;
    admin.get("/nonsense-5").await;
    watch.frame().await.unwrap().unwrap();
    let of_maps = r#"group="",version="v1",resource="configmaps",subresource="""#;
    let wanted = [
        format!(r#"apiserver_request_total{{verb="POST",{of_maps},scope="namespace",component="apiserver",dry_run="All",code="201"}} 1"#),
        format!(r#"apiserver_request_total{{verb="POST",{of_maps},scope="namespace",component="apiserver",dry_run="",code="201"}} 1"#),
        format!(r#"apiserver_request_total{{verb="APPLY",{of_maps},scope="resource",component="apiserver",dry_run="",code="201"}} 1"#),
        format!(r#"apiserver_request_duration_seconds_count{{verb="GET",{of_maps},scope="resource",component="apiserver",dry_run=""}} 2"#),
        format!(r#"apiserver_response_sizes_count{{verb="GET",{of_maps},scope="resource",component="apiserver"}} 2"#),
        format!(r#"apiserver_longrunning_requests{{verb="WATCH",{of_maps},scope="namespace",component="apiserver"}} 1"#),
        r#"apiserver_watch_events_total{group="",version="v1",resource="configmaps",kind="ConfigMap"} "#.to_owned(),
        r#"apiserver_watch_events_sizes_bucket{le="1024.0",group="",version="v1",resource="configmaps",kind="ConfigMap"} "#.to_owned(),
        r#"apiserver_current_inflight_requests{request_kind="readOnly"} 1"#.to_owned(),
        r#"apiserver_resource_objects{group="apiregistration.k8s.io",resource="apiservices"} "#.to_owned(),
        r#"apiserver_storage_objects{resource="configmaps"} "#.to_owned(),
        r#"apiserver_admission_step_admission_duration_seconds_count{type="admit",operation="CREATE",rejected="false"} "#.to_owned(),
    ];
    let metrics = admin.get("/metrics").await.text();
    for line in wanted {
        assert!(metrics.contains(&line), "{line}\n{metrics}");
    }
    assert!(!metrics.contains("nonsense"), "clients cannot invent series");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_answers_are_compressed_for_whoever_asks() {
    let server = Running::start().await;
    let admin = server.admin(true).await;
    for name in ["a", "b"] {
        let object = json!({"metadata": {"name": name}, "data": {"text": "x".repeat(100 << 10)}});
        assert_eq!(admin.post(MAPS, &object).await.code, StatusCode::CREATED);
    }
    let gzip = admin.with_header("accept-encoding", "gzip");
    // The controllers write meanwhile: both are asked for one state.
    let newest = admin.get(MAPS).await.json()["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let exactly = format!("{MAPS}?resourceVersion={newest}&resourceVersionMatch=Exact");
    let plain = admin.get(&exactly).await;
    assert!(!plain.headers.contains_key("content-encoding"));
    let packed = gzip.get(&exactly).await;
    assert_eq!(
        (&packed.headers["content-encoding"], &packed.headers["vary"]),
        (&"gzip".parse().unwrap(), &"Accept-Encoding".parse().unwrap())
    );
    assert!(packed.bytes().len() < plain.bytes().len() / 50);
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(packed.bytes()).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, plain.bytes());
    assert!(
        !gzip.get(&format!("{MAPS}/a")).await.headers.contains_key("content-encoding"),
        "small ones stay"
    );
    let watch = gzip.open(&format!("{MAPS}?watch=1")).await;
    assert!(!watch.headers().contains_key("content-encoding"), "and watches");
    drop(watch);
    server.stop().await;
}
