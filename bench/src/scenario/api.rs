//! The API server alone on loopback: start, memory, throughput, lists and watches.

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;

use crate::client::Target as Peer;
use crate::report::{Report, Target};
use crate::scenario::{fanout, throughput};
use crate::server::Server;
use crate::{Options, latency::Latencies};

/// Connections of the throughput figures.
const CONNECTIONS: [usize; 3] = [1, 16, 64];
/// Watchers of the fan-out figure.
const WATCHERS: usize = 100;

/// Figures of one server.
struct Figures {
    creates: Vec<(usize, f64, f64)>,
    gets: Vec<(usize, f64, f64)>,
    applies: f64,
    list_ms: f64,
    fanout_ms: (f64, f64),
}

/// A kube-apiserver 1.36 with etcd 3.6 on two cores, recorded once (no reference in this run).
const RECORDED: Recorded = Recorded {
    creates: [Some(230.0), None, Some(1_340.0)],
    gets: [Some(560.0), None, Some(2_200.0)],
    applies: Some(450.0),
    list_ms: Some(257.0),
    fanout_ms: (Some(8.0), Some(23.0)),
};

struct Recorded {
    creates: [Option<f64>; 3],
    gets: [Option<f64>; 3],
    applies: Option<f64>,
    list_ms: Option<f64>,
    fanout_ms: (Option<f64>, Option<f64>),
}

/// Measures a server of our own, and the reference server when one is given.
///
/// # Errors
/// When a server does not answer.
pub(crate) async fn api(report: &mut Report, binary: &Path, options: &Options) -> anyhow::Result<()> {
    eprintln!("API server");
    let (mut server, first) = Server::start(binary).await?;
    let mut starts = vec![first];
    for _ in 0..2 {
        starts.push(Server::start(binary).await?.1);
    }
    starts.sort_unstable();
    report.add("start to ready, empty", starts[1].as_secs_f64(), "s", Target::AtMost(0.5), Some(4.2));
    settle(&server).await?;
    report.add("resident memory, idle", server.resident_mib()?, "MiB", Target::AtMost(60.0), Some(312.0));

    let recorded = match &options.reference_kubeconfig {
        Some(path) => {
            eprintln!("reference server");
            report.reference_measured();
            recorded(&figures(&Peer::from_kubeconfig(path)?, options).await?)
        }
        None => RECORDED,
    };
    let figures = figures(&server.target()?, options).await?;
    for (index, &(connections, rate, p99)) in figures.creates.iter().enumerate() {
        let target = if connections == 64 { Target::AtLeast(5_000.0) } else { Target::None };
        report.add(
            format!("create of 1 KiB, durable, {connections} connections"),
            rate,
            "/s",
            target,
            recorded.creates[index],
        );
        report.add(format!("create p99, {connections} connections"), p99, "ms", Target::None, None);
    }
    for (index, &(connections, rate, p99)) in figures.gets.iter().enumerate() {
        report.add(format!("get, {connections} connections"), rate, "/s", Target::None, recorded.gets[index]);
        report.add(format!("get p99, {connections} connections"), p99, "ms", Target::None, None);
    }
    report.add(
        "server-side apply that changes, 16 connections",
        figures.applies,
        "/s",
        Target::None,
        recorded.applies,
    );
    report.add(
        format!("list of {} ConfigMaps of 1 KiB", options.objects),
        figures.list_ms,
        "ms",
        Target::AtMost(26.0),
        recorded.list_ms,
    );
    report.add(
        format!("watch delay p50, {WATCHERS} watchers"),
        figures.fanout_ms.0,
        "ms",
        Target::None,
        recorded.fanout_ms.0,
    );
    report.add(
        format!("watch delay p99, {WATCHERS} watchers"),
        figures.fanout_ms.1,
        "ms",
        Target::AtMost(20.0),
        recorded.fanout_ms.1,
    );
    report.add("resident memory after the load", server.resident_mib()?, "MiB", Target::None, Some(1_900.0));
    let restart = server.crash_and_start(binary).await?;
    report.add(
        "start to ready after a crash under that data",
        restart.as_secs_f64(),
        "s",
        Target::None,
        None,
    );
    Ok(())
}

fn recorded(figures: &Figures) -> Recorded {
    let rates = |rows: &[(usize, f64, f64)]| [0, 1, 2].map(|index| rows.get(index).map(|row| row.1));
    Recorded {
        creates: rates(&figures.creates),
        gets: rates(&figures.gets),
        applies: Some(figures.applies),
        list_ms: Some(figures.list_ms),
        fanout_ms: (Some(figures.fanout_ms.0), Some(figures.fanout_ms.1)),
    }
}

/// Waits until the server's controllers have made the default ServiceAccount, the last thing of a cold start.
async fn settle(server: &Server) -> anyhow::Result<()> {
    let mut connection = server.target()?.connect().await?;
    let begin = Instant::now();
    while connection.get("/api/v1/namespaces/default/serviceaccounts/default").await.is_err() {
        anyhow::ensure!(begin.elapsed() < Duration::from_secs(60), "no default ServiceAccount after 60 s");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Memory is read after the allocator had time to give back what the start needed.
    tokio::time::sleep(Duration::from_secs(2)).await;
    Ok(())
}

async fn figures(peer: &Peer, options: &Options) -> anyhow::Result<Figures> {
    let namespace = format!("bench-{}", std::process::id());
    let mut connection = peer.connect().await?;
    let body = format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{namespace}"}}}}"#);
    connection.call(Method::POST, "/api/v1/namespaces", JSON, Bytes::from(body)).await?;
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let span = Duration::from_secs(options.seconds);
    let mut creates = Vec::new();
    let mut gets = Vec::new();
    for connections in CONNECTIONS {
        let (rate, mut latencies) =
            throughput::run(peer, connections, span, throughput::create(&path, connections)).await?;
        creates.push((connections, rate, latencies.percentile(99)));
    }
    for connections in CONNECTIONS {
        let (rate, mut latencies) = throughput::run(peer, connections, span, throughput::get(&path)).await?;
        gets.push((connections, rate, latencies.percentile(99)));
    }
    let (applies, _) = throughput::run(peer, 16, span, throughput::apply(&path)).await?;
    let list_ms = list(peer, &namespace, options.objects).await?;
    let mut delays: Latencies = fanout::run(peer, &path, WATCHERS).await?;
    let fanout_ms = (delays.percentile(50), delays.percentile(99));
    connection.call(Method::DELETE, &format!("/api/v1/namespaces/{namespace}"), "", Bytes::new()).await?;
    Ok(Figures { creates, gets, applies, list_ms, fanout_ms })
}

/// Milliseconds of the median of five whole lists of a namespace with this many objects.
async fn list(peer: &Peer, namespace: &str, objects: usize) -> anyhow::Result<f64> {
    let namespace = format!("{namespace}-list");
    let mut connection = peer.connect().await?;
    let body = format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{namespace}"}}}}"#);
    connection.call(Method::POST, "/api/v1/namespaces", JSON, Bytes::from(body)).await?;
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    throughput::fill(peer, &path, objects).await?;
    let mut latencies = Latencies::default();
    for _ in 0..5 {
        let begin = Instant::now();
        let body = connection.get(&path).await?;
        latencies.record(begin.elapsed());
        anyhow::ensure!(body.len() > objects * 1024, "the list is shorter than its objects");
    }
    connection.call(Method::DELETE, &format!("/api/v1/namespaces/{namespace}"), "", Bytes::new()).await?;
    Ok(latencies.percentile(50))
}

/// The media type of a JSON body.
pub(super) const JSON: &str = "application/json";
