//! Planned moves: the old node lets go before the new one has the address, and nobody waits long.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use litek8s_compat::{Answerers, Cluster, Observer, Seen, eventually, nothing_in_force, vips_on};
use litek8s_lab::{Member, Role};
use nix::sys::signal::Signal;

use super::vips::serving;

const VIP: &str = "203.0.113.10";
/// A guard, ten times what `bench/` measures a planned move against: the machine is busy with other tests.
const GAP: Duration = Duration::from_millis(1500);
/// A machine that runs other tests at the same time may take longer once, not as a rule.
const MOVES: usize = 5;

fn moved(cluster: &Cluster, vip: &str, from: &str) -> Result<String> {
    eventually("another node to hold it", || match cluster.holder(vip)? {
        holder if holder == from => bail!("{holder} still holds it"),
        holder => Ok(holder),
    })
    .with_context(|| cluster.logs())
}

/// Begins to ask, makes the holder give the VIP away, and tells what was seen until a second after.
pub(super) fn watch_move(cluster: &Cluster, vip: &str, leave: &[&str], back: &[&str]) -> Result<Seen> {
    let holder = cluster.holder(vip)?;
    let observer = Observer::start(&cluster.lab, vip)?;
    std::thread::sleep(Duration::from_millis(300));
    let line = |verb: &[&str]| -> Result<()> {
        let mut line = vec![verb[0], "node", holder.as_str()];
        line.extend(&verb[1..]);
        cluster.kubectl.ok(&line).map(drop)
    };
    line(leave)?;
    moved(cluster, vip, &holder)?;
    std::thread::sleep(Duration::from_secs(1));
    let seen = observer.stop();
    line(back)?;
    Ok(seen)
}

#[tokio::test]
async fn a_drained_node_hands_its_vip_over_without_overlap_and_with_a_short_gap() -> Result<()> {
    let (cluster, _responders) = serving("viphand", 2, &[VIP]).await?;
    let _answerers = Answerers::start(&cluster.lab, VIP)?;
    let drain: (&[&str], &[&str]) =
        (&["annotate", "netwrangler.dev/drain=true"], &["annotate", "netwrangler.dev/drain-"]);
    let exclude: (&[&str], &[&str]) = (
        &["label", "node.kubernetes.io/exclude-from-external-load-balancers=true"],
        &["label", "node.kubernetes.io/exclude-from-external-load-balancers-"],
    );
    let mut gaps = Vec::new();
    for number in 0..MOVES {
        let (leave, back) = if number % 2 == 0 { drain } else { exclude };
        let seen = watch_move(&cluster, VIP, leave, back)?;
        ensure!(seen.questions() > 1000, "asked {} times in {:?}", seen.questions(), seen.lasted);
        ensure!(seen.holders().len() == 2, "answered by {:?}\n{}", seen.holders(), cluster.logs());
        ensure!(seen.overlap() == 0, "{} questions were answered by both", seen.overlap());
        gaps.push(seen.gap());
    }
    gaps.sort();
    println!("gaps of {MOVES} planned moves: {gaps:?}");
    ensure!(gaps[MOVES / 2] <= GAP, "{gaps:?}\n{}", cluster.logs());
    Ok(())
}

#[tokio::test]
async fn a_node_that_does_not_answer_is_not_waited_for_longer_than_it_must() -> Result<()> {
    let (cluster, _responders) = serving("viphang", 2, &[VIP]).await?;
    let holder = cluster.holder(VIP)?;
    let node = if holder == "node-1" { Member::Node(1) } else { Member::Node(2) };
    let agent = cluster.lab.process(Role::Agent, &node)?;
    // It lives, and says nothing.
    agent.running.signal(Signal::SIGSTOP)?;
    cluster.kubectl.ok(&["annotate", "node", &holder, "netwrangler.dev/drain=true"])?;
    let new = moved(&cluster, VIP, &holder);
    agent.running.signal(Signal::SIGCONT)?;
    let new = new?;
    ensure!(new != holder);
    eventually("the Event", || {
        let events = cluster.kubectl.ok(&["get", "events", "-A"])?;
        ensure!(events.contains("VipReleaseUnanswered"), "{events}");
        Ok(())
    })?;
    eventually("the old node to have let go after all", || {
        let left = cluster.run(&node, &["ip", "-o", "-4", "addr", "show", "dev", "eth1"])?;
        ensure!(!left.contains(VIP), "{left}");
        Ok(())
    })
    .with_context(|| cluster.logs())
}

#[tokio::test]
async fn an_agent_that_starts_takes_off_what_moved_while_it_was_away() -> Result<()> {
    let (cluster, _responders) = serving("vipaway", 2, &[VIP]).await?;
    let holder = cluster.holder(VIP)?;
    let node: Member = holder.parse().map_err(anyhow::Error::msg)?;
    cluster.lab.kill(Role::Agent, &node)?;
    cluster.kubectl.ok(&["annotate", "node", &holder, "netwrangler.dev/drain=true"])?;
    let new = moved(&cluster, VIP, &holder)?;
    ensure!(vips_on(&cluster, &node)? == [VIP], "an agent that is away removes nothing");
    cluster.lab.revive().await?;
    nothing_in_force(&cluster, &node).with_context(|| cluster.logs())?;
    eventually("the new holder to answer", || match cluster.ask_from_outside(&format!("http://{VIP}/"))? {
        answer if answer == new => Ok(()),
        other => bail!("{other} answers"),
    })
}
