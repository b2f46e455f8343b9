//! What others remove comes back by itself. How fast is measured in bench.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use litek8s_compat::{Cluster, eventually};
use litek8s_lab::Member;
use serde_json::Value;

use super::manifests::{config, endpoints, list, network, service};

const VIP: &str = "203.0.113.10";

#[tokio::test]
async fn what_others_remove_comes_back() -> Result<()> {
    let cluster = Cluster::up("repair", 1).await?;
    let node = Member::Node(1);
    let _responder = cluster.responder(&node, 80)?;
    let slice = endpoints("web", &[("node-1", "192.0.2.1")]);
    cluster.kubectl.apply(&list(&[config(), network(), service("web", &[VIP]), slice]))?;
    eventually("the address to be in place", || cluster.holder(VIP)).with_context(|| cluster.logs())?;
    let url = format!("http://{VIP}/");
    eventually("an answer", || cluster.ask_from_outside(&url))?;
    let whole = picture(&cluster, &node)?;
    for damage in [
        "nft flush ruleset",
        "ip rule del priority 20001",
        "ip route flush table 20001",
        "ip addr flush dev eth1",
        "ip link set eth1 down && ip link set eth1 up",
        "nft flush ruleset; ip rule del priority 20001; ip route flush table 20001",
    ] {
        cluster.run(&node, &["sh", "-c", damage])?;
        eventually(damage, || {
            let now = picture(&cluster, &node)?;
            ensure!(now == whole, "after {damage}:\n{now}\nwanted:\n{whole}");
            Ok(())
        })
        .with_context(|| cluster.logs())?;
        eventually("an answer", || cluster.ask_from_outside(&url))
            .with_context(|| format!("after {damage}\n{}", cluster.logs()))?;
    }
    // What is not ours stays as it was.
    for (foreign, look, sign) in [
        ("nft add table inet lk_foreign", &["nft", "list", "tables"][..], "lk_foreign"),
        ("ip rule add fwmark 0x3/0xff lookup 77 priority 5000", &["ip", "rule"], "lookup 77"),
        (
            "ip route add 198.18.0.0/15 dev eth1 table 20001",
            &["ip", "route", "show", "table", "20001"],
            "198.18.0.0/15",
        ),
    ] {
        cluster.run(&node, &["sh", "-c", foreign])?;
        cluster.run(&node, &["sh", "-c", "ip rule del priority 20001"])?;
        eventually("the rule to be back", || {
            let rules = cluster.run(&node, &["ip", "rule"])?;
            ensure!(rules.contains("20001:"), "{rules}");
            Ok(())
        })?;
        let listed = cluster.run(&node, look)?;
        ensure!(listed.contains(sign), "{foreign} was undone:\n{listed}");
    }
    Ok(())
}

/// What of the VIP is on the node, in words that do not change by themselves.
fn picture(cluster: &Cluster, node: &Member) -> Result<String> {
    let mut text = String::new();
    for line in [
        &["ip", "-br", "-4", "addr", "show", "dev", "eth1"][..],
        &["ip", "rule"],
        &["ip", "route", "show", "table", "20001"],
    ] {
        text.push_str(&cluster.run(node, line).unwrap_or_else(|error| format!("{error}\n")));
    }
    Ok(text + &ruleset(cluster, node)?)
}

/// The ruleset as structures: rules in their order, all else sorted, nothing of when it was made.
fn ruleset(cluster: &Cluster, node: &Member) -> Result<String> {
    let listed: Value =
        serde_json::from_str(&cluster.run(node, &["nft", "--json", "--stateless", "list", "ruleset"])?)?;
    let mut rules = BTreeMap::<String, usize>::new();
    let mut lines = Vec::new();
    for object in listed["nftables"].as_array().context("no ruleset")? {
        let mut object = object.clone();
        for (_, content) in object.as_object_mut().into_iter().flatten() {
            content.as_object_mut().map(|fields| fields.remove("handle"));
        }
        let chain = &object["rule"]["chain"];
        let place = rules.entry(chain.to_string()).and_modify(|count| *count += 1).or_default();
        lines.push(format!("{chain} {place:3} {object}\n"));
        if chain.is_null() {
            rules.remove("null");
        }
    }
    lines.sort();
    Ok(lines.concat())
}
