//! What the controllers ask of the API for some hundred VIPs, counted. How fast a thousand are is measured in bench.

use anyhow::{Context, Result, ensure};
use litek8s_compat::{Cluster, eventually};
use litek8s_lab::{HollowNodes, Samples};
use serde_json::{Value, json};

use super::manifests::{config, endpoints, list, service};

const NODES: u16 = 30;
const SERVICES: usize = 30;
/// Addresses of each Service, as many as nodes with its endpoints: so each node gets one.
const EACH: usize = 10;
const VIPS: usize = SERVICES * EACH;
/// How often a Service may be told how far its VIPs are while they come into place.
const TELLINGS: usize = 3;

/// What the controllers have asked of the API so far.
struct Asked(Samples);

impl Asked {
    fn read(cluster: &Cluster) -> Result<Self> {
        Ok(Self(Samples::parse(&cluster.kubectl.ok(&["get", "--raw", "/metrics"])?)))
    }

    fn sum(&self, labels: &[String]) -> f64 {
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        self.0.sum("litek8s_controllers_requests_total", &labels)
    }

    /// How often a verb was asked of a resource since an earlier look.
    fn since(&self, before: &Self, verb: &str, resource: &str) -> f64 {
        let labels = [format!("verb=\"{verb}\""), format!("resource=\"{resource}\"")];
        self.sum(&labels) - before.sum(&labels)
    }

    /// Everything that changed something, but the definitions that a start applies.
    fn writes(&self) -> f64 {
        let reads = ["get", "list", "watch"].map(|verb| self.sum(&[format!("verb=\"{verb}\"")]));
        let applied = ["verb=\"patch\"", "resource=\"customresourcedefinitions\""].map(str::to_owned);
        self.sum(&[]) - reads.iter().sum::<f64>() - self.sum(&applied)
    }

    /// How often the VIP controller decided.
    fn decisions(&self) -> f64 {
        self.0.sum("litek8s_vip_decision_seconds_count", &[])
    }
}

fn wide_network() -> Value {
    json!({
        "apiVersion": "netwrangler.dev/v1", "kind": "VipNetwork", "metadata": {"name": "wide"},
        "spec": {"interface": "eth1", "gatewayIP": "10.200.255.254", "networkCIDR": "10.200.0.0/16",
            "sourceCIDRs": ["0.0.0.0/0"]},
    })
}

/// A Service and its endpoints, one on each of ten nodes.
fn served(number: usize, nodes: &[String]) -> [Value; 2] {
    let name = format!("web-{number}");
    let addresses: Vec<String> = (1..=EACH).map(|last| format!("10.200.{number}.{last}")).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let place = |place| (&nodes[(number * EACH + place) % nodes.len()], format!("10.42.{number}.{place}"));
    let ready: Vec<(&String, String)> = (0..EACH).map(place).collect();
    let ready: Vec<(&str, &str)> = ready.iter().map(|(node, ip)| (node.as_str(), ip.as_str())).collect();
    [service(&name, &addresses), endpoints(&name, &ready)]
}

/// Waits until all VIPs are in place and every Service says so.
fn settled(cluster: &Cluster) -> Result<()> {
    eventually("every Service to be ready", || {
        let services = cluster.kubectl.json(&["get", "services"])?;
        let conditions = services["items"]
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|service| service["status"]["conditions"].as_array().cloned().unwrap_or_default());
        let ready = conditions.filter(|told| told["reason"] == "Ready" && told["status"] == "True").count();
        ensure!(ready == SERVICES, "{ready} of {SERVICES}");
        Ok(())
    })
    .with_context(|| cluster.logs())
}

/// Has the controllers decide twice more: what the decision before led to is done then, and counted.
fn another_pass(cluster: &Cluster) -> Result<Asked> {
    for _ in 0..2 {
        let before = Asked::read(cluster)?.decisions();
        // A change that means nothing for any VIP.
        let word = format!("touched={before}");
        cluster.kubectl.ok(&["annotate", "node", "hollow-1", &word, "--overwrite"])?;
        eventually("another decision", || {
            ensure!(Asked::read(cluster)?.decisions() > before, "not yet");
            Ok(())
        })?;
    }
    Asked::read(cluster)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_vip_costs_a_create_and_then_nothing() -> Result<()> {
    let cluster = Cluster::up("scale", 0).await?;
    let hollow = HollowNodes::start(&cluster.lab.kubeconfig(), NODES).await?;
    let served: Vec<Value> = (0..SERVICES).flat_map(|number| served(number, hollow.names())).collect();
    let create = ["create", "-f", "-"];
    cluster.kubectl.run(&create, &list(&served))?.success(&create)?;
    cluster.kubectl.apply(&wide_network().to_string())?;
    let before = another_pass(&cluster)?;

    cluster.kubectl.apply(&config().to_string())?;
    settled(&cluster)?;
    let placed = another_pass(&cluster)?;
    ensure!(cluster.vips()?.len() == VIPS);
    ensure!(hollow.told() == VIPS, "the agents wrote {} statuses", hollow.told());
    let since = |verb, resource| placed.since(&before, verb, resource);
    ensure!(since("create", "vipaddresses") == VIPS as f64, "{:?}", placed.0);
    ensure!(since("patch", "vipaddresses") + since("patch", "vipaddresses/status") == 0.0, "{:?}", placed.0);
    ensure!(since("delete", "vipaddresses") == 0.0, "{:?}", placed.0);
    let told = since("patch", "services/status");
    ensure!(told <= (SERVICES * TELLINGS) as f64, "{told} statuses of {SERVICES} Services");
    let told = since("create", "events") + since("patch", "events");
    ensure!(told <= (2 * SERVICES) as f64, "{told} Events of {SERVICES} Services");

    // Where nothing is to do, nothing is written.
    let idle = another_pass(&cluster)?;
    ensure!(idle.writes() == placed.writes(), "{:?}\n{:?}", placed.0, idle.0);

    // A node that is drained costs what its own VIPs cost: each goes, is let go of, and comes.
    let had = cluster.vips()?.iter().filter(|(_, node, _)| node == "hollow-1").count();
    cluster.kubectl.ok(&["annotate", "node", "hollow-1", "netwrangler.dev/drain=true"])?;
    eventually("the drained node to have none", || {
        let vips = cluster.vips()?;
        ensure!(vips.iter().all(|(_, node, ready)| node != "hollow-1" && *ready), "{vips:?}");
        Ok(())
    })?;
    settled(&cluster)?;
    let drained = another_pass(&cluster)?;
    for (verb, resource) in
        [("delete", "vipaddresses"), ("patch", "vipaddresses"), ("create", "vipaddresses")]
    {
        let count = drained.since(&idle, verb, resource);
        ensure!(count == had as f64, "{count} times {verb} for {had} VIPs");
    }

    // Controllers that have just started find it as it is.
    cluster.lab.kill(litek8s_lab::Role::Apiserver, &litek8s_lab::Member::Server)?;
    cluster.lab.revive_server().await?;
    eventually("the controllers to decide", || {
        ensure!(Asked::read(&cluster)?.decisions() > 0.0, "not yet");
        Ok(())
    })?;
    let started = another_pass(&cluster)?;
    ensure!(started.writes() == 0.0, "{:?}", started.0);
    ensure!(hollow.told() == VIPS + 2 * had, "the agents wrote {} statuses", hollow.told());
    Ok(())
}
