//! What of the suite is on a node, and when nothing is.

use anyhow::{Result, ensure};
use litek8s_lab::Member;
use serde_json::Value;

use crate::{Cluster, eventually};

/// The VIPs on a node's interfaces, sorted: addresses with our label.
///
/// # Errors
/// When the node is not there.
pub fn vips_on(cluster: &Cluster, node: &Member) -> Result<Vec<String>> {
    let text = cluster.run(node, &["ip", "-o", "-4", "addr"])?;
    let labelled = text.lines().filter(|line| line.split_whitespace().any(|word| word.starts_with("vip:")));
    let address = |line: &str| {
        let word = line.split_whitespace().nth(3).unwrap_or_default();
        word.split('/').next().unwrap_or_default().to_owned()
    };
    let mut found: Vec<String> = labelled.map(address).collect();
    found.sort();
    Ok(found)
}

/// Waits until no packet is treated otherwise than without the suite: there is no address, rule, route or element of
/// its, and no tracked connection of a VIP.
///
/// # Errors
/// With what is left.
pub fn nothing_in_force(cluster: &Cluster, node: &Member) -> Result<()> {
    eventually("nothing to be in force", || {
        let mut left = vips_on(cluster, node)?;
        let rules = cluster.run(node, &["ip", "rule"])?;
        left.extend(rules.lines().filter(|rule| rule.contains("proto 110")).map(str::to_owned));
        let routes = cluster.run(node, &["ip", "route", "show", "table", "all", "proto", "110"])?;
        left.extend(routes.lines().map(str::to_owned));
        left.extend(elements(cluster, node)?);
        left.extend(connections(cluster, node)?);
        ensure!(left.is_empty(), "{node} still has\n{}", left.join("\n"));
        Ok(())
    })
}

/// Waits until there is not even the suite's table any more.
///
/// # Errors
/// With what is left.
pub fn nothing_left(cluster: &Cluster, node: &Member) -> Result<()> {
    nothing_in_force(cluster, node)?;
    let tables = cluster.run(node, &["nft", "list", "tables"])?;
    ensure!(!tables.contains("netwrangler"), "{node} still has {tables}");
    Ok(())
}

/// The elements of our maps and sets that name a VIP, a pod or a gateway's destination.
fn elements(cluster: &Cluster, node: &Member) -> Result<Vec<String>> {
    let listed: Value = serde_json::from_str(&cluster.run(node, &["nft", "-j", "list", "ruleset"])?)?;
    let mut found = Vec::new();
    for object in listed["nftables"].as_array().into_iter().flatten() {
        for kind in ["map", "set"] {
            let part = &object[kind];
            // The cluster's own networks are those of the last configuration; they change no packet by themselves.
            if part["table"] == "netwrangler" && part["name"] != "cluster-networks" && !part["elem"].is_null()
            {
                found.push(format!("{kind} {}: {}", part["name"], part["elem"]));
            }
        }
    }
    Ok(found)
}

/// Tracked connections to a VIP, or that left with one. Those that nobody answered are of whoever still sends here, as at
/// any router.
fn connections(cluster: &Cluster, node: &Member) -> Result<Vec<String>> {
    let tracked = cluster.run(node, &["conntrack", "-L"])?;
    let ours = |line: &&str| {
        line.split_whitespace().any(|word| {
            word.split_once('=')
                .is_some_and(|(_, address)| address.starts_with("203.0.113.") && !address.ends_with(".254"))
        })
    };
    Ok(tracked.lines().filter(|line| !line.contains("[UNREPLIED]")).filter(ours).map(str::to_owned).collect())
}
