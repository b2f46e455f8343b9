//! A dev cluster whose VIP moves: as planned, and because its node died; and reloads of nftables under load.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use litek8s_lab::{Answerers, Cable, Lab, Member, Observer, Role, Segment, Traffic};
use serde_json::json;

use crate::client::{Connection, Target as Peer};
use crate::latency::Latencies;
use crate::report::{Report, Target};
use crate::scenario::objects::{self, PORT, SUITE};
use crate::scenario::vip::{responder, start, until_answered};

const NODES: u8 = 4;
const VIP: &str = "203.0.113.10";
/// Of another Service, whose coming and going reloads what the VIP's node has.
const OTHER: &str = "203.0.113.11";
/// Moves as planned, and nodes that die.
const MOVES: usize = 20;
const DEATHS: usize = 20;
/// Changes of the ruleset under load, and clients that ask meanwhile without a pause for thought.
const RELOADS: usize = 200;
const CLIENTS: usize = 4;
/// How long it takes until every neighbour has seen a VIP that moved.
const SETTLED: Duration = Duration::from_secs(3);
/// How long is looked at after a move, for an answer of the node before.
const AFTER: Duration = Duration::from_millis(500);

/// Starts a cluster, measures, and removes it.
///
/// # Errors
/// When the cluster does not start or the VIP does not come back.
pub(crate) async fn moves(report: &mut Report, binary: &Path) -> anyhow::Result<()> {
    eprintln!("VIPs that move");
    let lab = start("benchmoves", NODES, binary).await?;
    let result = measure(report, &lab, binary).await;
    result.and(lab.down())
}

async fn measure(report: &mut Report, lab: &Lab, binary: &Path) -> anyhow::Result<()> {
    let mut connection = Peer::from_kubeconfig(&lab.kubeconfig())?.connect().await?;
    objects::configure(&mut connection).await?;
    objects::publish(&mut connection, "web", &[VIP.to_owned()], &objects::on_nodes(NODES)).await?;
    settled(&mut connection, None).await?;
    let _answerers = Answerers::start(lab, VIP)?;
    planned(report, lab, &mut connection).await?;
    deaths(report, lab, &mut connection).await?;
    reloads(report, lab, &mut connection, binary).await
}

/// The node that holds the VIP, once one does that is not `before`.
async fn settled(connection: &mut Connection, before: Option<&str>) -> anyhow::Result<String> {
    let mut holder = String::new();
    objects::until("a node to hold the VIP", async || {
        let addresses = objects::addresses(connection).await?;
        let held = addresses.iter().find(|address| {
            address["spec"]["virtualCIDR"] == format!("{VIP}/24") && objects::is_true(address, "Ready")
        });
        let node = held.and_then(|held| held["spec"]["node"].as_str()).unwrap_or_default();
        node.clone_into(&mut holder);
        Ok(!node.is_empty() && Some(node) != before)
    })
    .await?;
    Ok(holder)
}

/// The node is drained, and may have VIPs again afterwards.
async fn planned(report: &mut Report, lab: &Lab, connection: &mut Connection) -> anyhow::Result<()> {
    let (mut gaps, mut overlap) = (Latencies::default(), 0);
    for _ in 0..MOVES {
        let holder = settled(connection, None).await?;
        let node = format!("/api/v1/nodes/{holder}");
        let drain = |value| json!({"metadata": {"annotations": {"netwrangler.dev/drain": value}}});
        let observer = Observer::start(lab, VIP)?;
        tokio::time::sleep(AFTER).await;
        objects::merge(connection, &node, &drain(Some("true"))).await?;
        settled(connection, Some(&holder)).await?;
        tokio::time::sleep(AFTER).await;
        let seen = observer.stop();
        objects::merge(connection, &node, &drain(None)).await?;
        ensure!(seen.holders().len() == 2, "a planned move was answered by {:?}", seen.holders());
        gaps.record(seen.gap());
        overlap += seen.overlap();
    }
    let name = format!("{MOVES} planned moves");
    report.add(format!("{name}: gap p50"), gaps.percentile(50), "ms", Target::AtMost(150.0), None);
    report.add(format!("{name}: longest gap"), gaps.percentile(100), "ms", Target::None, None);
    report.add(format!("{name}: overlap"), count(overlap), "ms", Target::AtMost(0.0), None);
    Ok(())
}

/// A node loses both its networks and its agent, and starts anew some time later.
async fn deaths(report: &mut Report, lab: &Lab, connection: &mut Connection) -> anyhow::Result<()> {
    let (mut gaps, mut overlap) = (Latencies::default(), 0);
    for _ in 0..DEATHS {
        tokio::time::sleep(SETTLED).await;
        let holder = settled(connection, None).await?;
        let number = holder.strip_prefix("node-").context("a node's name")?.parse()?;
        let node = Member::Node(number);
        let cables = [Segment::Public, Segment::Lan].map(|segment| Cable { member: node.clone(), segment });
        let observer = Observer::start(lab, VIP)?;
        tokio::time::sleep(AFTER).await;
        for cable in &cables {
            lab.cut(cable).await?;
        }
        lab.kill(Role::Agent, &node)?;
        settled(connection, Some(&holder)).await?;
        tokio::time::sleep(AFTER).await;
        let seen = observer.stop();
        ensure!(seen.holders().len() == 2, "a dead node's VIP was answered by {:?}", seen.holders());
        gaps.record(seen.gap());
        overlap += seen.overlap();
        // What a machine forgets when it is switched off.
        shell(lab, &node, "ip addr flush dev eth1; nft flush ruleset")?;
        for cable in &cables {
            lab.heal(cable).await?;
        }
        lab.revive().await?;
    }
    let name = format!("{DEATHS} nodes that died");
    for (what, part, target) in [("p50", 50, Target::AtMost(3_000.0)), ("p99", 99, Target::AtMost(5_000.0))] {
        report.add(format!("{name}: VIP unanswered, {what}"), gaps.percentile(part), "ms", target, None);
    }
    report.add(format!("{name}: overlap"), count(overlap), "ms", Target::AtMost(0.0), None);
    Ok(())
}

/// The VIP's node gets its table anew while clients ask: other VIPs come and go, the VIP's own networks change, and
/// somebody loads the whole table again.
async fn reloads(
    report: &mut Report,
    lab: &Lab,
    connection: &mut Connection,
    binary: &Path,
) -> anyhow::Result<()> {
    let holder = settled(connection, None).await?;
    let node: Member = holder.parse().map_err(anyhow::Error::msg)?;
    let _responder = responder(lab, &node, binary)?;
    until_answered(lab, VIP, binary)?.await?;
    let url = format!("http://{VIP}:{PORT}/");
    let clients: Vec<Traffic> = (0..CLIENTS)
        .map(|_| Traffic::start(lab, &Member::Outside, &url, Some("198.51.100.1")))
        .collect::<anyhow::Result<_>>()?;
    let endpoint = [(holder.clone(), "192.0.2.1".to_owned())];
    for reload in 0..RELOADS {
        match reload % 5 {
            0 => {
                objects::publish(connection, "other", &[OTHER.to_owned()], &endpoint).await?;
                ruleset(lab, &node, OTHER, true).await?;
            }
            1 => {
                objects::withdraw(connection, "other").await?;
                ruleset(lab, &node, OTHER, false).await?;
            }
            2 | 3 => {
                let (sources, sign) = if reload % 5 == 2 {
                    (["198.51.100.0/24", "10.0.0.0/8"].as_slice(), true)
                } else {
                    (["0.0.0.0/0"].as_slice(), false)
                };
                let path = format!("{SUITE}/vipnetworks/public");
                objects::merge(connection, &path, &json!({"spec": {"sourceCIDRs": sources}})).await?;
                ruleset(lab, &node, "198.51.100.0/24", sign).await?;
            }
            _ => {
                let again =
                    "{ echo delete table inet netwrangler; nft list table inet netwrangler; } | nft -f -";
                shell(lab, &node, again)?;
            }
        }
    }
    let (mut answered, mut failed) = (0, 0);
    for client in clients {
        let (more, less) = client.stop();
        answered += more;
        failed += less;
    }
    let name = format!("{RELOADS} reloads of nftables under load");
    report.add(format!("{name}: connections"), count(answered + failed), "connections", Target::None, None);
    report.add(format!("{name}: failed"), count(failed), "connections", Target::AtMost(0.0), None);
    Ok(())
}

/// Waits until the node's table names something, or no longer does.
async fn ruleset(lab: &Lab, node: &Member, sign: &str, there: bool) -> anyhow::Result<()> {
    objects::until("the table to be written", async || {
        let mut list = lab.command(node, "nft")?;
        let listed = list.args(["list", "table", "inet", "netwrangler"]).output()?;
        Ok(String::from_utf8_lossy(&listed.stdout).contains(sign) == there)
    })
    .await
}

fn shell(lab: &Lab, node: &Member, script: &str) -> anyhow::Result<()> {
    let mut command: Command = lab.command(node, "sh")?;
    let output = command.args(["-c", script]).output()?;
    ensure!(output.status.success(), "{script} on {node}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::INFINITY, f64::from)
}
