//! A dev cluster: how soon a VIP answers, how long a full node takes, how soon a flushed ruleset is back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::client::{Connection, Target as Peer};
use crate::latency::Latencies;
use crate::report::{Report, Target};
use crate::scenario::api::JSON;

/// The dev cluster's name: no other run's.
const NAME: &str = "bench";
/// VIPs of the full node: all that a mask of seven bits can tell apart.
const FULL: usize = 127;
/// The port the responder answers on.
const PORT: u16 = 8080;
/// Runs of each figure; the median is reported.
const RUNS: usize = 5;
/// After this a run is called hung.
const HANG: Duration = Duration::from_secs(60);

/// Starts a cluster of one node, measures, and removes it.
///
/// # Errors
/// When the cluster does not start or a VIP does not answer.
pub(crate) async fn vip(report: &mut Report, binary: &Path) -> anyhow::Result<()> {
    eprintln!("VIPs");
    let directory = tempfile::tempdir()?;
    let lab = Lab { binary: binary.to_owned(), kubeconfig: directory.path().join("kubeconfig") };
    let begin = Instant::now();
    lab.dev(&["up", "--nodes", "1", "--kubeconfig", &lab.kubeconfig.display().to_string()]).await?;
    let result = measure(report, &lab, begin.elapsed()).await;
    // The cluster goes whatever was measured; the first error is the one that tells.
    result.and(lab.dev(&["down"]).await)
}

async fn measure(report: &mut Report, lab: &Lab, up: Duration) -> anyhow::Result<()> {
    report.add("dev cluster of one node up", up.as_secs_f64(), "s", Target::None, None);
    let mut connection = Peer::from_kubeconfig(&lab.kubeconfig)?.connect().await?;
    configure(&mut connection).await?;
    let mut responder = lab.responder()?;
    let mut answers = Latencies::default();
    let mut repairs = Latencies::default();
    for run in 0..RUNS {
        let address = format!("203.0.113.{}", 200 + run);
        let waiting = lab.until_answered(&address);
        let begin = Instant::now();
        publish(&mut connection, &format!("first-{run}"), std::slice::from_ref(&address)).await?;
        waiting.await?;
        answers.record(begin.elapsed());
        repairs.record(lab.repair().await?);
        withdraw(&mut connection, &format!("first-{run}")).await?;
        gone(&mut connection).await?;
    }
    report.add(
        "VIP created to answered from outside",
        answers.percentile(50),
        "ms",
        Target::AtMost(1_000.0),
        None,
    );
    report.add(
        "ruleset flushed to ruleset back",
        repairs.percentile(50),
        "ms",
        Target::AtMost(1_000.0),
        None,
    );

    let mut programmed = Latencies::default();
    let mut announced = Latencies::default();
    for run in 0..RUNS {
        let addresses: Vec<String> = (1..=FULL).map(|host| format!("203.0.113.{host}")).collect();
        let capture = lab.announcements(FULL).await?;
        publish(&mut connection, &format!("full-{run}"), &addresses).await?;
        programmed.record(all_programmed(&mut connection, FULL).await?);
        announced.record(capture.await?);
        withdraw(&mut connection, &format!("full-{run}")).await?;
        gone(&mut connection).await?;
    }
    report.add(
        format!("{FULL} VIPs on one node, first created to last programmed"),
        programmed.percentile(50) / 1e3,
        "s",
        Target::AtMost(2.0),
        None,
    );
    report.add(
        format!("{FULL} VIPs announced, first to last"),
        announced.percentile(50) / 1e3,
        "s",
        Target::AtMost(1.0),
        None,
    );
    responder.kill().await?;
    Ok(())
}

async fn configure(connection: &mut Connection) -> anyhow::Result<()> {
    let config = json!({"apiVersion": "netwrangler.dev/v1", "kind": "VipConfig", "metadata": {"name": "default"},
        "spec": {"firewallMark": 1, "firewallMarkMask": 127, "routeTable": 20001, "routingPriority": 20001,
            "maxAddressCount": FULL, "clusterCIDRs": ["10.42.0.0/16", "10.43.0.0/16"]}});
    let network = json!({"apiVersion": "netwrangler.dev/v1", "kind": "VipNetwork", "metadata": {"name": "public"},
        "spec": {"interface": "eth1", "gatewayIP": "203.0.113.254", "networkCIDR": "203.0.113.0/24",
            "sourceCIDRs": ["0.0.0.0/0"]}});
    for (plural, object) in [("vipconfigs", config), ("vipnetworks", network)] {
        let path = format!("/apis/netwrangler.dev/v1/{plural}");
        connection.call(Method::POST, &path, JSON, Bytes::from(object.to_string())).await?;
    }
    Ok(())
}

async fn publish(connection: &mut Connection, name: &str, addresses: &[String]) -> anyhow::Result<()> {
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4", "ports": [{"port": PORT}],
        "endpoints": [{"addresses": ["192.0.2.1"], "nodeName": "node-1", "conditions": {"ready": true}}]});
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "labels": {"netwrangler.dev/ingress": "enabled"}},
        "spec": {"externalIPs": addresses, "ports": [{"port": PORT}]}});
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    connection.call(Method::POST, slices, JSON, Bytes::from(slice.to_string())).await?;
    let services = "/api/v1/namespaces/default/services";
    connection.call(Method::POST, services, JSON, Bytes::from(service.to_string())).await?;
    Ok(())
}

async fn withdraw(connection: &mut Connection, name: &str) -> anyhow::Result<()> {
    let path = format!("/api/v1/namespaces/default/services/{name}");
    connection.call(Method::DELETE, &path, "", Bytes::new()).await?;
    let path = format!("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/{name}");
    // The slice may have gone with its Service.
    connection.answer(Method::DELETE, &path, "", Bytes::new()).await?;
    Ok(())
}

async fn addresses(connection: &mut Connection) -> anyhow::Result<Vec<Value>> {
    let list: Value =
        serde_json::from_slice(&connection.get("/apis/netwrangler.dev/v1/vipaddresses").await?)?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

async fn gone(connection: &mut Connection) -> anyhow::Result<()> {
    let begin = Instant::now();
    while !addresses(connection).await?.is_empty() {
        anyhow::ensure!(begin.elapsed() < HANG, "VipAddresses are still there after {HANG:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// The time from the first VipAddress to the last one that its node reports in place.
async fn all_programmed(connection: &mut Connection, count: usize) -> anyhow::Result<Duration> {
    let hang = Instant::now();
    let mut first = None;
    loop {
        let items = addresses(connection).await?;
        if !items.is_empty() {
            first.get_or_insert_with(Instant::now);
        }
        let programmed = items.iter().filter(|item| is_true(item, "Programmed")).count();
        if programmed == count {
            return Ok(first.map(|first| first.elapsed()).unwrap_or_default());
        }
        anyhow::ensure!(hang.elapsed() < HANG, "{programmed} of {count} VIPs programmed after {HANG:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn is_true(object: &Value, condition: &str) -> bool {
    object["status"]["conditions"].as_array().is_some_and(|conditions| {
        conditions.iter().any(|entry| entry["type"] == condition && entry["status"] == "True")
    })
}

/// The dev cluster of this run.
struct Lab {
    binary: PathBuf,
    kubeconfig: PathBuf,
}

impl Lab {
    async fn dev(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let (verb, rest) = arguments.split_first().context("no verb")?;
        let output = Command::new(&self.binary)
            .args(["dev", verb, "--name", NAME])
            .args(rest)
            .output()
            .await
            .context("run litek8s dev")?;
        if !output.status.success() {
            bail!("litek8s dev {verb}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }

    fn exec(&self, node: &str) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(["dev", "exec", "--name", NAME, node, "--"]).kill_on_drop(true);
        command
    }

    fn responder(&self) -> anyhow::Result<tokio::process::Child> {
        let mut command = self.exec("node-1");
        command.arg(&self.binary).args(["dev", "respond", "--name", "node-1", "--port", &PORT.to_string()]);
        Ok(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)
    }

    /// Asks an address from outside again and again until it answers.
    fn until_answered(&self, address: &str) -> impl Future<Output = anyhow::Result<()>> + use<> {
        let mut command = self.exec("outside");
        command.args([
            "sh",
            "-c",
            r#"until "$0" dev request --timeout 100 "$1" >/dev/null 2>&1; do :; done"#,
        ]);
        command.arg(&self.binary).arg(format!("http://{address}:{PORT}/"));
        let running = command.spawn();
        async move {
            let mut running = running?;
            let status = tokio::time::timeout(HANG, running.wait()).await.context("no VIP answered")??;
            anyhow::ensure!(status.success(), "the request loop ended with {status}");
            Ok(())
        }
    }

    /// Flushes the node's whole ruleset and waits until the VIP's marks are back.
    async fn repair(&self) -> anyhow::Result<Duration> {
        let script = "nft flush ruleset; begin=$(date +%s%N); \
            until nft list table inet netwrangler 2>/dev/null | grep -q 'goto mark-'; do :; done; \
            echo $(( $(date +%s%N) - begin ))";
        let running = self.exec("node-1").args(["sh", "-c", script]).output();
        let output = tokio::time::timeout(HANG, running).await.context("the ruleset did not come back")??;
        let nanoseconds: u64 = String::from_utf8(output.stdout)?.trim().parse()?;
        Ok(Duration::from_nanos(nanoseconds))
    }

    /// Begins to capture; the future sees `count` different addresses announced and gives the time from the first
    /// to the last.
    async fn announcements(
        &self,
        count: usize,
    ) -> anyhow::Result<impl Future<Output = anyhow::Result<Duration>> + use<>> {
        let mut command = self.exec("outside");
        command.args(["tcpdump", "-i", "eth1", "-n", "-l", "-tt", "arp"]);
        let mut running =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("run tcpdump")?;
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
