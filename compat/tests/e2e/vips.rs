//! Virtual IPs with real packets: who answers, which way replies leave, what follows endpoints, what a crash changes.

use anyhow::{Context, Result, bail, ensure};
use litek8s_compat::{Background, Cluster, Counters, KernelWatch, Traffic, eventually, nothing_in_force};
use litek8s_lab::{Member, Role};
use serde_json::json;

use super::manifests::{config, endpoints, list, network, service};

const NODES: [(&str, &str); 3] = [("node-1", "192.0.2.1"), ("node-2", "192.0.2.2"), ("node-3", "192.0.2.3")];
const ADDRESSES: [&str; 3] = ["203.0.113.10", "203.0.113.11", "203.0.113.12"];

/// A cluster with a responder on every node and a Service of so many addresses that is in place.
pub(super) async fn serving(name: &str, nodes: u8, addresses: &[&str]) -> Result<(Cluster, Vec<Background>)> {
    let cluster = Cluster::up(name, nodes).await?;
    let responders: Result<Vec<_>> =
        cluster.lab.topology().nodes().map(|node| cluster.responder(&node, 80)).collect();
    let slice = endpoints("web", &NODES[..usize::from(nodes)]);
    cluster.kubectl.apply(&list(&[config(), network(), service("web", addresses), slice]))?;
    for address in addresses {
        eventually("every address to be in place", || cluster.holder(address))
            .with_context(|| cluster.logs())?;
    }
    Ok((cluster, responders?))
}

#[tokio::test]
async fn every_vip_answers_from_outside_and_replies_leave_by_its_interface() -> Result<()> {
    let (cluster, _responders) = serving("vipreply", 3, &ADDRESSES).await?;
    let seen = Counters::new(
        &cluster,
        &Member::Outside,
        "prerouting",
        &[
            ("right", "iifname eth1 ip saddr 203.0.113.0/24 tcp sport 80"),
            ("wrong", "iifname != eth1 ip saddr 203.0.113.0/24"),
        ],
    )?;
    let mut holders = std::collections::BTreeSet::new();
    for address in ADDRESSES {
        let holder = cluster.holder(address)?;
        let answer = eventually("an answer", || cluster.ask_from_outside(&format!("http://{address}/")))
            .with_context(|| cluster.logs())?;
        ensure!(answer == holder, "{address} is on {holder}, and {answer} answers");
        // The node's own replies too: they never pass the prerouting hook.
        cluster.run(&Member::Outside, &["ping", "-n", "-c1", "-W2", "-I", "198.51.100.1", address])?;
        holders.insert(holder);
    }
    ensure!(holders.len() == 3, "three addresses on {holders:?}");
    ensure!(seen.read(&cluster, "right")? > 0);
    ensure!(seen.read(&cluster, "wrong")? == 0, "replies left by another interface");
    let table = cluster.kubectl.ok(&["get", "vipaddresses", "-A"])?;
    for column in ["NAMESPACE", "NAME", "NETWORK", "NODE", "VIRTUAL IP", "TABLE", "PRIORITY", "AGE"] {
        ensure!(table.contains(column), "no column {column}:\n{table}");
    }
    Ok(())
}

#[tokio::test]
async fn a_service_of_type_load_balancer_gets_its_annotated_addresses() -> Result<()> {
    let (cluster, _responders) = serving("viplb", 1, &["203.0.113.10"]).await?;
    let balanced = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "lb", "annotations": {"netwrangler.dev/addresses": "203.0.113.20, 203.0.113.21"},
            "labels": {"netwrangler.dev/ingress": "enabled"}},
        "spec": {"type": "LoadBalancer", "loadBalancerClass": "netwrangler.dev/vip", "ports": [{"port": 80}]},
    });
    cluster.kubectl.apply(&list(&[balanced, endpoints("lb", &NODES[..1])]))?;
    eventually("the status to name both addresses", || {
        let ingress =
            cluster.kubectl.json(&["get", "service", "lb"])?["status"]["loadBalancer"]["ingress"].clone();
        let addresses: Vec<_> =
            ingress.as_array().into_iter().flatten().map(|one| one["ip"].clone()).collect();
        if addresses == ["203.0.113.20", "203.0.113.21"] { Ok(()) } else { bail!("{ingress}") }
    })
    .with_context(|| cluster.logs())?;
    for address in ["203.0.113.20", "203.0.113.21"] {
        eventually("an answer", || cluster.ask_from_outside(&format!("http://{address}/")))?;
    }
    Ok(())
}

#[tokio::test]
async fn vips_leave_a_node_whose_endpoints_go_away() -> Result<()> {
    let (cluster, _responders) = serving("vipmove", 2, &ADDRESSES[..2]).await?;
    cluster.kubectl.apply(&endpoints("web", &NODES[1..2]).to_string())?;
    for address in &ADDRESSES[..2] {
        eventually("node-2 to hold it", || match cluster.holder(address)?.as_str() {
            "node-2" => Ok(()),
            other => bail!("{other} holds {address}"),
        })
        .with_context(|| cluster.logs())?;
        eventually("node-2 to answer", || {
            match cluster.ask_from_outside(&format!("http://{address}/"))?.as_str() {
                "node-2" => Ok(()),
                other => bail!("{other} answers"),
            }
        })?;
    }
    nothing_in_force(&cluster, &Member::Node(1)).with_context(|| cluster.logs())
}

#[tokio::test]
async fn a_deleted_service_leaves_nothing_on_its_nodes() -> Result<()> {
    let (cluster, _responders) = serving("vipgone", 1, &ADDRESSES).await?;
    cluster.kubectl.ok(&["delete", "service", "web"])?;
    nothing_in_force(&cluster, &Member::Node(1)).with_context(|| cluster.logs())?;
    ensure!(cluster.vips()?.is_empty());
    Ok(())
}

#[tokio::test]
async fn traffic_outlives_the_agent_and_its_restart_writes_nothing() -> Result<()> {
    let (cluster, _responders) = serving("vipagent", 1, &ADDRESSES[..2]).await?;
    let node = Member::Node(1);
    let url = format!("http://{}/", ADDRESSES[0]);
    eventually("an answer", || cluster.ask_from_outside(&url))?;
    let traffic = Traffic::start(&cluster.lab, &Member::Outside, &url, Some("198.51.100.1"))?;
    traffic.await_answers(20)?;
    cluster.lab.kill(Role::Agent, &node)?;
    traffic.await_answers(50)?;

    let watch = KernelWatch::start(&cluster, &node)?;
    cluster.lab.revive().await?;
    // A new address shows that the new agent works; what it did before is on the watch.
    cluster.kubectl.apply(&service("web", &ADDRESSES).to_string())?;
    eventually("the new address to be in place", || cluster.holder(ADDRESSES[2]))
        .with_context(|| cluster.logs())?;
    traffic.await_answers(20)?;
    let (answered, failed) = traffic.stop();
    ensure!(failed == 0, "{failed} of {} requests failed", answered + failed);
    let touched = watch.touched(&ADDRESSES[..2])?;
    ensure!(touched.is_empty(), "touched:\n{}", touched.join("\n"));
    Ok(())
}

#[tokio::test]
async fn a_vip_created_again_is_announced_and_answers() -> Result<()> {
    let (cluster, _responders) = serving("vipagain", 2, &ADDRESSES[..1]).await?;
    let url = format!("http://{}/", ADDRESSES[0]);
    let first = eventually("an answer", || cluster.ask_from_outside(&url))?;
    let other = if first == "node-1" { &NODES[1..2] } else { &NODES[..1] };
    // The router's neighbour entry still names the old node: only an announcement corrects it at once.
    cluster.kubectl.apply(&endpoints("web", other).to_string())?;
    eventually("the other node to answer", || match cluster.ask_from_outside(&url)? {
        answer if answer == other[0].0 => Ok(()),
        answer => bail!("{answer} answers"),
    })
    .with_context(|| cluster.logs())
}
