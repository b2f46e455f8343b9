//! A node that cannot serve a network loses its VIPs, and `litek8s vip` says why, what if and what is wrong.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use litek8s_compat::{Cluster, eventually, litek8s};
use litek8s_lab::{Cable, Member, Role, Segment};
use serde_json::Value;

use super::manifests::{config, endpoints, list, network, service};

const VIP: &str = "203.0.113.10";
const NODES: [(&str, &str); 2] = [("node-1", "192.0.2.1"), ("node-2", "192.0.2.2")];

/// `litek8s vip`, as a person runs it; what it prints and whether all is well.
pub(super) fn vip(cluster: &Cluster, line: &[&str]) -> Result<(String, bool)> {
    let output = Command::new(litek8s()?)
        .arg("vip")
        .args(line)
        .arg("--kubeconfig")
        .arg(cluster.lab.kubeconfig())
        .output()?;
    let text = String::from_utf8(output.stdout)? + &String::from_utf8(output.stderr)?;
    Ok((text, output.status.success()))
}

/// The flags by which a node's agent finds its server.
fn flags(cluster: &Cluster, on: &Member) -> Result<Vec<String>> {
    let pid = cluster.lab.process(Role::Agent, on)?.running.pid;
    let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline"))?;
    let line: Vec<&str> = line.split('\0').collect();
    let mut found = Vec::new();
    for name in ["--join", "--token-file", "--state-dir"] {
        let at = line.iter().position(|flag| *flag == name).context("a flag of the agent")?;
        found.extend([name.to_owned(), line[at + 1].to_owned()]);
    }
    Ok(found)
}

/// `litek8s vip diff` on a node, with the credentials of its agent.
fn diff(cluster: &Cluster, on: &Member, node: &str, flags: &[String]) -> Result<(String, bool)> {
    let mut command = cluster.lab.command(on, &litek8s()?.display().to_string())?;
    let output = command.args(["vip", "diff", node]).args(flags).output()?;
    let text = String::from_utf8(output.stdout)? + &String::from_utf8(output.stderr)?;
    Ok((text, output.status.success()))
}

async fn cluster(name: &str) -> Result<Cluster> {
    let cluster = Cluster::up(name, 2).await?;
    let slice = endpoints("web", &NODES);
    cluster.kubectl.apply(&list(&[config(), network(), service("web", &[VIP]), slice]))?;
    eventually("the VIP to be in place", || cluster.holder(VIP)).with_context(|| cluster.logs())?;
    Ok(cluster)
}

#[tokio::test]
async fn a_vip_leaves_a_node_whose_cable_is_out() -> Result<()> {
    let cluster = cluster("vipcarrier").await?;
    eventually("nothing to be wrong", || {
        let (text, well) = vip(&cluster, &["doctor"])?;
        ensure!(well && text.contains("everything is as it should be"), "{text}");
        Ok(())
    })
    .with_context(|| cluster.logs())?;
    let holder = cluster.holder(VIP)?;
    let node = Member::Node(holder.trim_start_matches("node-").parse()?);
    let cable = Cable { member: node, segment: Segment::Public };
    cluster.lab.set_carrier(&cable, false).await?;
    let other = eventually("the other node to hold it", || {
        let other = cluster.holder(VIP)?;
        ensure!(other != holder, "{other} has it still");
        Ok(other)
    })
    .with_context(|| cluster.logs())?;
    let said = format!("{holder}: interface eth1 has no carrier");
    let degraded = cluster.kubectl.ok(&[
        "get",
        "vipnetwork",
        "public",
        "-o",
        "jsonpath={.status.conditions[?(@.type==\"Degraded\")].message}",
    ])?;
    ensure!(degraded == said, "{degraded}");
    let (text, well) = vip(&cluster, &["doctor"])?;
    ensure!(
        !well && text.contains(&said) && text.contains("WRONG  VipNetwork public: NodesCannotServe"),
        "{text}"
    );
    let (text, _) = vip(&cluster, &["drain", &other, "--dry-run"])?;
    ensure!(text.contains("1 VIP would leave") && text.contains("no other node"), "{text}");

    cluster.lab.set_carrier(&cable, true).await?;
    eventually("nothing to be wrong again", || {
        let (text, well) = vip(&cluster, &["doctor"])?;
        ensure!(well, "{text}");
        Ok(())
    })
    .with_context(|| cluster.logs())?;
    let (text, _) = vip(&cluster, &["drain", &other, "--dry-run"])?;
    ensure!(text.contains(&format!("{VIP} of default/web to {holder}")), "{text}");
    Ok(())
}

#[tokio::test]
async fn a_person_is_told_why_and_what_differs() -> Result<()> {
    let cluster = cluster("vipwhy").await?;
    let holder = cluster.holder(VIP)?;
    let (text, well) = vip(&cluster, &["explain", "default/web"])?;
    ensure!(well && text.contains(&format!("{VIP}  {holder}: it was there; ")), "{text}");
    let (text, _) = vip(&cluster, &["explain", "-o", "json"])?;
    let json: Value = serde_json::from_str(&text)?;
    ensure!(json["services"][0]["addresses"][0]["node"] == holder.as_str(), "{text}");
    for (line, says) in [
        (&["explain", "nobody"][..], "Service default/nobody asks for no VIP"),
        (&["drain", "nowhere", "--dry-run"], "there is no Node nowhere"),
        (&["drain", "node-1"], "--dry-run"),
    ] {
        let (text, well) = vip(&cluster, line)?;
        ensure!(!well && text.contains(says), "{text}");
    }

    let on = Member::Node(holder.trim_start_matches("node-").parse()?);
    let flags = flags(&cluster, &on)?;
    eventually("the kernel to hold what it should", || {
        let (text, same) = diff(&cluster, &on, &holder, &flags)?;
        ensure!(same && text.contains("1 VIPs; the kernel holds what it should"), "{text}");
        Ok(())
    })
    .with_context(|| cluster.logs())?;
    let elsewhere = if holder == "node-1" { "node-2" } else { "node-1" };
    let (text, same) = diff(&cluster, &on, elsewhere, &flags)?;
    ensure!(!same && text.contains(&format!("this machine is not Node {elsewhere}")), "{text}");
    // With the agent dead nobody repairs.
    cluster.lab.kill(Role::Agent, &on)?;
    cluster.run(&on, &["ip", "rule", "del", "priority", "20001"])?;
    let (text, same) = diff(&cluster, &on, &holder, &flags)?;
    let due = "ip rule add fwmark 0x1/0x7f table 20001 priority 20001";
    ensure!(!same && text.contains(due) && text.contains("a change is due"), "{text}");
    Ok(())
}
