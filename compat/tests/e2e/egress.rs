//! Connections that endpoints begin: seen outside with the VIP as source, and never marked with another.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use litek8s_compat::{Cluster, Counters, eventually};
use litek8s_lab::{Member, Role};

use super::manifests::{config, egress_service, endpoints, list, network, service};

const VIP: &str = "203.0.113.10";
/// Of the Service that a pod leaves with.
const OWN: &str = "203.0.113.11";
/// The responder outside says which address it saw.
const WHO: &str = "http://198.51.100.1:8080/client";
/// A packet of a VIP. IPv4 only: the kernel's own IPv6 multicast reports carry marks of nobody's.
const MARKED: &str = "meta nfproto ipv4 meta mark & 0x7f != 0";
/// Agents killed while a VIP comes or goes, each a little later into it than the one before.
const CRASHES: u64 = 8;
const CRASH_STEP: Duration = Duration::from_millis(15);

#[tokio::test]
async fn an_endpoint_is_seen_outside_with_the_vip_as_source() -> Result<()> {
    let mut cluster = Cluster::up("egress", 2).await?;
    let _outside = cluster.responder(&Member::Outside, 8080)?;
    let node = Member::Node(1);
    let inside = cluster.lab.add_pod(&node, "in").await?.to_string();
    cluster.lab.add_pod(&node, "bystander").await?;
    let slice = endpoints("web", &[("node-1", &inside)]);
    cluster.kubectl.apply(&list(&[config(), network(), egress_service("web", &[VIP]), slice]))?;
    eventually("the address to be in place", || cluster.holder(VIP)).with_context(|| cluster.logs())?;
    let pod = Member::Pod("in".to_owned());
    eventually("the VIP to be seen outside", || match cluster.ask(&pod, WHO, None)?.as_str() {
        VIP => Ok(()),
        other => bail!("seen as {other}"),
    })
    .with_context(|| cluster.logs())?;
    // What is inside the cluster stays inside, and who is no endpoint is not marked.
    let _other = cluster.responder(&Member::Node(2), 8080)?;
    let bystander = Member::Pod("bystander".to_owned());
    let counters = Counters::new(
        &cluster,
        &node,
        "postrouting",
        &[
            ("public", &format!("oifname eth1 ip saddr != {VIP}")),
            ("vip", &format!("oifname eth1 ip saddr {VIP}")),
        ],
    )?;
    let _ = cluster.ask(&bystander, WHO, None);
    ensure!(cluster.ask(&pod, WHO, None)? == VIP);
    ensure!(counters.read(&cluster, "public")? == 0, "somebody else left by the VIP's interface");
    ensure!(counters.read(&cluster, "vip")? > 0);
    Ok(())
}

#[tokio::test]
async fn a_reply_leaves_with_the_vip_that_was_asked_and_not_with_the_pods_own() -> Result<()> {
    let mut cluster = Cluster::up("egressreply", 1).await?;
    let _outside = cluster.responder(&Member::Outside, 8080)?;
    let node = Member::Node(1);
    let inside = cluster.lab.add_pod(&node, "in").await?.to_string();
    let pod = Member::Pod("in".to_owned());
    let _responder = cluster.responder(&pod, 80)?;
    let ready = [("node-1", inside.as_str())];
    let objects = [
        config(),
        network(),
        service("web", &[VIP]),
        endpoints("web", &ready),
        egress_service("own", &[OWN]),
        endpoints("own", &ready),
    ];
    cluster.kubectl.apply(&list(&objects))?;
    // What a service proxy does for externalIPs.
    let proxy = format!(
        "table ip proxy {{ chain in {{ type nat hook prerouting priority dstnat; \
         ip daddr {VIP} tcp dport 80 dnat to {inside}; }}; }}"
    );
    cluster.run(&node, &["nft", &proxy])?;
    eventually("the pod to be seen outside with its own VIP", || {
        match cluster.ask(&pod, WHO, None)?.as_str() {
            OWN => Ok(()),
            other => bail!("seen as {other}"),
        }
    })
    .with_context(|| cluster.logs())?;
    let replies = Counters::new(
        &cluster,
        &Member::Outside,
        "prerouting",
        &[
            ("right", &format!("iifname eth1 tcp sport 80 ip saddr {VIP}")),
            ("wrong", &format!("tcp sport 80 ip saddr != {VIP}")),
            ("elsewhere", &format!("iifname != eth1 ip saddr {VIP}")),
        ],
    )?;
    let answer = eventually("an answer of the pod", || cluster.ask_from_outside(&format!("http://{VIP}/")))
        .with_context(|| cluster.logs())?;
    ensure!(answer == pod.to_string(), "{answer} answers");
    ensure!(replies.read(&cluster, "right")? > 0);
    for never in ["wrong", "elsewhere"] {
        ensure!(replies.read(&cluster, never)? == 0, "{never}");
    }
    Ok(())
}

#[tokio::test]
async fn no_marked_packet_leaves_another_way_wherever_the_agent_dies() -> Result<()> {
    let mut cluster = Cluster::up("egresscrash", 1).await?;
    let _outside = cluster.responder(&Member::Outside, 8080)?;
    let node = Member::Node(1);
    let inside = cluster.lab.add_pod(&node, "in").await?.to_string();
    let pod = Member::Pod("in".to_owned());
    let slice = endpoints("web", &[("node-1", &inside)]);
    let (with, without) = (list(&[egress_service("web", &[VIP]), slice]), ["delete", "service", "web"]);
    cluster.kubectl.apply(&list(&[config(), network()]))?;
    let counters = Counters::new(
        &cluster,
        &node,
        "postrouting",
        &[
            ("elsewhere", &format!("{MARKED} oifname != {{ eth1, lo }}")),
            ("othersource", &format!("{MARKED} oifname eth1 ip saddr != {VIP}")),
            ("right", &format!("{MARKED} oifname eth1 ip saddr {VIP}")),
        ],
    )?;
    // A pod that never stops asking, so that there is a packet at every moment.
    let asking = litek8s_compat::Traffic::start(&cluster.lab, &pod, WHO, None)?;
    for crash in 0..CRASHES {
        if crash % 2 == 0 {
            cluster.kubectl.apply(&with)?;
        } else {
            cluster.kubectl.ok(&without)?;
        }
        // Not a wait for anything: the moment of the crash is what varies.
        std::thread::sleep(CRASH_STEP * u32::try_from(crash / 2)?);
        cluster.lab.kill(Role::Agent, &node)?;
        cluster.lab.revive().await?;
    }
    cluster.kubectl.apply(&with)?;
    eventually("the VIP to be seen outside", || match cluster.ask(&pod, WHO, None)?.as_str() {
        VIP => Ok(()),
        other => bail!("seen as {other}"),
    })
    .with_context(|| cluster.logs())?;
    drop(asking);
    for never in ["elsewhere", "othersource"] {
        let count = counters.read(&cluster, never)?;
        ensure!(count == 0, "{never}: {count} marked packets left the wrong way");
    }
    ensure!(counters.read(&cluster, "right")? > 0);
    Ok(())
}
