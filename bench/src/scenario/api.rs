//! The API server alone on loopback: start, memory, throughput, lists and watches.

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;

use crate::client::{Connection, Target as Peer};
use crate::processor::{Meter, Used};
use crate::report::{Reference, Report, Target};
use crate::scenario::definitions::definitions;
use crate::scenario::{fanout, throughput};
use crate::server::{Server, resident_mib};
use crate::{Options, latency::Latencies};

/// Connections of the throughput figures.
const CONNECTIONS: [usize; 3] = [1, 16, 64];
/// Watchers of the fan-out figures.
const WATCHERS: [usize; 2] = [100, 1_000];
/// Objects of 1 KiB that memory is measured with.
const MANY: usize = 115_000;
/// VipAddresses of a full node, and how many clients create them.
const VIPS: (usize, usize) = (127, 16);

/// Figures of one server.
struct Figures {
    creates: Vec<Throughput>,
    /// Creates beside many watchers of another resource.
    watched: Throughput,
    gets: Vec<Throughput>,
    applies: Vec<Throughput>,
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

/// Figures of the reference server, those at each of [`CONNECTIONS`] in that order.
struct Known {
    start_s: Option<Reference>,
    idle_mib: Option<Reference>,
    many_mib: Option<Reference>,
    creates: [Option<Reference>; 3],
    gets: [Option<Reference>; 3],
    applies: [Option<Reference>; 3],
    list_ms: Option<Reference>,
    /// p50 and p99 for each of [`WATCHERS`].
    fanout_ms: [Option<(Reference, Reference)>; 2],
}

const fn recorded(value: f64) -> Option<Reference> {
    Some(Reference::Recorded(value))
}

/// A kube-apiserver 1.36 with etcd 3.6 on two cores, recorded once.
const RECORDED: Known = Known {
    start_s: recorded(4.2),
    idle_mib: recorded(312.0),
    many_mib: recorded(1_900.0),
    creates: [recorded(230.0), None, recorded(1_340.0)],
    gets: [recorded(560.0), None, recorded(2_200.0)],
    applies: [recorded(200.0), None, recorded(770.0)],
    list_ms: recorded(257.0),
    fanout_ms: [Some((Reference::Recorded(8.0), Reference::Recorded(23.0))), None],
};

/// Measures a server of our own, and the reference server when one is given.
///
/// # Errors
/// When a server does not answer.
pub(crate) async fn api(report: &mut Report, binary: &Path, options: &Options) -> anyhow::Result<()> {
    let known = match options.reference.target()? {
        Some(peer) => {
            eprintln!("reference server");
            reference(&peer, options).await?
        }
        None => RECORDED,
    };
    eprintln!("API server");
    let (mut server, first) = Server::start(binary).await?;
    let mut starts = vec![first];
    for _ in 0..2 {
        starts.push(Server::start(binary).await?.1);
    }
    starts.sort_unstable();
    report.add("start to ready, empty", starts[1].as_secs_f64(), "s", Target::Times(7.0), known.start_s);
    settle(&server).await?;
    let resident = |server: &Server| resident_mib(&[server.process()]);
    report.add("resident memory, idle", resident(&server)?, "MiB", Target::Times(5.0), known.idle_mib);
    report.add(
        format!("{} VipAddresses created by {} clients", VIPS.0, VIPS.1),
        vip_addresses(&server.target()?).await?.as_secs_f64(),
        "s",
        Target::AtMost(1.0),
        None,
    );
    many(&server.target()?).await?;
    let what = format!("resident memory after {MANY} creates of 1 KiB");
    report.add(what, resident(&server)?, "MiB", Target::Times(5.0), known.many_mib);
    let restart = server.crash_and_start(binary).await?;
    let what = format!("start to ready after a crash, with {MANY} objects");
    report.add(what, restart.as_secs_f64(), "s", Target::None, None);

    let peer = server.target()?;
    figures(&peer, options, Meter::new(Some(server.process()))).await?.report(report, options, &known);
    report.add("resident memory after all that", resident(&server)?, "MiB", Target::None, None);
    drop(server);
    definitions(report, binary).await
}

/// The same figures of the reference server. How long it takes to start is not seen from here.
async fn reference(peer: &Peer, options: &Options) -> anyhow::Result<Known> {
    let processes = &options.reference.processes;
    let memory = |recorded| match processes.as_slice() {
        [] => anyhow::Ok(recorded),
        processes => Ok(Some(Reference::Measured(resident_mib(processes)?))),
    };
    let idle_mib = memory(RECORDED.idle_mib)?;
    many(peer).await?;
    let many_mib = memory(RECORDED.many_mib)?;
    let figures = figures(peer, options, Meter::new(None)).await?;
    let rates =
        |rows: &[Throughput]| [0, 1, 2].map(|row| rows.get(row).map(|row| Reference::Measured(row.rate)));
    Ok(Known {
        start_s: RECORDED.start_s,
        idle_mib,
        many_mib,
        creates: rates(&figures.creates),
        gets: rates(&figures.gets),
        applies: rates(&figures.applies),
        list_ms: Some(Reference::Measured(figures.list_ms)),
        fanout_ms: figures
            .fanout_ms
            .map(|(p50, p99)| Some((Reference::Measured(p50), Reference::Measured(p99)))),
    })
}

impl Figures {
    fn report(&self, report: &mut Report, options: &Options, known: &Known) {
        let rows = [
            ("create of 1 KiB, durable", &self.creates, known.creates, 5.0),
            ("get", &self.gets, known.gets, 8.0),
            ("server-side apply that changes", &self.applies, known.applies, 5.0),
        ];
        for (what, figures, references, times) in rows {
            for (figure, reference) in figures.iter().zip(references) {
                // Promised where the machine is busy; the others are for orientation.
                let target = if figure.connections == 64 { Target::Times(times) } else { Target::None };
                figure.report(report, what, target, reference);
            }
        }
        let what = format!("create beside {} watchers of Secrets", WATCHERS[1]);
        self.watched.report(report, &what, Target::None, None);
        let what = format!("list of {} ConfigMaps of 1 KiB", options.objects);
        report.add(what, self.list_ms, "ms", Target::Times(10.0), known.list_ms);
        for ((watchers, (p50, p99)), reference) in WATCHERS.iter().zip(self.fanout_ms).zip(known.fanout_ms) {
            let what = |which| format!("watch delay {which}, {watchers} watchers");
            report.add(what("p50"), p50, "ms", Target::None, reference.map(|known| known.0));
            report.add(what("p99"), p99, "ms", Target::AtMost(20.0), reference.map(|known| known.1));
        }
    }
}

/// Waits until the server's controllers have made the default ServiceAccount, the last thing of a cold start.
pub(super) async fn settle(server: &Server) -> anyhow::Result<()> {
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
    let mut applies = Vec::new();
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
    for connections in CONNECTIONS {
        applies.push(throughput(peer, connections, span, throughput::apply(&path), meter).await?);
    }
    let list_ms = list(peer, &namespace, options.objects).await?;
    let mut fanout_ms = [(0.0, 0.0); 2];
    for (index, watchers) in WATCHERS.into_iter().enumerate() {
        let mut delays: Latencies = fanout::run(peer, &path, watchers).await?;
        fanout_ms[index] = (delays.percentile(50), delays.percentile(99));
    }
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
    fn report(&self, report: &mut Report, what: &str, target: Target, reference: Option<Reference>) {
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
    Ok(latencies.percentile(50))
}

/// The media type of a JSON body.
pub(super) const JSON: &str = "application/json";
