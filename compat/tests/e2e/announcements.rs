//! A VIP's neighbours are told where it is whenever they may have learned something else meanwhile.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use litek8s_compat::{Cluster, Counters, eventually};
use litek8s_lab::{Cable, Member, Role, Segment};
use nix::sys::signal::Signal;

use super::vips::serving;

const VIP: &str = "203.0.113.10";
const NODE: Member = Member::Node(1);
/// Longer than the pause before the last repetition of an announcement.
const REPEATED: Duration = Duration::from_secs(4);
/// So long the API is away that every agent notices.
const AWAY: Duration = Duration::from_secs(16);

/// What was heard outside of somebody who says that the VIP is his.
struct Heard<'a> {
    cluster: &'a Cluster,
    counters: Counters,
}

impl Heard<'_> {
    fn count(&self) -> Result<u64> {
        self.counters.read(self.cluster, "announced")
    }

    /// Waits until nothing is repeated any more.
    fn quiet(&self) -> Result<u64> {
        eventually("silence", || {
            let before = self.count()?;
            std::thread::sleep(REPEATED);
            ensure!(self.count()? == before, "it is still repeated");
            Ok(before)
        })
    }

    fn again(&self, before: u64, why: &str) -> Result<()> {
        eventually(why, || {
            let now = self.count()?;
            ensure!(now > before, "heard {now} times, and {before} times before");
            Ok(())
        })
        .with_context(|| self.cluster.logs())
    }
}

#[tokio::test]
async fn a_vip_is_announced_whenever_its_neighbours_may_be_wrong() -> Result<()> {
    let (cluster, _responders) = serving("vipannounce", 1, &[VIP]).await?;
    let gratuitous = format!("arp saddr ip {VIP} arp daddr ip {VIP}");
    let counters = Counters::of_arp(&cluster, &Member::Outside, &[("announced", &gratuitous)])?;
    let heard = Heard { cluster: &cluster, counters };

    // Its VipAddress is made anew; the address never leaves the node.
    let before = heard.quiet()?;
    let patch = r#"{"spec":{"sourceCIDRs":["198.51.100.0/24"]}}"#;
    cluster.kubectl.ok(&["patch", "vipnetwork", "public", "--type=merge", "-p", patch])?;
    heard.again(before, "an announcement after it was made anew")?;

    // Its cable was pulled: it may be in another port now.
    let before = heard.quiet()?;
    let cable = Cable { member: NODE, segment: Segment::Public };
    cluster.lab.set_carrier(&cable, false).await?;
    cluster.lab.set_carrier(&cable, true).await?;
    heard.again(before, "an announcement after the link was down")?;

    // The API was away: another node may have had it.
    let before = heard.quiet()?;
    cluster.lab.signal(Role::Apiserver, &Member::Server, Signal::SIGSTOP)?;
    std::thread::sleep(AWAY);
    ensure!(heard.count()? == before, "announced while nothing is known");
    cluster.lab.signal(Role::Apiserver, &Member::Server, Signal::SIGCONT)?;
    heard.again(before, "an announcement after the API was away")?;

    // Its agent was away.
    let before = heard.quiet()?;
    cluster.lab.kill(Role::Agent, &NODE)?;
    cluster.lab.revive().await?;
    heard.again(before, "an announcement by a new agent")
}
