//! An hour's churn in minutes: objects made, changed and deleted at random, agents and the API server killed, tables
//! flushed. Whenever it is left alone the nodes agree with the API, and in the end nothing of it is left anywhere.
//!
//! `LITEK8S_SOAK_SEED=7` repeats a run, `LITEK8S_SOAK_STEPS=2000` makes it longer.

#[path = "soak/churn.rs"]
mod churn;

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use litek8s_compat::{Cluster, Traffic, eventually, nothing_in_force, nothing_left, vips_on};
use litek8s_lab::{Member, Role};
use serde_json::Value;

use churn::Churn;

const NODES: u8 = 3;
/// Steps of churn, and after how many of them it is left alone for a moment.
const STEPS: usize = 120;
const ROUND: usize = 24;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[tokio::test]
async fn churn_leaves_every_node_as_the_api_says_and_in_the_end_nothing() -> Result<()> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let seed = number("LITEK8S_SOAK_SEED").unwrap_or(now.as_secs());
    let steps = number("LITEK8S_SOAK_STEPS").map_or(Ok(STEPS), usize::try_from)?;
    println!("LITEK8S_SOAK_SEED={seed}");
    let mut cluster = Cluster::up("soak", NODES).await?;
    let mut pods = Vec::new();
    for node in 1..=NODES {
        let name = format!("soak-{node}");
        let address = cluster.lab.add_pod(&Member::Node(node), &name).await?;
        pods.push((name, address.to_string()));
    }
    let _outside = cluster.responder(&Member::Outside, 8080)?;
    let responders: Result<Vec<_>> =
        cluster.lab.topology().nodes().map(|node| cluster.responder(&node, 80)).collect();
    let responders = responders?;
    // Connections in both directions, so that there is something to forget.
    let inward =
        Traffic::start(&cluster.lab, &Member::Outside, "http://203.0.113.10/", Some("198.51.100.1"))?;
    let pod = Member::Pod(pods[0].0.clone());
    let outward = Traffic::start(&cluster.lab, &pod, "http://198.51.100.1:8080/client", None)?;

    let mut churn = Churn::new(seed, NODES, pods);
    for step in 0..steps {
        let done = churn.step(&cluster).await;
        done.with_context(|| format!("step {step} of seed {seed}\n{}", cluster.logs()))?;
        if step % ROUND == ROUND - 1 {
            churn.settle(&cluster).await?;
            agrees(&cluster, &churn).with_context(|| format!("after step {step} of seed {seed}"))?;
        }
    }
    let (answered, sent) = (inward.stop().0, outward.stop().0);
    ensure!(
        answered > 0 && sent > 0,
        "{answered} answers from a VIP, {sent} from outside: nothing was tried"
    );
    drop(responders);

    churn.settle(&cluster).await?;
    churn.end(&cluster)?;
    no_object(&cluster)?;
    for node in cluster.lab.topology().nodes() {
        nothing_in_force(&cluster, &node).with_context(|| format!("seed {seed}\n{}", cluster.logs()))?;
        cluster.lab.kill(Role::Agent, &node)?;
        cleanup(&cluster, &node)?;
        nothing_left(&cluster, &node).with_context(|| format!("seed {seed}"))?;
    }
    Ok(())
}

/// Every address that should have a place has one, in the API and on the node that the API names, and on no other.
fn agrees(cluster: &Cluster, churn: &Churn) -> Result<()> {
    eventually("the nodes to agree with the API", || {
        let vips = cluster.vips()?;
        let mut wanted: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (address, node, ready) in &vips {
            ensure!(*ready, "{address} is not in place on {node}");
            wanted.entry(node.clone()).or_default().push(address.clone());
        }
        let unplaced: Vec<String> =
            churn.expected().into_iter().filter(|ip| !vips.iter().any(|(vip, _, _)| vip == ip)).collect();
        ensure!(unplaced.is_empty(), "nowhere: {unplaced:?}");
        for node in cluster.lab.topology().nodes() {
            let mut wanted = wanted.remove(&node.to_string()).unwrap_or_default();
            wanted.sort();
            let held = vips_on(cluster, &node)?;
            ensure!(held == wanted, "{node} has {held:?}, the API says {wanted:?}");
        }
        Ok(())
    })
    .with_context(|| format!("{}\n{}", explained(cluster), cluster.logs()))
}

/// Waits until nothing that the suite makes is in the API.
fn no_object(cluster: &Cluster) -> Result<()> {
    eventually("no object to be left", || {
        let kinds = "vipaddresses,viproutes,vipguards,vipgateways,vipnetworks,vipconfigs";
        let left = cluster.kubectl.ok(&["get", kinds, "-A", "-o", "name"])?;
        ensure!(left.trim().is_empty(), "{left}");
        Ok(())
    })
    .with_context(|| cluster.logs())
}

/// What the controller says of every Service.
fn explained(cluster: &Cluster) -> String {
    let services = cluster.kubectl.json(&["get", "services"]).unwrap_or_default();
    let of =
        |service: &Value| format!("{}: {}\n", service["metadata"]["name"], service["status"]["conditions"]);
    services["items"].as_array().into_iter().flatten().map(of).collect()
}

fn cleanup(cluster: &Cluster, node: &Member) -> Result<()> {
    let program = cluster.program().display().to_string();
    let state = cluster.lab.state_dir(node).display().to_string();
    cluster.run(
        node,
        &[&program, "agent", "--cleanup", "--node-name", &node.to_string(), "--state-dir", &state],
    )?;
    Ok(())
}
