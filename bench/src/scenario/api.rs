//! The API server alone on loopback: start, memory, throughput, lists and watches.

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, StatusCode};

use crate::client::{Connection, Target as Peer};
use crate::processor::{Meter, Used};
use crate::report::{Report, Target};
use crate::scenario::{fanout, throughput};
use crate::server::Server;
use crate::{Options, latency::Latencies};

/// Connections of the throughput figures.
const CONNECTIONS: [usize; 3] = [1, 16, 64];
/// Watchers of the fan-out figures.
const WATCHERS: [usize; 2] = [100, 1_000];
/// Objects that memory is measured with.
const MANY: usize = 100_000;
/// VipAddresses of a full node, and how many clients create them.
const VIPS: (usize, usize) = (127, 16);

/// Figures of one server.
struct Figures {
    creates: Vec<Throughput>,
    /// Creates beside many watchers of another resource.
    watched: Throughput,
    gets: Vec<Throughput>,
    applies: Throughput,
    list_ms: f64,
    /// p50 and p99 for each of [`WATCHERS`].
    fanout_ms: [(f64, f64); 2],
}

/// One throughput figure.
struct Throughput {
    connections: usize,
    /// Requests a second.
    rate: f64,
    p99: f64,
    count: usize,
    used: Used,
}

/// A kube-apiserver 1.36 with etcd 3.6 on two cores, recorded once (no reference in this run).
const RECORDED: Recorded = Recorded {
    creates: [Some(230.0), None, Some(1_340.0)],
    gets: [Some(560.0), None, Some(2_200.0)],
    applies: Some(450.0),
    list_ms: Some(257.0),
    fanout_ms: [Some((8.0, 23.0)), None],
};

struct Recorded {
    creates: [Option<f64>; 3],
    gets: [Option<f64>; 3],
    applies: Option<f64>,
    list_ms: Option<f64>,
    fanout_ms: [Option<(f64, f64)>; 2],
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
            recorded(&figures(&Peer::from_kubeconfig(path)?, options, Meter::new(None)).await?)
        }
        None => RECORDED,
    };
    let peer = server.target()?;
    report.add(
        format!("{} VipAddresses created by {} clients", VIPS.0, VIPS.1),
        vip_addresses(&peer).await?.as_secs_f64(),
        "s",
        Target::AtMost(1.0),
        None,
    );
    let figures = figures(&peer, options, Meter::new(Some(server.process()))).await?;
    for (index, create) in figures.creates.iter().enumerate() {
        let target = if create.connections == 64 { Target::AtLeast(5_000.0) } else { Target::None };
        create.report(report, "create of 1 KiB, durable", target, recorded.creates[index]);
    }
    let what = format!("create beside {} watchers of Secrets", WATCHERS[1]);
    figures.watched.report(report, &what, Target::None, None);
    for (index, get) in figures.gets.iter().enumerate() {
        get.report(report, "get", Target::None, recorded.gets[index]);
    }
    figures.applies.report(report, "server-side apply that changes", Target::None, recorded.applies);
    report.add(
        format!("list of {} ConfigMaps of 1 KiB", options.objects),
        figures.list_ms,
        "ms",
        Target::AtMost(26.0),
        recorded.list_ms,
    );
    for (index, watchers) in WATCHERS.into_iter().enumerate() {
        let (p50, p99) = figures.fanout_ms[index];
        let of = |delay: fn(&(f64, f64)) -> f64| recorded.fanout_ms[index].as_ref().map(delay);
        let target = if watchers == 100 { Target::AtMost(20.0) } else { Target::None };
        report.add(format!("watch delay p50, {watchers} watchers"), p50, "ms", Target::None, of(|d| d.0));
        report.add(format!("watch delay p99, {watchers} watchers"), p99, "ms", target, of(|d| d.1));
    }
    report.add("resident memory after the load", server.resident_mib()?, "MiB", Target::None, Some(1_900.0));
    let restart = server.crash_and_start(binary).await?;
    report.add(
        "start to ready after a crash under that data",
        restart.as_secs_f64(),
        "s",
        Target::None,
        None,
    );
    drop(server);
    let (server, _) = Server::start(binary).await?;
    many(&server.target()?).await?;
    report.add(
        format!("resident memory with {MANY} ConfigMaps of 1 KiB"),
        server.resident_mib()?,
        "MiB",
        Target::None,
        None,
    );
    Ok(())
}

fn recorded(figures: &Figures) -> Recorded {
    let rates = |rows: &[Throughput]| [0, 1, 2].map(|index| rows.get(index).map(|row| row.rate));
    Recorded {
        creates: rates(&figures.creates),
        gets: rates(&figures.gets),
        applies: Some(figures.applies.rate),
        list_ms: Some(figures.list_ms),
        fanout_ms: figures.fanout_ms.map(Some),
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

async fn figures(peer: &Peer, options: &Options, meter: Meter) -> anyhow::Result<Figures> {
    let namespace = format!("bench-{}", std::process::id());
    let mut connection = peer.connect().await?;
    self::namespace(&mut connection, &namespace).await?;
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let span = Duration::from_secs(options.seconds);
    let mut creates = Vec::new();
    let mut gets = Vec::new();
    for connections in CONNECTIONS {
        let create = throughput::create(&path, connections);
        creates.push(throughput(peer, connections, span, create, meter).await?);
    }
    let watches = fanout::quiet(peer, "/api/v1/secrets", WATCHERS[1]).await?;
    let watched = throughput(peer, 64, span, throughput::create(&path, watches.len()), meter).await?;
    drop(watches);
    for connections in CONNECTIONS {
        gets.push(throughput(peer, connections, span, throughput::get(&path), meter).await?);
    }
    let applies = throughput(peer, 16, span, throughput::apply(&path), meter).await?;
    let list_ms = list(peer, &namespace, options.objects).await?;
    let mut fanout_ms = [(0.0, 0.0); 2];
    for (index, watchers) in WATCHERS.into_iter().enumerate() {
        let mut delays: Latencies = fanout::run(peer, &path, watchers).await?;
        fanout_ms[index] = (delays.percentile(50), delays.percentile(99));
    }
    remove(&mut connection, &namespace).await?;
    Ok(Figures { creates, watched, gets, applies, list_ms, fanout_ms })
}

async fn throughput(
    peer: &Peer,
    connections: usize,
    span: Duration,
    make: throughput::Make,
    meter: Meter,
) -> anyhow::Result<Throughput> {
    let begin = meter.read()?;
    let (rate, mut latencies) = throughput::run(peer, connections, span, make).await?;
    let used = meter.since(begin)?;
    Ok(Throughput { connections, rate, p99: latencies.percentile(99), count: latencies.count(), used })
}

impl Throughput {
    fn report(&self, report: &mut Report, what: &str, target: Target, reference: Option<f64>) {
        let what = format!("{what}, {} connections", self.connections);
        report.add(what.clone(), self.rate, "/s", target, reference);
        report.add(format!("{what}: p99"), self.p99, "ms", Target::None, None);
        let count = f64::from(u32::try_from(self.count).unwrap_or(u32::MAX)).max(1.0);
        let micros = self.used.server * 1e6 / count;
        report.add(format!("{what}: server's processor time each"), micros, "µs", Target::None, None);
        let share = self.used.client_share();
        report.add(format!("{what}: client's part of the processor time"), share, "%", Target::None, None);
    }
}

async fn namespace(connection: &mut Connection, name: &str) -> anyhow::Result<()> {
    let body = format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{name}"}}}}"#);
    connection.call(Method::POST, "/api/v1/namespaces", JSON, Bytes::from(body)).await?;
    Ok(())
}

/// How long a full node's VipAddresses take.
async fn vip_addresses(peer: &Peer) -> anyhow::Result<Duration> {
    let name = format!("bench-{}-vips", std::process::id());
    let mut connection = peer.connect().await?;
    namespace(&mut connection, &name).await?;
    let took = throughput::exactly(peer, VIPS.1, VIPS.0, throughput::vip_address(&name)).await?;
    remove(&mut connection, &name).await?;
    Ok(took)
}

/// Creates many objects.
async fn many(peer: &Peer) -> anyhow::Result<()> {
    let name = format!("bench-{}-many", std::process::id());
    namespace(&mut peer.connect().await?, &name).await?;
    let path = format!("/api/v1/namespaces/{name}/configmaps");
    throughput::exactly(peer, 32, MANY, throughput::item(&path)).await?;
    Ok(())
}

/// Milliseconds of the median of five whole lists of a namespace with this many objects.
async fn list(peer: &Peer, namespace: &str, objects: usize) -> anyhow::Result<f64> {
    let namespace = format!("{namespace}-list");
    let mut connection = peer.connect().await?;
    self::namespace(&mut connection, &namespace).await?;
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    throughput::exactly(peer, 32, objects, throughput::item(&path)).await?;
    let mut latencies = Latencies::default();
    for _ in 0..5 {
        let begin = Instant::now();
        let body = connection.get(&path).await?;
        latencies.record(begin.elapsed());
        anyhow::ensure!(body.len() > objects * 1024, "the list is shorter than its objects");
    }
    remove(&mut connection, &namespace).await?;
    Ok(latencies.percentile(50))
}

/// Deletes a namespace and waits until it is gone: the deletion of what was in it would slow the next figure.
async fn remove(connection: &mut Connection, namespace: &str) -> anyhow::Result<()> {
    let path = format!("/api/v1/namespaces/{namespace}");
    connection.call(Method::DELETE, &path, "", Bytes::new()).await?;
    let begin = Instant::now();
    while connection.answer(Method::GET, &path, "", Bytes::new()).await?.0 != StatusCode::NOT_FOUND {
        anyhow::ensure!(begin.elapsed() < Duration::from_secs(300), "{namespace} is still there after 300 s");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// The media type of a JSON body.
pub(super) const JSON: &str = "application/json";
