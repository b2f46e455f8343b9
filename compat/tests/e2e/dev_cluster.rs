//! `litek8s dev` as a person uses it: the command lines, two clusters beside each other, and what is left afterwards.

use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use litek8s_compat::{Cluster, HostNetwork, Kubectl, litek8s};
use litek8s_lab::Member;

/// A cluster started by command line; `down` runs when it is dropped.
pub(crate) struct Started {
    pub(crate) name: &'static str,
}

impl Started {
    pub(crate) fn dev(&self, arguments: &[&str]) -> Result<Output> {
        dev(self.name, arguments)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.dev(&["down"]);
    }
}

/// `litek8s dev VERB --name NAME …`.
pub(crate) fn dev(name: &str, arguments: &[&str]) -> Result<Output> {
    let (verb, rest) = arguments.split_first().context("no verb")?;
    Ok(Command::new(litek8s()?).args(["dev", verb, "--name", name]).args(rest).output()?)
}

/// What of a cluster is on this machine: namespaces, processes, files.
pub(crate) fn left_of(name: &str) -> Result<Vec<String>> {
    let mut left = Vec::new();
    let prefix = format!("litek8s-{name}-");
    for entry in std::fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        let namespace = entry.file_name().to_string_lossy().into_owned();
        if namespace.starts_with(&prefix) {
            left.push(format!("namespace {namespace}"));
        }
    }
    let directory = format!("/run/litek8s/dev/{name}");
    if Path::new(&directory).exists() {
        left.push(directory.clone());
    }
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(&format!("{directory}/")) {
            left.push(format!("process {} {line}", entry.file_name().to_string_lossy()));
        }
    }
    Ok(left)
}

fn success(output: Output) -> Result<String> {
    ensure!(output.status.success(), "{output:?}");
    Ok(String::from_utf8(output.stdout)?)
}

#[tokio::test]
async fn a_cluster_by_command_line_from_up_to_down() -> Result<()> {
    let host = HostNetwork::read()?;
    let directory = tempfile::tempdir()?;
    let kubeconfig = directory.path().join("config");
    let file = kubeconfig.to_str().context("a path in UTF-8")?;
    let started = Started { name: "devline" };
    let printed = success(started.dev(&["up", "--nodes", "2", "--kubeconfig", file])?)?;
    ensure!(printed.contains(&format!("export KUBECONFIG={file}")), "{printed}");
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&kubeconfig)?) & 0o777;
    ensure!(mode == 0o600, "{mode:o}");

    // On the host the cluster is one listening socket and nothing else.
    ensure!(HostNetwork::read()? == host);
    let nodes = Kubectl::new(&kubeconfig)?.ok(&["get", "nodes", "-o", "name"])?;
    ensure!(nodes == "node/node-1\nnode/node-2\n", "{nodes}");

    let status = success(started.dev(&["status"])?)?;
    ensure!(status.contains("API ready") && status.contains("eth0 192.0.2.2/24"), "{status}");
    let json: serde_json::Value = serde_json::from_str(&success(started.dev(&["status", "-o", "json"])?)?)?;
    ensure!(json["apiReady"] == true && json["members"].as_array().map(Vec::len) == Some(5), "{json}");

    let hostname =
        success(started.dev(&["exec", "node-2", "--", "ip", "-br", "-4", "addr", "show", "eth0"])?)?;
    ensure!(hostname.contains("192.0.2.2/24"), "{hostname}");
    ensure!(
        success(started.dev(&["exec", "outside", "--", "ping", "-c1", "-W2", "192.0.2.1"])?)?
            .contains("1 received")
    );
    let failing = started.dev(&["exec", "node-1", "--", "sh", "-c", "exit 7"])?;
    ensure!(failing.status.code() == Some(7), "{failing:?}");
    let nobody = started.dev(&["exec", "node-9", "--", "true"])?;
    ensure!(
        !nobody.status.success() && String::from_utf8_lossy(&nobody.stderr).contains("node-9"),
        "{nobody:?}"
    );

    // A second `up` keeps what runs, and refuses to become another shape.
    let before = json["members"].clone();
    success(started.dev(&["up", "--nodes", "2"])?)?;
    let json: serde_json::Value = serde_json::from_str(&success(started.dev(&["status", "-o", "json"])?)?)?;
    ensure!(json["members"] == before, "{json}");
    let other = started.dev(&["up", "--nodes", "3"])?;
    ensure!(!other.status.success(), "{other:?}");

    success(started.dev(&["down"])?)?;
    ensure!(left_of("devline")?.is_empty(), "{:?}", left_of("devline")?);
    ensure!(!kubeconfig.exists());
    ensure!(HostNetwork::read()? == host);
    // Nothing to take away is no failure.
    success(started.dev(&["down"])?)?;
    let gone = started.dev(&["status"])?;
    ensure!(
        !gone.status.success() && String::from_utf8_lossy(&gone.stderr).contains("no dev cluster"),
        "{gone:?}"
    );
    Ok(())
}

#[tokio::test]
async fn two_clusters_run_side_by_side() -> Result<()> {
    let one = Cluster::up("twina", 1).await?;
    let two = Cluster::up("twinb", 1).await?;
    for (cluster, value) in [(&one, "1"), (&two, "2")] {
        cluster.kubectl.ok(&["create", "configmap", "mine", &format!("--from-literal=key={value}")])?;
    }
    for (cluster, value) in [(&one, "1"), (&two, "2")] {
        let json = cluster.kubectl.json(&["get", "cm", "mine"])?;
        ensure!(json["data"]["key"] == value, "{json}");
        let _responder = cluster.responder(&Member::Node(1), 80)?;
        ensure!(cluster.ask(&Member::Outside, "http://192.0.2.1/", None)? == "node-1");
    }
    drop(one);
    ensure!(left_of("twina")?.is_empty(), "{:?}", left_of("twina")?);
    ensure!(two.kubectl.ok(&["get", "nodes", "-o", "name"])? == "node/node-1\n");
    ensure!(two.lab.process(litek8s_lab::Role::Agent, &Member::Node(1))?.alive());
    Ok(())
}

#[test]
fn whoever_is_not_root_reads_one_line() -> Result<()> {
    // As nobody, who cannot reach the build directory: from a copy that everybody may run.
    let directory = tempfile::tempdir()?;
    let copy = directory.path().join("litek8s");
    std::fs::copy(litek8s()?, &copy)?;
    for path in [directory.path(), &copy] {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    }
    for verb in ["up", "down", "status"] {
        let mut command = Command::new(&copy);
        std::os::unix::process::CommandExt::uid(&mut command, 65534);
        let output = command.args(["dev", verb, "--name", "nobody"]).output()?;
        let complaint = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        ensure!(!output.status.success(), "{verb}: {output:?}");
        ensure!(complaint.contains("root") && complaint.lines().count() == 1, "{verb}: {complaint}");
    }
    Ok(())
}

#[test]
fn a_missing_kernel_feature_is_named_in_one_line_and_nothing_is_made() -> Result<()> {
    // Root without a capability is refused as a kernel without the feature is.
    for (capability, named) in [("sys_admin", "network namespaces"), ("net_admin", "bridges")] {
        let mut command = Command::new("setpriv");
        command.arg(format!("--bounding-set=-{capability}")).arg(litek8s()?);
        let output = command.args(["dev", "up", "--name", "lacking"]).output()?;
        let complaint = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        ensure!(!output.status.success(), "{capability}: {output:?}");
        ensure!(complaint.contains(named) && complaint.lines().count() == 1, "{capability}: {complaint}");
        ensure!(left_of("lacking")?.is_empty(), "{:?}", left_of("lacking")?);
    }
    Ok(())
}
