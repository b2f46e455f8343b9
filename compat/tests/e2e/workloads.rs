//! kubectl's commands about workloads: create, scale, set image, rollout, wait and delete in every way. Nobody runs the
//! pods; the test says of each that it is ready or has ended.

use anyhow::{Result, ensure};
use litek8s_compat::{Cluster, Kubectl, eventually};
use serde_json::{Value, json};

/// Says of all pods what a node would.
fn report(kubectl: &Kubectl, status: &Value) -> Result<()> {
    let pods = kubectl.json(&["get", "pods"])?;
    for pod in pods["items"].as_array().into_iter().flatten() {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let patch = json!({"status": status}).to_string();
        // One that is gone meanwhile needs no report.
        kubectl.run(&["patch", "pod", name, "--subresource=status", "--type=merge", "-p", &patch], "")?;
    }
    Ok(())
}

fn ready() -> Value {
    let since = "2024-01-01T00:00:00Z";
    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}]})
}

/// Waits until everything is rolled out, while pods become ready.
fn rolled_out(kubectl: &Kubectl, what: &str) -> Result<()> {
    eventually(&format!("the rollout of {what}"), || {
        report(kubectl, &ready())?;
        let told = kubectl.ok(&["rollout", "status", what, "--watch=false"])?;
        let done = ["successfully rolled out", "rolling update complete", "roll out complete"];
        ensure!(done.iter().any(|words| told.contains(words)), "{told}");
        Ok(())
    })
}

fn count(kubectl: &Kubectl, kind: &str) -> Result<usize> {
    Ok(kubectl.json(&["get", kind])?["items"].as_array().map_or(0, Vec::len))
}

fn gone(kubectl: &Kubectl, kind: &str) -> Result<()> {
    eventually(&format!("the end of all {kind}"), || {
        let left = count(kubectl, kind)?;
        ensure!(left == 0, "{left} left");
        Ok(())
    })
}

fn image(kubectl: &Kubectl, what: &str) -> Result<String> {
    let path = "jsonpath={.spec.template.spec.containers[0].image}";
    kubectl.ok(&["get", what, "-o", path])
}

#[tokio::test]
async fn a_deployment_is_rolled_out_undone_scaled_and_deleted_in_every_way() -> Result<()> {
    let cluster = Cluster::up("kroll", 0).await?;
    let kubectl = &cluster.kubectl;
    let create = ["create", "deployment", "web", "--image=first", "--replicas=2"];
    kubectl.ok(&create)?;
    rolled_out(kubectl, "deployment/web")?;
    kubectl.ok(&["set", "image", "deployment/web", "first=second"])?;
    rolled_out(kubectl, "deployment/web")?;
    let history = kubectl.ok(&["rollout", "history", "deployment/web"])?;
    ensure!(history.contains("\n1 ") && history.contains("\n2 "), "{history}");
    kubectl.ok(&["rollout", "undo", "deployment/web"])?;
    rolled_out(kubectl, "deployment/web")?;
    ensure!(image(kubectl, "deployment/web")? == "first");
    kubectl.ok(&["rollout", "restart", "deployment/web"])?;
    rolled_out(kubectl, "deployment/web")?;
    kubectl.ok(&["scale", "deployment/web", "--replicas=1"])?;
    eventually("one pod", || {
        ensure!(count(kubectl, "pods")? == 1);
        Ok(())
    })?;
    kubectl.ok(&["delete", "deployment", "web", "--cascade=orphan"])?;
    ensure!(count(kubectl, "replicasets")? == 3 && count(kubectl, "pods")? == 1);
    kubectl.ok(&["delete", "replicasets", "--all", "--cascade=foreground"])?;
    gone(kubectl, "pods")?;
    kubectl.ok(&create)?;
    rolled_out(kubectl, "deployment/web")?;
    kubectl.ok(&["delete", "deployment", "web"])?;
    gone(kubectl, "replicasets")?;
    gone(kubectl, "pods")
}

fn workload(kind: &str, more: &Value) -> String {
    let mut spec = json!({
        "selector": {"matchLabels": {"app": "it"}},
        "template": {"metadata": {"labels": {"app": "it"}}, "spec": {"containers": [{"name": "c", "image": "first"}]}},
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "it"}, "spec": spec}).to_string()
}

#[tokio::test]
async fn sets_are_updated_undone_and_deleted() -> Result<()> {
    let cluster = Cluster::up("ksets", 0).await?;
    let kubectl = &cluster.kubectl;
    for node in ["n1", "n2"] {
        kubectl
            .apply(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}).to_string())?;
    }
    let stateful = json!({"replicas": 2, "serviceName": "it"});
    for (kind, more) in [("StatefulSet", stateful), ("DaemonSet", json!({}))] {
        let what = format!("{}/it", kind.to_lowercase());
        kubectl.apply(&workload(kind, &more))?;
        rolled_out(kubectl, &what)?;
        ensure!(count(kubectl, "pods")? == 2, "{kind}");
        kubectl.ok(&["set", "image", &what, "c=second"])?;
        rolled_out(kubectl, &what)?;
        ensure!(count(kubectl, "controllerrevisions")? == 2, "{kind}");
        kubectl.ok(&["rollout", "undo", &what])?;
        rolled_out(kubectl, &what)?;
        ensure!(image(kubectl, &what)? == "first", "{kind}");
        let history = kubectl.ok(&["rollout", "history", &what])?;
        ensure!(history.contains("\n2 ") && history.contains("\n3 "), "{history}");
        let images = kubectl.ok(&["get", "pods", "-o", "jsonpath={.items[*].spec.containers[0].image}"])?;
        ensure!(images == "first first", "{kind}: {images}");
        kubectl.ok(&["delete", &what, "--cascade=orphan"])?;
        ensure!(count(kubectl, "pods")? == 2, "{kind}");
        kubectl.apply(&workload(kind, &more))?;
        rolled_out(kubectl, &what)?;
        ensure!(count(kubectl, "pods")? == 2, "{kind}: the old pods are adopted");
        kubectl.ok(&["delete", &what, "--cascade=foreground"])?;
        gone(kubectl, "pods")?;
        gone(kubectl, "controllerrevisions")?;
    }
    Ok(())
}

#[tokio::test]
async fn jobs_complete_fail_and_come_by_the_clock() -> Result<()> {
    let cluster = Cluster::up("kjobs", 0).await?;
    let kubectl = &cluster.kubectl;
    kubectl.ok(&["create", "job", "sum", "--image=i"])?;
    eventually("the end of the job", || {
        report(kubectl, &json!({"phase": "Succeeded"}))?;
        kubectl.ok(&["wait", "--for=condition=complete", "job/sum", "--timeout=1s"])
    })?;
    let printed = kubectl.ok(&["get", "job", "sum"])?;
    ensure!(printed.contains("Complete") && printed.contains("1/1"), "{printed}");
    kubectl.ok(&["delete", "job", "sum"])?;
    gone(kubectl, "pods")?;

    kubectl.ok(&["create", "cronjob", "tick", "--image=i", "--schedule=0 0 1 1 *"])?;
    kubectl.ok(&["create", "job", "now", "--from=cronjob/tick"])?;
    eventually("a pod of the job", || {
        ensure!(count(kubectl, "pods")? == 1);
        Ok(())
    })?;
    kubectl.ok(&["patch", "job", "now", "--type=merge", "-p", r#"{"spec":{"activeDeadlineSeconds":1}}"#])?;
    kubectl.ok(&["wait", "--for=condition=failed", "job/now", "--timeout=30s"])?;
    kubectl.ok(&["delete", "cronjob", "tick"])?;
    gone(kubectl, "jobs")?;
    gone(kubectl, "pods")
}
