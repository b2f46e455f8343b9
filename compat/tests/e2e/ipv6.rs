//! IPv6 and dual-stack VIPs with real packets: who answers, which way replies leave, moves, egress, a node that dies.

use anyhow::{Context, Result, bail, ensure};
use litek8s_compat::{Answerers, Background, Cluster, Counters, Observer, eventually};
use litek8s_lab::{Cable, Member, Role, Segment};

use super::hand_over::watch_move;
use super::manifests::{
    dual_config, dual_service, endpoints, list, long_endpoints, long_network, network, service,
};

const FOUR: &str = "203.0.113.10";
const SIX: &str = "2001:db8:113::10";
const NODES: [(&str, &str); 3] = [("node-1", "192.0.2.1"), ("node-2", "192.0.2.2"), ("node-3", "192.0.2.3")];
const NODES_V6: [(&str, &str); 3] =
    [("node-1", "fd00:192::1"), ("node-2", "fd00:192::2"), ("node-3", "fd00:192::3")];

/// A cluster with responders and a dual-stack Service `web` that is in place.
async fn serving(name: &str, nodes: usize, addresses: &[&str]) -> Result<(Cluster, Vec<Background>)> {
    let cluster = Cluster::up(name, u8::try_from(nodes)?).await?;
    let responders: Result<Vec<_>> =
        cluster.lab.topology().nodes().map(|node| cluster.responder(&node, 80)).collect();
    cluster.kubectl.apply(&list(&[
        dual_config(),
        network(),
        long_network(),
        dual_service("web", addresses),
        endpoints("web", &NODES[..nodes]),
        long_endpoints("web", &NODES_V6[..nodes]),
    ]))?;
    for address in addresses {
        eventually("every address to be in place", || cluster.holder(address))
            .with_context(|| cluster.logs())?;
    }
    Ok((cluster, responders?))
}

fn url(address: &str) -> String {
    if address.contains(':') { format!("http://[{address}]/") } else { format!("http://{address}/") }
}

#[tokio::test]
async fn a_dual_stack_service_answers_by_both_families_and_replies_leave_by_the_vips_interface() -> Result<()>
{
    let (cluster, _responders) = serving("sixreply", 2, &[FOUR, SIX]).await?;
    let seen = Counters::new(
        &cluster,
        &Member::Outside,
        "prerouting",
        &[
            ("right", "iifname eth1 ip6 saddr 2001:db8:113::/64 tcp sport 80"),
            ("wrong", "iifname != eth1 ip6 saddr 2001:db8:113::/64"),
        ],
    )?;
    for address in [FOUR, SIX] {
        let holder = cluster.holder(address)?;
        let answer = eventually("an answer", || cluster.ask_from_outside(&url(address)))
            .with_context(|| cluster.logs())?;
        ensure!(answer == holder, "{address} is on {holder}, and {answer} answers");
    }
    // The node's own replies too: they never pass the prerouting hook.
    cluster.run(&Member::Outside, &["ping", "-n", "-c1", "-W2", "-I", "2001:db8:51::1", SIX])?;
    ensure!(seen.read(&cluster, "right")? > 0);
    ensure!(seen.read(&cluster, "wrong")? == 0, "replies left by another interface");
    Ok(())
}

#[tokio::test]
async fn an_address_of_a_family_the_service_does_not_have_is_refused_and_the_other_is_placed() -> Result<()> {
    let (cluster, _responders) = serving("sixrefuse", 1, &[FOUR, SIX]).await?;
    let (four, six) = ("203.0.113.20", "2001:db8:113::20");
    cluster.kubectl.apply(&list(&[service("single", &[four, six]), endpoints("single", &NODES[..1])]))?;
    eventually("the one to be in place", || cluster.holder(four)).with_context(|| cluster.logs())?;
    eventually("the other to be refused", || {
        let text =
            cluster.kubectl.ok(&["get", "service", "single", "-o", "jsonpath={.status.conditions}"])?;
        ensure!(text.contains(six) && text.contains("FamilyNotServed"), "{text}");
        Ok(())
    })?;
    ensure!(cluster.holder(six).is_err());
    Ok(())
}

#[tokio::test]
async fn an_ipv6_vip_moves_without_overlap_and_leaves_nothing_behind() -> Result<()> {
    let (cluster, _responders) = serving("sixmove", 2, &[SIX]).await?;
    let _answerers = Answerers::start(&cluster.lab, SIX)?;
    let holder = cluster.holder(SIX)?;
    let seen = watch_move(
        &cluster,
        SIX,
        &["annotate", "netwrangler.dev/drain=true"],
        &["annotate", "netwrangler.dev/drain-"],
    )?;
    println!("gap of the planned move: {:?}", seen.gap());
    ensure!(seen.holders().len() == 2, "answered by {:?}\n{}", seen.holders(), cluster.logs());
    ensure!(seen.overlap() == 0, "{} questions were answered by both", seen.overlap());
    let node = if holder == "node-1" { Member::Node(1) } else { Member::Node(2) };
    eventually("the old node to have none of it", || {
        let mut left = String::new();
        for line in [
            &["ip", "-6", "addr", "show", "dev", "eth1", "scope", "global"][..],
            &["ip", "-6", "rule"],
            &["ip", "-6", "route", "show", "table", "all", "proto", "110"],
            &["nft", "list", "ruleset"],
        ] {
            left.push_str(&cluster.run(&node, line)?);
        }
        if left.contains("2001:db8:113::") || left.contains("fwmark") { bail!("{left}") } else { Ok(()) }
    })
}

#[tokio::test]
async fn a_pod_leaves_with_the_vip_of_each_family() -> Result<()> {
    let mut cluster = Cluster::up("sixegress", 1).await?;
    let node = Member::Node(1);
    let four = cluster.lab.add_pod(&node, "in").await?.to_string();
    let six = format!("fd42:0:0:1::{}", four.rsplit('.').next().unwrap_or_default());
    let _who = cluster.responder(&Member::Outside, 80)?;
    let mut web = dual_service("web", &[FOUR, SIX]);
    web["metadata"]["labels"]["netwrangler.dev/egress"] = "enabled".into();
    cluster.kubectl.apply(&list(&[
        dual_config(),
        network(),
        long_network(),
        web,
        endpoints("web", &[("node-1", &four)]),
        long_endpoints("web", &[("node-1", &six)]),
    ]))?;
    let pod = Member::Pod("in".to_owned());
    for (who, vip) in [("198.51.100.1", FOUR), ("[2001:db8:51::1]", SIX)] {
        eventually("the VIP to be seen outside", || {
            match cluster.ask(&pod, &format!("http://{who}/client"), None)?.as_str() {
                seen if seen == vip => Ok(()),
                other => bail!("seen as {other}, not {vip}"),
            }
        })
        .with_context(|| cluster.logs())?;
    }
    Ok(())
}

#[tokio::test]
async fn a_dead_nodes_ipv6_vip_is_answered_elsewhere() -> Result<()> {
    let (cluster, _responders) = serving("sixdead", 3, &[SIX]).await?;
    let _answerers = Answerers::start(&cluster.lab, SIX)?;
    let observer = Observer::start(&cluster.lab, SIX)?;
    let holder = cluster.holder(SIX)?;
    let number: u8 = holder.strip_prefix("node-").context("a node's name")?.parse()?;
    // Its neighbours have to have heard it once.
    std::thread::sleep(std::time::Duration::from_secs(2));
    for segment in [Segment::Public, Segment::Lan] {
        cluster.lab.cut(&Cable { member: Member::Node(number), segment }).await?;
    }
    cluster.lab.kill(Role::Agent, &Member::Node(number))?;
    eventually("another node to hold it", || match cluster.holder(SIX)? {
        other if other == holder => bail!("{other} still holds it"),
        _ => Ok(()),
    })
    .with_context(|| cluster.logs())?;
    std::thread::sleep(std::time::Duration::from_secs(1));
    let seen = observer.stop();
    println!("gap of the fail-over: {:?}", seen.gap());
    ensure!(seen.holders().len() == 2, "answered by {:?}\n{}", seen.holders(), cluster.logs());
    Ok(())
}
