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
type Make = Arc<dyn Fn(usize) -> Call + Send + Sync>;

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

/// Creates exactly this many ConfigMaps of 1 KiB.
///
/// # Errors
/// When the server refuses one.
pub(super) async fn fill(peer: &Peer, path: &str, objects: usize) -> anyhow::Result<()> {
    let next = Arc::new(AtomicUsize::new(0));
    let tasks = (0..32).map(|_| {
        let (peer, path, next) = (peer.clone(), path.to_owned(), next.clone());
        tokio::spawn(async move {
            let mut connection = peer.connect().await?;
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= objects {
                    return anyhow::Ok(());
                }
                connection.call(Method::POST, &path, JSON, config_map(&format!("item-{number:06}"))).await?;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await??;
    }
    Ok(())
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
