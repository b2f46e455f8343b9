//! How long a change takes to reach many watchers: from the writer's send to each watcher's read.

use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::sync::mpsc;

use crate::client::{Connection, Target as Peer};
use crate::latency::Latencies;
use crate::scenario::api::JSON;

/// Events of all watchers together.
const EVENTS: usize = 10_000;
/// Between two changes, for each watcher: far enough apart that each stands alone.
const APART: Duration = Duration::from_micros(200);

/// The delay of every (change, watcher) pair.
///
/// # Errors
/// When a watch breaks or a change does not arrive within 30 s.
pub(super) async fn run(peer: &Peer, path: &str, watchers: usize) -> anyhow::Result<Latencies> {
    let changes = EVENTS / watchers;
    // What the names of the watched objects begin with; their number follows.
    let prefix = format!("fanout-{watchers}-");
    let apart = APART * u32::try_from(watchers)?;
    let (seen, mut arrivals) = mpsc::channel(EVENTS);
    let watch = format!("{path}?watch=true&resourceVersion={}", revision(peer, path).await?);
    let mut tasks = Vec::new();
    for _ in 0..watchers {
        let mut connection = peer.connect().await?;
        let mut body = connection.send(Method::GET, &watch, "", Bytes::new()).await?.into_body();
        let (seen, prefix) = (seen.clone(), prefix.clone());
        tasks.push(tokio::spawn(async move {
            // The connection lives as long as its watch.
            let _connection = connection;
            let mut buffer = Vec::new();
            while let Some(Ok(frame)) = body.frame().await {
                let now = Instant::now();
                buffer.extend_from_slice(frame.data_ref().map_or(&[][..], |data| &data[..]));
                while let Some(end) = buffer.iter().position(|&byte| byte == b'\n') {
                    let line: Vec<u8> = buffer.drain(..=end).collect();
                    if let Some(number) = number(&line, prefix.as_bytes())
                        && seen.send((number, now)).await.is_err()
                    {
                        return;
                    }
                }
            }
        }));
    }
    let mut writer = peer.connect().await?;
    let mut sent = Vec::with_capacity(changes);
    for number in 0..changes {
        sent.push(Instant::now());
        let body = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{prefix}{number}"}},"data":{{}}}}"#
        );
        writer.call(Method::POST, path, JSON, Bytes::from(body)).await?;
        tokio::time::sleep(apart).await;
    }
    let mut delays = Latencies::default();
    while delays.count() < changes * watchers {
        let (number, at) = tokio::time::timeout(Duration::from_secs(30), arrivals.recv())
            .await
            .with_context(|| format!("{} of {} events after 30 s", delays.count(), changes * watchers))?
            .context("every watch ended")?;
        let begin: &Instant = sent.get(number).context("an event of an object nobody wrote")?;
        delays.record(at.duration_since(*begin));
    }
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    Ok(delays)
}

/// Watches that nothing happens in; they end when they are dropped.
///
/// # Errors
/// When the server refuses one.
pub(super) async fn quiet(
    peer: &Peer,
    path: &str,
    watchers: usize,
) -> anyhow::Result<Vec<(Connection, Incoming)>> {
    let watch = format!("{path}?watch=true&resourceVersion={}", revision(peer, path).await?);
    let mut open = Vec::new();
    for _ in 0..watchers {
        let mut connection = peer.connect().await?;
        let body = connection.send(Method::GET, &watch, "", Bytes::new()).await?.into_body();
        open.push((connection, body));
    }
    Ok(open)
}

async fn revision(peer: &Peer, path: &str) -> anyhow::Result<String> {
    let body = peer.connect().await?.get(&format!("{path}?limit=1")).await?;
    let list: serde_json::Value = serde_json::from_slice(&body)?;
    let revision = list.pointer("/metadata/resourceVersion").and_then(serde_json::Value::as_str);
    Ok(revision.context("a list without a resourceVersion")?.to_owned())
}

fn number(line: &[u8], prefix: &[u8]) -> Option<usize> {
    let at = line.windows(prefix.len()).position(|window| window == prefix)? + prefix.len();
    let digits = line[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&line[at..at + digits]).ok()?.parse().ok()
}
