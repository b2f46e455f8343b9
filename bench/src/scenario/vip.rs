//! A dev cluster of one node: how soon a VIP answers, how long a full node takes, how soon a flushed ruleset is back.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::Context;
use litek8s_lab::{Lab, LabOptions, Member, Role};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::client::{Connection, Target as Peer};
use crate::latency::Latencies;
use crate::report::{Report, Target};
use crate::scenario::objects::{self, FULL, HANG, PORT};

/// The VIPs' node.
const NODE: Member = Member::Node(1);
/// Runs of each figure; the median is reported.
const RUNS: usize = 5;

/// Starts a cluster of one node, measures, and removes it.
///
/// # Errors
/// When the cluster does not start or a VIP does not answer.
pub(crate) async fn vip(report: &mut Report, binary: &Path) -> anyhow::Result<()> {
    eprintln!("VIPs of one node");
    let begin = Instant::now();
    let lab = start("bench", 1, binary).await?;
    report.add("dev cluster of one node up", begin.elapsed().as_secs_f64(), "s", Target::None, None);
    let result = measure(report, &lab, binary).await;
    // The cluster goes whatever was measured; the first error is the one that tells.
    result.and(lab.down())
}

/// A dev cluster.
pub(super) async fn start(name: &str, nodes: u8, binary: &Path) -> anyhow::Result<Lab> {
    Lab::up(LabOptions { name: name.to_owned(), nodes, program: binary.to_owned(), suite: true }).await
}

/// The responder of a node.
pub(super) fn responder(lab: &Lab, node: &Member, binary: &Path) -> anyhow::Result<Child> {
    let program = binary.to_str().context("a path that is no text")?;
    let mut command = exec(lab, node, program)?;
    command.args(["dev", "respond", "--name", &node.to_string(), "--port", &PORT.to_string()]);
    Ok(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)
}

/// A command in a member; it is killed when its handle is dropped.
fn exec(lab: &Lab, member: &Member, program: &str) -> anyhow::Result<Command> {
    let mut command = Command::from(lab.command(member, program)?);
    command.kill_on_drop(true);
    Ok(command)
}

async fn measure(report: &mut Report, lab: &Lab, binary: &Path) -> anyhow::Result<()> {
    let mut connection = Peer::from_kubeconfig(&lab.kubeconfig())?.connect().await?;
    objects::configure(&mut connection).await?;
    let _responder = responder(lab, &NODE, binary)?;
    let (mut answers, mut repairs) = (Latencies::default(), Latencies::default());
    for run in 0..RUNS {
        let address = format!("203.0.113.{}", 200 + run);
        let name = format!("first-{run}");
        let waiting = until_answered(lab, &address, binary)?;
        let begin = Instant::now();
        objects::publish(&mut connection, &name, &[address], &objects::on_nodes(1)).await?;
        waiting.await?;
        answers.record(begin.elapsed());
        repairs.record(repair(lab).await?);
        objects::withdraw(&mut connection, &name).await?;
        objects::gone(&mut connection).await?;
    }
    let second = Target::AtMost(1_000.0);
    report.add("VIP created to answered from outside", answers.percentile(50), "ms", second, None);
    report.add("ruleset flushed to ruleset back", repairs.percentile(50), "ms", second, None);

    let (mut programmed, mut announced) = (Latencies::default(), Latencies::default());
    let (mut resident, mut own): (f64, f64) = (0.0, 0.0);
    for run in 0..RUNS {
        let addresses: Vec<String> = (1..=FULL).map(|host| format!("203.0.113.{host}")).collect();
        let capture = announcements(lab, FULL).await?;
        let name = format!("full-{run}");
        objects::publish(&mut connection, &name, &addresses, &objects::on_nodes(1)).await?;
        programmed.record(all_programmed(&mut connection, FULL).await?);
        announced.record(capture.await?);
        resident = resident.max(agent_mb(lab, "VmRSS:")?);
        own = own.max(agent_mb(lab, "RssAnon:")?);
        objects::withdraw(&mut connection, &name).await?;
        objects::gone(&mut connection).await?;
    }
    let figures = [
        ("first created to last programmed", programmed.percentile(50) / 1e3, "s", Target::AtMost(2.0)),
        ("announced, first to last", announced.percentile(50) / 1e3, "s", Target::AtMost(1.0)),
        ("resident memory of its agent", resident, "MB", Target::AtMost(20.0)),
        ("of that its own, without the program's file", own, "MB", Target::None),
    ];
    for (what, value, unit, target) in figures {
        report.add(format!("{FULL} VIPs on one node: {what}"), value, unit, target, None);
    }
    Ok(())
}

/// A field of proc(5)'s `status` of the node's agent, in units of 1,000,000 bytes.
fn agent_mb(lab: &Lab, field: &str) -> anyhow::Result<f64> {
    let pid = lab.process(Role::Agent, &NODE)?.running.pid;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kib = status.lines().find_map(|line| line.strip_prefix(field)?.trim().strip_suffix(" kB"));
    Ok(kib.with_context(|| format!("no {field}"))?.parse::<f64>()? * 1024.0 / 1e6)
}

/// The time from the first VipAddress to the last one that its node reports in place.
async fn all_programmed(connection: &mut Connection, count: usize) -> anyhow::Result<Duration> {
    let mut first = None;
    objects::until("every VIP to be programmed", async || {
        let items = objects::addresses(connection).await?;
        if !items.is_empty() {
            first.get_or_insert_with(Instant::now);
        }
        Ok(items.iter().filter(|item| objects::is_true(item, "Programmed")).count() == count)
    })
    .await?;
    Ok(first.map(|first| first.elapsed()).unwrap_or_default())
}

/// Asks an address from outside again and again until it answers.
pub(super) fn until_answered(
    lab: &Lab,
    address: &str,
    binary: &Path,
) -> anyhow::Result<impl Future<Output = anyhow::Result<()>> + use<>> {
    let mut command = exec(lab, &Member::Outside, "sh")?;
    command.args(["-c", r#"until "$0" dev request --timeout 100 "$1" >/dev/null 2>&1; do :; done"#]);
    command.arg(binary).arg(format!("http://{address}:{PORT}/"));
    let mut running = command.spawn()?;
    Ok(async move {
        let status = tokio::time::timeout(HANG, running.wait()).await.context("no VIP answered")??;
        anyhow::ensure!(status.success(), "the request loop ended with {status}");
        Ok(())
    })
}

/// Flushes the node's whole ruleset and waits until the VIP's marks are back.
async fn repair(lab: &Lab) -> anyhow::Result<Duration> {
    let script = "nft flush ruleset; begin=$(date +%s%N); \
        until nft list table inet netwrangler 2>/dev/null | grep -q 'goto mark-'; do :; done; \
        echo $(( $(date +%s%N) - begin ))";
    let running = exec(lab, &NODE, "sh")?.args(["-c", script]).output();
    let output = tokio::time::timeout(HANG, running).await.context("the ruleset did not come back")??;
    let nanoseconds: u64 = String::from_utf8(output.stdout)?.trim().parse()?;
    Ok(Duration::from_nanos(nanoseconds))
}

/// Begins to capture; the future sees `count` different addresses announced and gives the time from the first to the
/// last.
async fn announcements(
    lab: &Lab,
    count: usize,
) -> anyhow::Result<impl Future<Output = anyhow::Result<Duration>> + use<>> {
    let mut command = exec(lab, &Member::Outside, "tcpdump")?;
    command.args(["-i", "eth1", "-n", "-l", "-tt", "arp"]);
    let mut running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("run tcpdump")?;
    let mut lines = BufReader::new(running.stdout.take().context("tcpdump has no output")?).lines();
    let mut messages = BufReader::new(running.stderr.take().context("tcpdump has no messages")?).lines();
    while let Some(line) = messages.next_line().await?
        && !line.starts_with("listening on")
    {}
    Ok(async move {
        let mut seen = BTreeMap::new();
        let all = async {
            while seen.len() < count
                && let Some(line) = lines.next_line().await?
            {
                if let Some((time, address)) = announcement(&line) {
                    seen.entry(address.to_owned()).or_insert(time);
                }
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(HANG, all).await.context("not every VIP was announced")??;
        running.kill().await?;
        let first = seen.values().copied().fold(f64::INFINITY, f64::min);
        let last = seen.values().copied().fold(0.0, f64::max);
        Ok(Duration::from_secs_f64((last - first).max(0.0)))
    })
}

/// The time and address of a gratuitous ARP request as tcpdump prints it.
fn announcement(line: &str) -> Option<(f64, &str)> {
    let (time, rest) = line.split_once(' ')?;
    let (_, rest) = rest.split_once("who-has ")?;
    let (target, rest) = rest.split_once(' ')?;
    let (_, rest) = rest.split_once("tell ")?;
    let sender = rest.split([',', ' ']).next()?;
    (sender == target).then_some((time.parse().ok()?, target))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_request_for_the_senders_own_address_is_an_announcement() {
        let line = "1764482400.123456 ARP, Request who-has 203.0.113.10 (ff:ff:ff:ff:ff:ff) tell 203.0.113.10, length 28";
        assert_eq!(announcement(line), Some((1_764_482_400.123_456, "203.0.113.10")));
        let line = "1764482400.123456 ARP, Request who-has 203.0.113.10 tell 203.0.113.254, length 28";
        assert_eq!(announcement(line), None);
        let line = "1764482400.123456 ARP, Reply 203.0.113.10 is-at 02:00:00:00:00:01, length 28";
        assert_eq!(announcement(line), None);
    }
}
