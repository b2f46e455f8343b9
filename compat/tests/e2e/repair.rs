//! What others remove comes back by itself. How fast is measured in bench.

use anyhow::{Context, Result, ensure};
use litek8s_compat::{Cluster, eventually};
use litek8s_lab::Member;

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
        &["nft", "--stateless", "list", "ruleset"],
    ] {
        text.push_str(&cluster.run(node, line).unwrap_or_else(|error| format!("{error}\n")));
    }
    Ok(text)
}
