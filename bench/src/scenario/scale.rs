//! A large cluster: a thousand VIPs of a hundred Services on a hundred nodes whose agents only talk to the API.
//!
//! The hollow agents run in this process, and so on the same processors as what is measured.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt as _;
use litek8s_lab::{HollowNodes, Samples};
use serde_json::Value;

use crate::client::{Connection, Target as Peer};
use crate::processor::Meter;
use crate::report::{Report, Target};
use crate::scenario::objects::{self, HANG, SUITE, until};
use crate::server::Server;

const NODES: u16 = 100;
const SERVICES: usize = 100;
/// Addresses of each Service, as many as nodes with its endpoints.
const EACH: usize = 10;
const VIPS: usize = SERVICES * EACH;
/// How long the idle cluster is looked at.
const IDLE: Duration = Duration::from_secs(10);

/// Starts a server with its controllers, fills it, and measures.
///
/// # Errors
/// When the server or the controllers do not do their part.
pub(crate) async fn scale(report: &mut Report, binary: &Path) -> anyhow::Result<()> {
    eprintln!("{VIPS} VIPs on {NODES} nodes");
    let (server, _) = Server::start(binary).await?;
    let peer = server.target()?;
    let mut connection = peer.connect().await?;
    until("the kinds to be served", async || {
        Ok(peer.connect().await?.get(&format!("{SUITE}/vipaddresses")).await.is_ok())
    })
    .await?;
    let hollow = HollowNodes::start(&server.kubeconfig(), NODES).await?;
    fill(&mut connection, hollow.names()).await?;

    let meter = Meter::new(Some(server.process()));
    let before = samples(&mut connection).await?;
    let created = created(&peer).await?;
    let (begin, used) = (Instant::now(), meter.read()?);
    objects::create(&mut connection, &format!("{SUITE}/vipconfigs"), &objects::config()).await?;
    let created = tokio::time::timeout(HANG, created).await.context("not every VipAddress was created")??;
    until("every Service to be ready", async || Ok(ready(&mut peer.connect().await?).await? == SERVICES))
        .await?;
    let (ready, used) = (begin.elapsed(), meter.since(used)?);
    let after = samples(&mut connection).await?;
    let name = format!("{VIPS} VIPs on {NODES} nodes");
    let mut add = |what: &str, value: f64, unit, target| {
        report.add(format!("{name}: {what}"), value, unit, target, None)
    };
    let seconds = created.duration_since(begin).as_secs_f64();
    add("configured to last VipAddress created", seconds, "s", Target::AtMost(1.0));
    add("configured to last Service ready", ready.as_secs_f64(), "s", Target::None);
    add("processor time of server and controllers", used.server, "s", Target::None);
    add("processor time of the hollow agents", used.client, "s", Target::None);
    for (what, verb, resource, target) in [
        ("creates of VipAddresses", "create", "vipaddresses", Target::AtMost(1e3)),
        ("statuses of Services written", "patch", "services/status", Target::None),
        ("Events written", "create", "events", Target::None),
    ] {
        let count = asked(&after, verb, resource) - asked(&before, verb, resource);
        add(what, count, "requests", target);
    }
    let decided = |what: &str| {
        let name = format!("litek8s_vip_decision_seconds_{what}");
        after.sum(&name, &[]) - before.sum(&name, &[])
    };
    add("decisions", decided("count"), "decisions", Target::None);
    add("mean time of a decision", 1e3 * decided("sum") / decided("count"), "ms", Target::None);

    let (before, used) = (samples(&mut connection).await?, meter.read()?);
    tokio::time::sleep(IDLE).await;
    let used = meter.since(used)?;
    let after = samples(&mut connection).await?;
    add("writes while nothing happens", writes(&after) - writes(&before), "requests", Target::AtMost(0.0));
    add(
        "server and controllers, nothing happens",
        100.0 * used.server / IDLE.as_secs_f64(),
        "% of a core",
        Target::None,
    );
    Ok(())
}

/// Everything but the configuration: the network, the Services, and their endpoints.
async fn fill(connection: &mut Connection, nodes: &[String]) -> anyhow::Result<()> {
    let wide = objects::network("wide", "10.200.255.254", "10.200.0.0/16");
    objects::create(connection, &format!("{SUITE}/vipnetworks"), &wide).await?;
    for number in 0..SERVICES {
        let addresses: Vec<String> = (1..=EACH).map(|last| format!("10.200.{number}.{last}")).collect();
        let endpoints: Vec<(String, String)> = (0..EACH)
            .map(|place| {
                (nodes[(number * EACH + place) % nodes.len()].clone(), format!("10.42.{number}.{place}"))
            })
            .collect();
        objects::publish(connection, &format!("web-{number}"), &addresses, &endpoints).await?;
    }
    Ok(())
}

/// Begins to watch; the future gives the moment at which the last VipAddress was seen.
async fn created(peer: &Peer) -> anyhow::Result<impl Future<Output = anyhow::Result<Instant>> + use<>> {
    let mut connection = peer.connect().await?;
    let path = format!("{SUITE}/vipaddresses?watch=true");
    let mut body = connection.send(Method::GET, &path, "", Bytes::new()).await?.into_body();
    Ok(async move {
        // The connection lives as long as its watch.
        let _connection = connection;
        let mut added = 0;
        let mut line = Vec::new();
        while let Some(frame) = body.frame().await {
            for byte in frame?.data_ref().into_iter().flatten() {
                line.push(*byte);
                if *byte == b'\n' {
                    added += usize::from(line.starts_with(br#"{"type":"ADDED""#));
                    line.clear();
                }
            }
            if added == VIPS {
                return Ok(Instant::now());
            }
        }
        anyhow::bail!("the watch ended after {added} VipAddresses")
    })
}

/// How many Services say that all their VIPs are in place.
async fn ready(connection: &mut Connection) -> anyhow::Result<usize> {
    let list: Value = serde_json::from_slice(&connection.get(objects::SERVICES).await?)?;
    let ready = |service: &&Value| objects::is_true(service, "netwrangler.dev/VipsReady");
    Ok(list["items"].as_array().into_iter().flatten().filter(ready).count())
}

async fn samples(connection: &mut Connection) -> anyhow::Result<Samples> {
    Ok(Samples::parse(std::str::from_utf8(&connection.get("/metrics").await?)?))
}

/// How often the controllers asked this of the API.
fn asked(samples: &Samples, verb: &str, resource: &str) -> f64 {
    let labels = [format!("verb=\"{verb}\""), format!("resource=\"{resource}\"")];
    samples.sum("litek8s_controllers_requests_total", &[&labels[0], &labels[1]])
}

/// How often the controllers changed something.
fn writes(samples: &Samples) -> f64 {
    let all = samples.sum("litek8s_controllers_requests_total", &[]);
    let reads = ["get", "list", "watch"].map(|verb| format!("verb=\"{verb}\""));
    all - reads.iter().map(|verb| samples.sum("litek8s_controllers_requests_total", &[verb])).sum::<f64>()
}
