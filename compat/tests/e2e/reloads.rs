//! The node's nftables written again and again while clients ask: no connection fails. More of them are in bench.

use anyhow::{Context, Result, ensure};
use litek8s_compat::{Cluster, Traffic, eventually};
use litek8s_lab::Member;
use serde_json::{Value, json};

use super::manifests::{endpoints, list, service};
use super::vips::serving;

const VIP: &str = "203.0.113.10";
const OTHER: &str = "203.0.113.11";
/// Each round writes the table five times.
const ROUNDS: usize = 12;
const CLIENTS: usize = 4;

/// Waits until the node's table names something, or no longer does.
fn table(cluster: &Cluster, sign: &str, there: bool) -> Result<()> {
    eventually("the table to be written", || {
        let table = cluster.run(&Member::Node(1), &["nft", "list", "table", "inet", "netwrangler"])?;
        ensure!(table.contains(sign) == there, "{sign}:\n{table}");
        Ok(())
    })
    .with_context(|| cluster.logs())
}

fn sources(cluster: &Cluster, sources: &[&str]) -> Result<()> {
    let patch: Value = json!({"spec": {"sourceCIDRs": sources}});
    let line = ["patch", "vipnetwork", "public", "--type=merge", "-p", &patch.to_string()];
    cluster.kubectl.ok(&line).map(drop)
}

#[tokio::test]
async fn no_connection_fails_while_the_table_is_written_anew() -> Result<()> {
    let (cluster, _responders) = serving("vipreload", 1, &[VIP]).await?;
    let url = format!("http://{VIP}/");
    eventually("an answer", || cluster.ask_from_outside(&url))?;
    let clients: Vec<Traffic> = (0..CLIENTS)
        .map(|_| Traffic::start(&cluster.lab, &Member::Outside, &url, Some("198.51.100.1")))
        .collect::<Result<_>>()?;
    let other = list(&[service("other", &[OTHER]), endpoints("other", &[("node-1", "192.0.2.1")])]);
    for _ in 0..ROUNDS {
        // Another VIP comes and goes.
        cluster.kubectl.apply(&other)?;
        table(&cluster, OTHER, true)?;
        cluster.kubectl.ok(&["delete", "service", "other"])?;
        table(&cluster, OTHER, false)?;
        // The VIP's own networks change, for which its VipAddress is made anew.
        sources(&cluster, &["198.51.100.0/24", "10.0.0.0/8"])?;
        table(&cluster, "198.51.100.0/24", true)?;
        sources(&cluster, &["0.0.0.0/0"])?;
        table(&cluster, "198.51.100.0/24", false)?;
        // Somebody loads the whole table again.
        let again = "{ echo delete table inet netwrangler; nft list table inet netwrangler; } | nft -f -";
        cluster.run(&Member::Node(1), &["sh", "-c", again])?;
    }
    for client in clients {
        client.await_answers(1)?;
        let (answered, failed) = client.stop();
        ensure!(failed == 0, "{failed} of {} connections failed\n{}", answered + failed, cluster.logs());
    }
    Ok(())
}
