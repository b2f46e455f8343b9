//! What the chart lets controllers and agents do, all of it, and what an agent may not do to another node's objects.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use litek8s_compat::{Cluster, Kubectl};
use serde_json::{Value, json};

use super::chart::{NAMESPACE, installed};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/litek8s");
const AGENT: &str = "suite-litek8s-agent";
const CONTROLLERS: &str = "suite-litek8s-controllers";

/// `verb group/resource[/subresource] [name]` of every rule that somebody has in the chart's namespace.
fn rules(cluster: &Cluster, account: &str) -> Result<BTreeSet<String>> {
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": NAMESPACE}});
    let user = format!("--as=system:serviceaccount:{NAMESPACE}:{account}");
    let create = ["create", "-f", "-", "-o", "json", "--validate=false", &user];
    let answer: Value =
        serde_json::from_str(&cluster.kubectl.run(&create, &review.to_string())?.success(&create)?)?;
    let list = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut found = BTreeSet::new();
    for rule in answer["status"]["resourceRules"].as_array().context("no rules")? {
        let names = match list(&rule["resourceNames"]) {
            names if names.is_empty() => vec![String::new()],
            names => names.into_iter().map(|name| format!(" {name}")).collect(),
        };
        for group in list(&rule["apiGroups"]) {
            for resource in list(&rule["resources"]) {
                for verb in list(&rule["verbs"]) {
                    found.extend(names.iter().map(|name| format!("{verb} {group}/{resource}{name}")));
                }
            }
        }
    }
    // What everybody may: ask who one is and what one may do.
    found
        .retain(|rule| !rule.contains(" authorization.k8s.io/") && !rule.contains(" authentication.k8s.io/"));
    Ok(found)
}

fn expected(lines: &[&str]) -> BTreeSet<String> {
    let expand = |line: &&str| {
        let (verbs, what) = line.split_once(" ").unwrap_or_default();
        verbs.split(',').map(|verb| format!("{verb} {what}")).collect::<Vec<_>>()
    };
    lines.iter().flat_map(expand).collect()
}

#[tokio::test]
async fn agents_and_controllers_may_do_what_they_need_and_nothing_else() -> Result<()> {
    let (cluster, _helm) = installed("chartrbac", 0, CHART).await?;
    let agent = expected(&[
        "list,watch netwrangler.dev/vipaddresses",
        "list,watch netwrangler.dev/vipconfigs",
        "list,watch netwrangler.dev/vipgateways",
        "list,watch netwrangler.dev/vipguards",
        "list,watch netwrangler.dev/vipnetworks",
        "list,watch netwrangler.dev/viproutes",
        "patch netwrangler.dev/vipaddresses/status",
        "get,list,watch /nodes",
        "create /events",
        "create,patch coordination.k8s.io/leases",
    ]);
    let found = rules(&cluster, AGENT)?;
    ensure!(found == agent, "the agent:\n{:#?}", found.symmetric_difference(&agent).collect::<Vec<_>>());
    let mut controllers = expected(&[
        "list,watch netwrangler.dev/vipconfigs",
        "list,watch netwrangler.dev/vipgateways",
        "list,watch netwrangler.dev/vipnetworks",
        "list,watch,create,patch,delete netwrangler.dev/vipaddresses",
        "list,watch,create,patch,delete netwrangler.dev/vipguards",
        "list,watch,create,delete netwrangler.dev/viproutes",
        "patch netwrangler.dev/vipaddresses/status",
        "patch netwrangler.dev/vipconfigs/status",
        "patch netwrangler.dev/vipgateways/status",
        "patch netwrangler.dev/vipnetworks/status",
        "update netwrangler.dev/vipgateways/finalizers",
        "update netwrangler.dev/vipnetworks/finalizers",
        "update /services/finalizers",
        "list,watch /services",
        "list,watch /nodes",
        "list,watch /pods",
        "list,watch discovery.k8s.io/endpointslices",
        "patch /services/status",
        "create,patch /events",
        "get,list,watch,create coordination.k8s.io/leases",
        "update coordination.k8s.io/leases netwrangler-controllers",
    ]);
    for plural in ["vipaddresses", "vipconfigs", "vipgateways", "vipguards", "vipnetworks", "viproutes"] {
        let name = format!("{plural}.netwrangler.dev");
        let line = format!("get,list,watch apiextensions.k8s.io/customresourcedefinitions {name}");
        controllers.extend(expected(&[&line]));
    }
    let found = rules(&cluster, CONTROLLERS)?;
    ensure!(
        found == controllers,
        "the controllers:\n{:#?}",
        found.symmetric_difference(&controllers).collect::<Vec<_>>()
    );
    Ok(())
}

/// A client with the token of a ServiceAccount and nothing else.
fn with_token(cluster: &Cluster, directory: &std::path::Path, token: &str) -> Result<Kubectl> {
    let mut config: Value =
        serde_json::from_str(&cluster.kubectl.ok(&["config", "view", "--raw", "-o", "json"])?)?;
    config["users"][0]["user"] = json!({"token": token});
    let path = directory.join(format!("kubeconfig-{}", directory.read_dir()?.count()));
    std::fs::write(&path, config.to_string())?;
    Kubectl::new(&path)
}

#[tokio::test]
async fn an_agent_writes_only_what_belongs_to_its_node() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let (cluster, _helm) = installed("chartpolicy", 2, CHART).await?;
    let kubectl = &cluster.kubectl;
    let token =
        |options: &[&str]| kubectl.ok(&[&["-n", NAMESPACE, "create", "token", AGENT][..], options].concat());
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "agent", "namespace": NAMESPACE},
        "spec": {"serviceAccountName": AGENT, "nodeName": "node-1", "containers": [{"name": "c", "image": "i"}]}});
    kubectl.apply(&pod.to_string())?;
    let bound = token(&["--bound-object-kind=Pod", "--bound-object-name=agent"])?;
    let agent = with_token(&cluster, directory.path(), bound.trim())?;
    let loose = with_token(&cluster, directory.path(), token(&[])?.trim())?;

    // Server-side apply patches without a read before, as agents do.
    let apply = |client: &Kubectl, object: &Value, more: &[&str]| {
        let options = ["apply", "--server-side", "--field-manager=test", "-f", "-"];
        client.run(&[&options[..], more].concat(), &object.to_string())
    };
    let lease = |node: &str| {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": format!("netwrangler-agent.{node}"), "namespace": NAMESPACE},
            "spec": {"holderIdentity": node}})
    };
    let own = "the agent of node node-1 may only write its own Lease";
    for _ in ["created", "patched"] {
        let done = apply(&agent, &lease("node-1"), &[])?;
        ensure!(done.code == 0, "{}", done.stderr);
    }
    let refused = apply(&agent, &lease("node-2"), &[])?;
    ensure!(refused.stderr.contains(own), "made another's: {}", refused.stderr);
    kubectl.apply(&lease("node-2").to_string())?;
    let refused = apply(&agent, &lease("node-2"), &["--force-conflicts"])?;
    ensure!(refused.stderr.contains(own), "changed another's: {}", refused.stderr);
    let refused = apply(&loose, &lease("node-1"), &["--force-conflicts"])?;
    ensure!(refused.stderr.contains("must be bound to a pod on a node"), "{}", refused.stderr);

    for (number, node) in [(1, "node-1"), (2, "node-2")] {
        kubectl.apply(&vip(number, node).to_string())?;
    }
    let report = |number: u8| {
        let object = json!({"apiVersion": "netwrangler.dev/v1", "kind": "VipAddress",
            "metadata": {"name": format!("web-{number}"), "namespace": "default"},
            "status": {"observedGeneration": 1}});
        apply(&agent, &object, &["--subresource=status"])
    };
    let reported = report(1)?;
    ensure!(reported.code == 0, "{}", reported.stderr);
    let refused = report(2)?;
    let why = "the agent of node node-1 may only report VIPs that are placed on it";
    ensure!(refused.stderr.contains(why), "{}", refused.stderr);

    let event = |node: &str| {
        json!({"apiVersion": "v1", "kind": "Event", "metadata": {"generateName": "web-", "namespace": "default"},
            "involvedObject": {"kind": "Service", "name": "web", "namespace": "default"}, "reason": "VipConflict",
            "message": "told by a test", "type": "Warning", "reportingInstance": node, "reportingComponent": "test"})
    };
    let create = |object: &Value| agent.run(&["create", "-f", "-"], &object.to_string());
    let told = create(&event("node-1"))?;
    ensure!(told.code == 0, "{}", told.stderr);
    let refused = create(&event("node-2"))?;
    ensure!(refused.stderr.contains("may only tell Events of its own"), "{}", refused.stderr);
    Ok(())
}

fn vip(number: u8, node: &str) -> Value {
    json!({"apiVersion": "netwrangler.dev/v1", "kind": "VipAddress",
        "metadata": {"name": format!("web-{number}"), "namespace": "default"},
        "spec": {"service": {"namespace": "default", "name": "web"}, "index": number, "network": "public",
            "node": node, "interface": "eth1", "virtualCIDR": format!("203.0.113.{number}/24"),
            "gatewayIP": "203.0.113.254", "sourceCIDRs": ["0.0.0.0/0"], "firewallMark": number,
            "routeTable": 20000 + u32::from(number), "routingPriority": 20000 + u32::from(number)}})
}
