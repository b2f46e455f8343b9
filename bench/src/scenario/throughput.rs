//! As many requests as some connections carry, one at a time on each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;

use crate::client::Target as Peer;
use crate::latency::Latencies;
use crate::scenario::api::JSON;

/// One request.
pub(super) struct Call {
    method: Method,
    path: String,
    content_type: &'static str,
    body: Bytes,
}

/// Makes the n-th request.
pub(super) type Make = Arc<dyn Fn(usize) -> Call + Send + Sync>;

/// Creates of ConfigMaps of 1 KiB with names of their own.
pub(super) fn create(path: &str, series: usize) -> Make {
    let path = path.to_owned();
    Arc::new(move |number| Call {
        method: Method::POST,
        path: path.clone(),
        content_type: JSON,
        body: config_map(&format!("create-{series}-{number}")),
    })
}

/// Reads of ConfigMaps that [`create`] of one connection made.
pub(super) fn get(path: &str) -> Make {
    let path = path.to_owned();
    Arc::new(move |number| Call {
        method: Method::GET,
        path: format!("{path}/create-1-{}", number % 100),
        content_type: "",
        body: Bytes::new(),
    })
}

/// Server-side applies that change one value of one of 256 ConfigMaps each time.
pub(super) fn apply(path: &str) -> Make {
    let path = path.to_owned();
    Arc::new(move |number| Call {
        method: Method::PATCH,
        path: format!("{path}/apply-{}?fieldManager=bench&force=true", number % 256),
        content_type: "application/apply-patch+yaml",
        body: Bytes::from(format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"apply-{}"}},"data":{{"n":"{number}"}}}}"#,
            number % 256
        )),
    })
}

/// Creates of VipAddresses, which their definition's rules judge.
pub(super) fn vip_address(namespace: &str) -> Make {
    let path = format!("/apis/netwrangler.dev/v1/namespaces/{namespace}/vipaddresses");
    let namespace = namespace.to_owned();
    Arc::new(move |number| {
        let number = number + 1;
        let body = serde_json::json!({"apiVersion": "netwrangler.dev/v1", "kind": "VipAddress",
            "metadata": {"name": format!("bench-{number}"),
                "labels": {"netwrangler.dev/managed-by": "bench", "netwrangler.dev/node-name": "node-1"}},
            "spec": {"service": {"namespace": namespace, "name": "bench"}, "index": number, "network": "public",
                "node": "node-1", "interface": "eth1", "virtualCIDR": format!("203.0.113.{number}/24"),
                "gatewayIP": "203.0.113.254", "sourceCIDRs": ["0.0.0.0/0"], "firewallMark": number,
                "routeTable": 20_000 + number, "routingPriority": 20_000 + number, "egressEnabled": true}});
        Call {
            method: Method::POST,
            path: path.clone(),
            content_type: JSON,
            body: Bytes::from(body.to_string()),
        }
    })
}

/// Creates of ConfigMaps of 1 KiB in the order of their names.
pub(super) fn item(path: &str) -> Make {
    let path = path.to_owned();
    Arc::new(move |number| Call {
        method: Method::POST,
        path: path.clone(),
        content_type: JSON,
        body: config_map(&format!("item-{number:06}")),
    })
}

/// Sends the requests with numbers below `count`, over some connections; returns the time from the first to the last
/// answer.
///
/// # Errors
/// When the server refuses one.
pub(super) async fn exactly(
    peer: &Peer,
    connections: usize,
    count: usize,
    make: Make,
) -> anyhow::Result<Duration> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut open = Vec::new();
    for _ in 0..connections {
        open.push(peer.connect().await?);
    }
    let begin = Instant::now();
    let tasks = open.into_iter().map(|mut connection| {
        let (make, next) = (make.clone(), next.clone());
        tokio::spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return anyhow::Ok(());
                }
                let call = make(number);
                connection.call(call.method, &call.path, call.content_type, call.body).await?;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await??;
    }
    Ok(begin.elapsed())
}

/// Requests a second and every latency, over a span of time.
///
/// # Errors
/// When the server refuses a request.
pub(super) async fn run(
    peer: &Peer,
    connections: usize,
    span: Duration,
    make: Make,
) -> anyhow::Result<(f64, Latencies)> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut open = Vec::new();
    for _ in 0..connections {
        open.push(peer.connect().await?);
    }
    let begin = Instant::now();
    let tasks = open.into_iter().map(|mut connection| {
        let (make, next) = (make.clone(), next.clone());
        tokio::spawn(async move {
            let mut latencies = Latencies::default();
            while begin.elapsed() < span {
                let call = make(next.fetch_add(1, Ordering::Relaxed));
                let sent = Instant::now();
                connection.call(call.method, &call.path, call.content_type, call.body).await?;
                latencies.record(sent.elapsed());
            }
            anyhow::Ok(latencies)
        })
    });
    let mut latencies = Latencies::default();
    for task in tasks.collect::<Vec<_>>() {
        latencies.merge(task.await??);
    }
    let rate = f64::from(u32::try_from(latencies.count())?) / begin.elapsed().as_secs_f64();
    Ok((rate, latencies))
}

fn config_map(name: &str) -> Bytes {
    let value = "x".repeat(1024);
    Bytes::from(format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"value":"{value}"}}}}"#
    ))
}
