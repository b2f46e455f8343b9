//! `kubectl cordon`, `uncordon` and `drain` against a budget. Nobody runs the pods; the test places them as a scheduler
//! would, and says that they are ready and when they have ended.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use anyhow::{Context, Result, bail, ensure};
use litek8s_compat::{Cluster, Kubectl, eventually};
use serde_json::{Value, json};

use super::manifests::list;

const OLD: &str = "node-1";
const NEW: &str = "node-2";
const DRAIN: [&str; 6] =
    ["drain", OLD, "--force", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s"];

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn pods(kubectl: &Kubectl) -> Result<Vec<Value>> {
    Ok(kubectl.json(&["get", "pods"])?["items"].as_array().cloned().unwrap_or_default())
}

/// Two replicas, a pod of each node, one that nobody controls, and one with local storage.
fn workloads() -> String {
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    let template = |app: &str| json!({"metadata": {"labels": {"app": app}}, "spec": spec});
    let selector = |app: &str| json!({"matchLabels": {"app": app}});
    let alone = |name: &str, more: Value| {
        let mut spec = spec.clone();
        spec["nodeName"] = json!(OLD);
        spec["volumes"] = more;
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    };
    list(&[
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"replicas": 2, "selector": selector("web"), "template": template("web")}}),
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "each"},
            "spec": {"selector": selector("each"), "template": template("each")}}),
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
            "spec": {"minAvailable": 2, "selector": selector("web")}}),
        alone("alone", json!([])),
        alone("scratch", json!([{"name": "scratch", "emptyDir": {}}])),
    ])
}

/// Where a pod is to go: to the node it insists on, or to `node`.
fn place<'a>(pod: &'a Value, node: &'a str) -> &'a str {
    let terms =
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let wanted = pod.pointer(terms).map(|terms| text(&terms[0]["matchFields"][0]["values"][0]));
    wanted.filter(|wanted| !wanted.is_empty()).unwrap_or(node)
}

/// What scheduler and kubelet do for pods: new ones get to `node` and are ready, and those that are told to go have gone.
fn tend(kubectl: &Kubectl, node: &str) -> Result<()> {
    for pod in pods(kubectl)? {
        let name = text(&pod["metadata"]["name"]);
        if pod["metadata"]["deletionTimestamp"].is_string() {
            kubectl.ok(&["delete", "pod", name, "--force", "--grace-period=0", "--ignore-not-found"])?;
            continue;
        }
        if text(&pod["spec"]["nodeName"]).is_empty() {
            let target = json!({"apiVersion": "v1", "kind": "Node", "name": place(&pod, node)});
            let binding =
                json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target});
            let path = format!("/api/v1/namespaces/default/pods/{name}/binding");
            let arguments = ["create", "--raw", &path, "-f", "-"];
            kubectl.run(&arguments, &binding.to_string())?.success(&arguments)?;
        }
        if text(&pod["status"]["phase"]) != "Running" {
            let since = "2024-01-01T00:00:00Z";
            let ready = json!([{"type": "Ready", "status": "True", "lastTransitionTime": since}]);
            let status = json!({"status": {"phase": "Running", "conditions": ready}}).to_string();
            kubectl.ok(&["patch", "pod", name, "--subresource=status", "--type=merge", "-p", &status])?;
        }
    }
    Ok(())
}

/// The cluster with everything on the old node, and a budget that allows nothing.
async fn crowded(name: &str) -> Result<Cluster> {
    let cluster = Cluster::up(name, 2).await?;
    let kubectl = &cluster.kubectl;
    kubectl.apply(&workloads())?;
    eventually("everything to be ready and counted", || {
        tend(kubectl, OLD)?;
        let ready = kubectl.ok(&["get", "pdb", "web", "-o", "jsonpath={.status.currentHealthy}"])?;
        let pods = pods(kubectl)?.len();
        ensure!(ready == "2" && pods == 6, "{ready} are healthy, {pods} pods");
        Ok(())
    })
    .with_context(|| cluster.logs())?;
    Ok(cluster)
}

fn unschedulable(kubectl: &Kubectl) -> Result<String> {
    let path = "jsonpath={.spec.unschedulable} {.spec.taints[*].key}";
    Ok(kubectl.ok(&["get", "node", OLD, "-o", path])?.trim().to_owned())
}

#[tokio::test]
async fn a_drain_says_what_is_in_its_way_and_a_cordon_is_undone() -> Result<()> {
    let cluster = crowded("kcordon").await?;
    let kubectl = &cluster.kubectl;
    let refused = kubectl.run(&["drain", OLD], "")?;
    ensure!(refused.code != 0, "{}", refused.stdout);
    for flag in ["--ignore-daemonsets", "--delete-emptydir-data", "--force"] {
        ensure!(refused.stderr.contains(flag), "{}", refused.stderr);
    }
    ensure!(pods(kubectl)?.iter().all(|pod| pod["metadata"]["deletionTimestamp"].is_null()));
    let cordoned = "true node.kubernetes.io/unschedulable";
    eventually("the taint of a cordoned node", || {
        let seen = unschedulable(kubectl)?;
        ensure!(seen == cordoned, "{seen}");
        Ok(())
    })?;
    ensure!(kubectl.ok(&["get", "node", OLD])?.contains("Ready,SchedulingDisabled"));
    kubectl.ok(&["uncordon", OLD])?;
    eventually("the end of the taint", || {
        let seen = unschedulable(kubectl)?;
        ensure!(seen.is_empty(), "{seen}");
        Ok(())
    })
}

#[tokio::test]
async fn a_drain_waits_for_the_budget_and_leaves_only_what_belongs_to_the_node() -> Result<()> {
    let cluster = crowded("kdrain").await?;
    let kubectl = &cluster.kubectl;
    refused_with_the_cause(kubectl)?;

    let mut drain = kubectl.command(&DRAIN).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let complaint = wait_for_refusal(&mut drain)?;
    ensure!(complaint.contains("will retry after 5s"), "{complaint}");
    let on_old = |app: &str| -> Result<usize> {
        let pods = pods(kubectl)?;
        let here = |pod: &&Value| pod["spec"]["nodeName"] == OLD && pod["metadata"]["labels"]["app"] == app;
        Ok(pods.iter().filter(here).count())
    };
    ensure!(on_old("web")? == 2, "the budget holds");
    let fewer = r#"{"spec":{"minAvailable":1}}"#;
    kubectl.ok(&["patch", "pdb", "web", "--type=merge", "-p", fewer])?;
    let code = loop {
        tend(kubectl, NEW)?;
        let pods = pods(kubectl)?;
        let left = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        let serving = left.filter(|pod| pod["metadata"]["labels"]["app"] == "web");
        ensure!(serving.count() >= 1, "more went than the budget allows");
        if let Some(status) = drain.try_wait()? {
            break status;
        }
    };
    ensure!(code.success(), "{code}\n{}", cluster.logs());
    ensure!(on_old("web")? == 0 && on_old("each")? == 1);
    ensure!(pods(kubectl)?.iter().all(|pod| !matches!(text(&pod["metadata"]["name"]), "alone" | "scratch")));
    Ok(())
}

/// The eviction itself: 429, with what the budget needs among the causes.
fn refused_with_the_cause(kubectl: &Kubectl) -> Result<()> {
    let pods = pods(kubectl)?;
    let web = pods.iter().find(|pod| pod["metadata"]["labels"]["app"] == "web").context("no pod")?;
    let name = text(&web["metadata"]["name"]);
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    let path = format!("/api/v1/namespaces/default/pods/{name}/eviction");
    let refused = kubectl.run(&["create", "--raw", &path, "-f", "-", "-v=8"], &eviction.to_string())?;
    for words in [
        "Cannot evict pod as it would violate the pod's disruption budget.",
        "The disruption budget web needs 2 healthy pods and has 2 currently",
        "429",
    ] {
        ensure!(refused.stderr.contains(words), "{}", refused.stderr);
    }
    Ok(())
}

/// The line in which kubectl says that it is to try again.
fn wait_for_refusal(drain: &mut Child) -> Result<String> {
    let stderr = drain.stderr.take().context("stderr is piped")?;
    let mut lines = BufReader::new(stderr).lines();
    let refused = loop {
        match lines.next() {
            Some(line) => {
                let line = line?;
                if line.contains("violate the pod's disruption budget") {
                    break line;
                }
            }
            None => bail!("the drain ended"),
        }
    };
    // What follows must not fill the pipe.
    std::thread::spawn(move || lines.for_each(drop));
    Ok(refused)
}
