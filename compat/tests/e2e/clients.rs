//! Clients other than this release's kubectl: the Python and the JavaScript client, a kubectl of five minor versions ago,
//! Helm 4 and Helm 3.

use std::fs::File;

use anyhow::{Context, Result, ensure};
use litek8s_compat::{Cluster, Kubectl, tool};

const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/samples");
const JAVASCRIPT_CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/node/client.mjs");
const PYTHON_CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/python_client.py");

#[tokio::test]
async fn the_python_client_finds_what_it_expects() -> Result<()> {
    let cluster = Cluster::up("cpython", 0).await?;
    let packages = tool("python")?;
    let output = cluster
        .kubectl
        .with_client("python3")?
        .command(&[PYTHON_CLIENT])
        .env("PYTHONPATH", packages)
        .output()
        .context("start python3")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

#[tokio::test]
async fn the_javascript_client_finds_what_it_expects() -> Result<()> {
    let cluster = Cluster::up("cnode", 0).await?;
    // A module that comes by standard input finds its packages from the working directory.
    let output = cluster
        .kubectl
        .with_client("node")?
        .command(&["--input-type=module", "-"])
        .current_dir(tool("node")?)
        .stdin(File::open(JAVASCRIPT_CLIENT)?)
        .output()
        .context("start node")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

#[tokio::test]
async fn a_kubectl_of_1_32_works() -> Result<()> {
    let cluster = Cluster::up("ckubectl", 0).await?;
    let old = cluster.kubectl.with_client("bin/kubectl-1.32")?;
    let version = old.ok(&["version", "-o", "json"])?;
    ensure!(version.contains("v1.32"), "not the old client: {version}");
    old.ok(&["apply", "-f", SAMPLES])?;
    let again = old.ok(&["apply", "-f", SAMPLES])?;
    ensure!(again.lines().all(|line| line.ends_with("unchanged")), "{again}");
    // What the old client wrote, the new one sees no difference in, and may take over.
    ensure!(cluster.kubectl.ok(&["diff", "-f", SAMPLES])?.is_empty());
    let taken = cluster.kubectl.ok(&["apply", "--server-side", "-f", SAMPLES])?;
    ensure!(taken.lines().count() == 4, "{taken}");
    let explained = old.ok(&["explain", "vipconfig.spec.rebalance"])?;
    ensure!(explained.contains("stabilizationSeconds"), "{explained}");
    old.ok(&["create", "deployment", "d", "--image=i"])?;
    old.ok(&["scale", "deployment", "d", "--replicas=2"])?;
    old.ok(&["set", "image", "deployment/d", "i=other"])?;
    let image = old.ok(&["get", "deploy", "d", "-o", "jsonpath={..image} {.spec.replicas}"])?;
    ensure!(image == "other 2", "{image}");
    old.ok(&["delete", "deployment", "d"])?;
    Ok(())
}

#[tokio::test]
async fn a_chart_lives_its_life_with_helm_4() -> Result<()> {
    let cluster = Cluster::up("chelm", 0).await?;
    chart_life(&cluster.kubectl, &cluster.kubectl.with_client("bin/helm")?)
}

#[tokio::test]
async fn a_chart_lives_its_life_with_helm_3() -> Result<()> {
    let cluster = Cluster::up("chelmthree", 0).await?;
    chart_life(&cluster.kubectl, &cluster.kubectl.with_client("bin/helm-3")?)
}

/// The chart that `helm create` makes: installed, tried, upgraded, rolled back, uninstalled.
fn chart_life(kubectl: &Kubectl, helm: &Kubectl) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let chart = directory.path().join("web");
    let chart = chart.to_str().context("a temporary path that is no text")?;
    let replicas = || kubectl.ok(&["get", "deploy", "web", "-o", "jsonpath={.spec.replicas}"]);

    helm.ok(&["create", chart])?;
    let tried = helm.ok(&["install", "web", chart, "--dry-run=server"])?;
    ensure!(tried.contains("kind: Deployment"), "{tried}");
    ensure!(kubectl.ok(&["get", "deploy", "-o", "name"])?.is_empty(), "a dry run left something");
    helm.ok(&["install", "web", chart])?;
    ensure!(replicas()? == "1");
    helm.ok(&["upgrade", "web", chart, "--set", "replicaCount=2"])?;
    ensure!(replicas()? == "2");
    helm.ok(&["rollback", "web", "1"])?;
    ensure!(replicas()? == "1");
    let history = helm.ok(&["history", "web"])?;
    ensure!(history.contains("Rollback to 1"), "{history}");
    helm.ok(&["uninstall", "web", "--wait"])?;
    let left = kubectl.ok(&["get", "deploy,service,serviceaccount,secret", "-o", "name"])?;
    ensure!(!left.contains("/web"), "left behind: {left}");
    Ok(())
}
