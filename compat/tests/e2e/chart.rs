//! The Helm chart on a cluster that is not ours: installed, upgraded, rolled back and uninstalled by the real Helm, with
//! controllers and agents run from what the API then holds, with no more rights than that says.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use litek8s_compat::{Cluster, KernelWatch, Kubectl, Pod, Traffic, eventually, nothing_left};
use litek8s_lab::Member;
use serde_json::{Value, json};

use super::gateways::{Place, gateway};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/litek8s");
const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/samples");
const METRICS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md");
pub(super) const NAMESPACE: &str = "vips";
const ADDRESSES: [&str; 4] = ["203.0.113.10", "203.0.113.11", "203.0.113.12", "203.0.113.13"];
const DEFINITIONS: usize = 6;

/// A cluster with the chart installed, and Helm for it.
pub(super) async fn installed(name: &str, machines: u8, chart: &str) -> Result<(Cluster, Kubectl)> {
    let cluster = Cluster::without_suite(name, machines).await?;
    let helm = cluster.kubectl.with_client("bin/helm")?;
    for number in 1..=machines {
        register(&cluster, number)?;
    }
    let image = "image.repository=example.org/litek8s";
    let options = ["install", "suite", chart, "-n", NAMESPACE, "--create-namespace", "--set", image];
    let notes = helm.ok(&options)?;
    ensure!(notes.contains("pod-security.kubernetes.io/enforce=privileged"), "{notes}");
    Ok((cluster, helm))
}

/// What a kubelet does on its start.
fn register(cluster: &Cluster, number: u8) -> Result<()> {
    let (name, address) = (format!("node-{number}"), format!("192.0.2.{number}"));
    let labels = json!({"kubernetes.io/os": "linux", "kubernetes.io/hostname": name});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
    cluster.kubectl.apply(&node.to_string())?;
    let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": address}],
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "as a kubelet says"}]}});
    let patch = ["patch", "node", &name, "--subresource=status", "--type=merge", "-p", &status.to_string()];
    cluster.kubectl.ok(&patch).map(drop)
}

/// The suite as the API's objects say, until it is ended.
struct Suite {
    controllers: Vec<(Member, Pod)>,
    agents: Vec<(Member, Pod)>,
}

impl Suite {
    /// Runs the controllers on the first machines and an agent on every one; waits until all are ready.
    fn start(cluster: &Cluster, node_files: &Path) -> Result<Self> {
        let controllers = workload(cluster, "deployment", "suite-litek8s-controllers")?;
        let agents = workload(cluster, "daemonset", "suite-litek8s-agent")?;
        ensure!(agents["spec"]["template"]["spec"]["hostNetwork"] == true);
        let nodes: Vec<Member> = cluster.lab.topology().nodes().collect();
        let replicas = usize::try_from(controllers["spec"]["replicas"].as_u64().context("no replicas")?)?;
        let run = |workload: &Value, machines: &[Member]| -> Result<Vec<(Member, Pod)>> {
            let start = |machine: &Member| {
                let files = node_files.join(machine.to_string());
                Ok((machine.clone(), Pod::start(cluster, workload, machine, &files)?))
            };
            let pods: Vec<(Member, Pod)> = machines.iter().map(start).collect::<Result<_>>()?;
            pods.iter().try_for_each(|(machine, pod)| pod.ready(cluster, workload, machine))?;
            Ok(pods)
        };
        Ok(Self { controllers: run(&controllers, &nodes[..replicas])?, agents: run(&agents, &nodes)? })
    }

    /// Ends everything as kubelets do, and sees that nothing was refused to it.
    fn stop(self, cluster: &Cluster) -> Result<()> {
        for (machine, pod) in self.agents.into_iter().chain(self.controllers) {
            let name = pod.name.clone();
            let log = pod.stop(cluster, NAMESPACE)?;
            for word in ["forbidden", "denied", "not permitted", "panicked"] {
                ensure!(!log.contains(word), "{name} on {machine} met {word:?}:\n{log}");
            }
        }
        Ok(())
    }

    fn logs(&self) -> String {
        let all = self.agents.iter().chain(&self.controllers);
        all.map(|(machine, pod)| format!("--- {} on {machine}\n{}", pod.name, pod.log())).collect()
    }
}

fn workload(cluster: &Cluster, kind: &str, name: &str) -> Result<Value> {
    cluster.kubectl.json(&["-n", NAMESPACE, "get", kind, name])
}

fn everything_answers(cluster: &Cluster, suite: &Suite) -> Result<()> {
    for address in ADDRESSES {
        let holder = eventually("every address to be in place", || cluster.holder(address))
            .with_context(|| suite.logs())?;
        eventually("its node to answer", || {
            match cluster.ask_from_outside(&format!("http://{address}/"))? {
                answer if answer == holder => Ok(()),
                answer => bail!("{address} is on {holder}, and {answer} answers"),
            }
        })
        .with_context(|| suite.logs())?;
    }
    Ok(())
}

/// The chart as an older release had it: its definition of VipAddress lacks a column.
fn older_chart(directory: &Path) -> Result<String> {
    let chart = directory.join("litek8s");
    let copied = std::process::Command::new("cp").args(["-r", CHART]).arg(&chart).status()?;
    ensure!(copied.success());
    let path = chart.join("templates/crds/vipaddresses.netwrangler.dev.yaml");
    let text = fs::read_to_string(&path)?;
    let lines: Vec<&str> = text.lines().collect();
    let column = lines.iter().position(|line| line.trim() == "name: Interface").context("no such column")?;
    let first =
        lines[..column].iter().rposition(|line| line.trim_start().starts_with("- ")).context("no list")?;
    let last =
        lines[column..].iter().position(|line| line.trim_start().starts_with("- ")).context("no end")?;
    let kept: Vec<&str> = lines[..first].iter().chain(&lines[column + last..]).copied().collect();
    fs::write(&path, kept.join("\n") + "\n")?;
    let about = chart.join("Chart.yaml");
    fs::write(&about, fs::read_to_string(&about)?.replacen("version: ", "version: 0.0.1 # ", 1))?;
    Ok(chart.to_str().context("a temporary path that is no text")?.to_owned())
}

fn has_column(cluster: &Cluster) -> Result<bool> {
    let definition = cluster.kubectl.ok(&["get", "crd", "vipaddresses.netwrangler.dev", "-o", "yaml"])?;
    Ok(definition.lines().any(|line| line.trim() == "name: Interface"))
}

#[tokio::test]
async fn the_chart_serves_the_sample_through_upgrade_and_rollback_and_leaves_clean_nodes() -> Result<()> {
    let files = tempfile::tempdir()?;
    let (cluster, helm) = installed("chart", 3, &older_chart(files.path())?).await?;
    let kubectl = &cluster.kubectl;
    let responders: Result<Vec<_>> =
        cluster.lab.topology().nodes().map(|node| cluster.responder(&node, 80)).collect();
    let _responders = responders?;
    let suite = Suite::start(&cluster, files.path())?;
    kubectl.ok(&["apply", "-f", SAMPLES])?;
    everything_answers(&cluster, &suite)?;

    // The Nodes are the kubelets': no agent has written them, or their Leases.
    let node = kubectl.json(&["get", "node", "node-1", "--show-managed-fields"])?;
    ensure!(node["status"]["conditions"][0]["reason"] == "KubeletReady", "{node}");
    ensure!(!node.to_string().contains("litek8s-agent"), "{node}");
    ensure!(kubectl.ok(&["-n", "kube-node-lease", "get", "leases", "-o", "name"])?.is_empty());
    eventually("the metrics", || documented_metrics(&cluster, &suite))?;

    // An upgrade: the definitions come along, and a rolling update of the agents disturbs nobody.
    ensure!(!has_column(&cluster)?);
    let url = format!("http://{}/", ADDRESSES[0]);
    let traffic = Traffic::start(&cluster.lab, &Member::Outside, &url, Some("198.51.100.1"))?;
    traffic.await_answers(20)?;
    let nodes = cluster.lab.topology().nodes();
    let watches: Vec<KernelWatch> =
        nodes.map(|node| KernelWatch::start(&cluster, &node)).collect::<Result<_>>()?;
    helm.ok(&["upgrade", "suite", CHART, "-n", NAMESPACE, "--reuse-values", "--set", "agent.port=9480"])?;
    ensure!(has_column(&cluster)?, "the definitions were not upgraded");
    suite.stop(&cluster)?;
    let suite = Suite::start(&cluster, files.path())?;
    traffic.await_answers(50)?;
    let (answered, failed) = traffic.stop();
    ensure!(failed == 0, "{failed} of {} requests failed during the upgrade", answered + failed);
    for watch in watches {
        let touched = watch.touched(&ADDRESSES)?;
        ensure!(touched.is_empty(), "the upgrade touched:\n{}", touched.join("\n"));
    }

    helm.ok(&["rollback", "suite", "1", "-n", NAMESPACE])?;
    ensure!(!has_column(&cluster)?, "the definitions were not rolled back");
    let agents = workload(&cluster, "daemonset", "suite-litek8s-agent")?;
    ensure!(agents.to_string().contains("$(NODE_IP):9479"), "{agents}");
    suite.stop(&cluster)?;

    // Before the end every agent cleans its node.
    let clean = ["--reuse-values", "--set", "agent.cleanup=true,controllers.replicas=0"];
    helm.ok(&[&["upgrade", "suite", CHART, "-n", NAMESPACE][..], &clean].concat())?;
    let suite = Suite::start(&cluster, files.path())?;
    for node in cluster.lab.topology().nodes() {
        nothing_left(&cluster, &node).context("after the cleanup")?;
    }
    suite.stop(&cluster)?;
    helm.ok(&["uninstall", "suite", "-n", NAMESPACE, "--wait"])?;
    let kinds = "clusterrole,clusterrolebinding,validatingadmissionpolicy,validatingadmissionpolicybinding,\
                 role,rolebinding,deployment,daemonset,serviceaccount,poddisruptionbudget";
    let left = kubectl.ok(&["-n", NAMESPACE, "get", kinds, "-o", "name"])?;
    ensure!(!left.contains("suite-litek8s"), "left behind: {left}");
    let definitions = kubectl.ok(&["get", "crd", "-o", "name"])?;
    ensure!(definitions.lines().count() == DEFINITIONS, "{definitions}");
    ensure!(cluster.vips()?.len() == ADDRESSES.len(), "the objects went with the release");

    // What was kept is taken up again.
    helm.ok(&["install", "suite", CHART, "-n", NAMESPACE, "--set", "image.repository=example.org/litek8s"])?;
    ensure!(has_column(&cluster)?);
    let suite = Suite::start(&cluster, files.path())?;
    everything_answers(&cluster, &suite)?;
    suite.stop(&cluster)
}

#[tokio::test]
async fn gateways_of_the_chart_carry_traffic_or_refuse_it() -> Result<()> {
    let files = tempfile::tempdir()?;
    let (cluster, _helm) = installed("chartgate", 3, CHART).await?;
    let suite = Suite::start(&cluster, files.path())?;
    let mut place = Place::on(cluster).await?;
    place.cluster.kubectl.apply(&gateway("edge", "198.51.100.0/24").to_string())?;
    place.await_nodes("edge", "3/3").with_context(|| suite.logs())?;
    let leaks = place.leaks()?;
    place.await_refused().with_context(|| suite.logs())?;
    let first = place.add_pod(1, "first").await?;
    place.await_seen(&first).with_context(|| suite.logs())?;
    let second = place.add_pod(2, "second").await?;
    place.delete_pod("first")?;
    place.await_seen(&second).with_context(|| suite.logs())?;
    place.delete_pod("second")?;
    place.await_refused().with_context(|| suite.logs())?;
    ensure!(leaks.read(&place.cluster, "leaked")? == 0, "something left by the default route");
    suite.stop(&place.cluster)
}

#[tokio::test]
async fn the_second_of_two_controllers_takes_over() -> Result<()> {
    let files = tempfile::tempdir()?;
    let (cluster, _helm) = installed("chartlead", 2, CHART).await?;
    let mut suite = Suite::start(&cluster, files.path())?;
    let leading = |suite: &Suite| -> Result<Vec<bool>> {
        let workload = workload(&cluster, "deployment", "suite-litek8s-controllers")?;
        let told = suite.controllers.iter().map(|(machine, pod)| {
            Ok(pod.metrics(&cluster, &workload, machine)?.contains("\nlitek8s_controllers_leading 1\n"))
        });
        told.collect()
    };
    let first = eventually("one of them to work", || {
        let leading = leading(&suite)?;
        leading.iter().position(|leads| *leads).context("none works")
    })?;
    ensure!(leading(&suite)?.iter().filter(|leads| **leads).count() == 1, "both work");
    suite.controllers.remove(first).1.kill();
    let deadline = std::time::Duration::from_secs(150);
    let started = std::time::Instant::now();
    // The Lease has to run out first.
    while !leading(&suite)?[0] {
        ensure!(started.elapsed() < deadline, "nobody took over\n{}", suite.logs());
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    cluster.kubectl.ok(&["apply", "-f", SAMPLES])?;
    eventually("the other to place a VIP", || match cluster.vips()?.len() {
        0 => bail!("none is placed"),
        _ => Ok(()),
    })
    .with_context(|| suite.logs())
}

/// What is told and what docs/metrics.md says is the same; gauges of things there are none of here are not told.
fn documented_metrics(cluster: &Cluster, suite: &Suite) -> Result<()> {
    let mut told = String::new();
    for (kind, name, pods) in [
        ("deployment", "suite-litek8s-controllers", &suite.controllers),
        ("daemonset", "suite-litek8s-agent", &suite.agents),
    ] {
        let workload = workload(cluster, kind, name)?;
        for (machine, pod) in pods {
            told.push_str(&pod.metrics(cluster, &workload, machine)?);
        }
    }
    let documented = fs::read_to_string(METRICS)?;
    let mut counters = 0;
    for line in told.lines() {
        let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) else {
            continue;
        };
        if name.starts_with("litek8s_") {
            let name = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
            ensure!(
                documented.contains(&format!("| `{name}` | {kind} |")),
                "docs/metrics.md lacks the {kind} {name}"
            );
            counters += 1;
        }
    }
    ensure!(counters > 0, "nothing is told:\n{told}");
    for name in documented.lines().filter_map(|line| line.strip_prefix("| `litek8s_")) {
        let name = format!("litek8s_{}", name.split('`').next().unwrap_or_default());
        ensure!(told.contains(name.trim_end_matches("_total")), "nobody tells {name}");
    }
    ensure!(told.contains("litek8s_vip_addresses{state=\"ready\"} 4"), "{told}");
    Ok(())
}
