//! Hollow nodes: Nodes in the API whose agents only talk to it, to have the size of a cluster without its machines.
//!
//! A hollow agent says of every VIP it is given that it is in place, and lets go of it when it is deleted. No packet flows.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, ResourceExt};
use litek8s_crds::{VipAddress, names};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::ready;

/// How often an agent renews its Lease, and after how many times a kubelet the node's.
const RENEW: Duration = Duration::from_secs(2);
const KUBELET: usize = 5;
/// Where a kubelet has its node's Lease.
const NODE_LEASES: &str = "kube-node-lease";
/// How many requests are under way at once while the nodes are made.
const AT_ONCE: usize = 16;

/// Hollow nodes; gone from the API only with the cluster, and silent when dropped.
#[derive(Debug)]
pub struct HollowNodes {
    names: Vec<String>,
    told: Arc<AtomicUsize>,
    /// Ends its tasks when dropped.
    _agents: JoinSet<()>,
}

impl HollowNodes {
    /// Registers `count` nodes, `hollow-1` and so on, and starts their agents.
    ///
    /// # Errors
    /// When the API refuses one.
    pub async fn start(kubeconfig: &Path, count: u16) -> Result<Self> {
        let client = Client::try_from(ready::config(kubeconfig).await?)?;
        let names: Vec<String> = (1..=count).map(|number| format!("hollow-{number}")).collect();
        stream::iter(&names)
            .map(|name| register(&client, name))
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await?;
        let told = Arc::new(AtomicUsize::new(0));
        let mut agents = JoinSet::new();
        for name in &names {
            agents.spawn(renew(client.clone(), name.clone()));
            agents.spawn(hold(client.clone(), name.clone(), told.clone()));
        }
        Ok(Self { names, told, _agents: agents })
    }

    /// Their names.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// How many statuses they have written.
    pub fn told(&self) -> usize {
        self.told.load(Ordering::Relaxed)
    }
}

/// The Node as a kubelet makes it, ready, and the agent's first Lease.
async fn register(client: &Client, name: &str) -> Result<()> {
    let nodes = Api::<Node>::all(client.clone());
    let node: Node = serde_json::from_value(json!({"metadata": {"name": name,
        "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}}}))?;
    nodes.create(&PostParams::default(), &node).await.with_context(|| format!("Node {name}"))?;
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady",
        "message": "a hollow node"}]}});
    nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(&ready)).await?;
    for (namespace, lease) in leases(name) {
        let object: Lease =
            serde_json::from_value(json!({"metadata": {"name": lease}, "spec": lease_spec(name)}))?;
        let api = Api::<Lease>::namespaced(client.clone(), namespace);
        api.create(&PostParams::default(), &object).await.with_context(|| format!("Lease {lease}"))?;
    }
    Ok(())
}

/// The agent's Lease and the kubelet's: namespace and name.
fn leases(node: &str) -> [(&'static str, String); 2] {
    [
        (names::AGENT_LEASE_NAMESPACE, format!("{}{node}", names::AGENT_LEASE_PREFIX)),
        (NODE_LEASES, node.to_owned()),
    ]
}

fn lease_spec(node: &str) -> Value {
    json!({"holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": format!("{:.6}", Timestamp::now())})
}

/// Renews the Leases for ever.
async fn renew(client: Client, node: String) {
    let mut round = 0;
    loop {
        tokio::time::sleep(RENEW).await;
        round += 1;
        let due = if round % KUBELET == 0 { 2 } else { 1 };
        for (namespace, lease) in leases(&node).into_iter().take(due) {
            let body = json!({"spec": lease_spec(&node)});
            let api = Api::<Lease>::namespaced(client.clone(), namespace);
            // One that is missed is made up for by the next.
            let _ = api.patch(&lease, &PatchParams::default(), &Patch::Merge(&body)).await;
        }
    }
}

/// Says of every VipAddress of the node how it stands, once, for ever.
async fn hold(client: Client, node: String, told: Arc<AtomicUsize>) {
    let mine = watcher::Config::default().labels(&format!("{}={node}", names::LABEL_NODE_NAME));
    let mut seen = std::pin::pin!(
        watcher(Api::<VipAddress>::all(client.clone()), mine).default_backoff().applied_objects()
    );
    while let Some(next) = seen.next().await {
        let Ok(address) = next else { continue };
        let Some(conditions) = conditions(&address) else { continue };
        let body = json!({"metadata": {"uid": address.uid()},
            "status": {"observedGeneration": address.metadata.generation, "conditions": conditions}});
        let api = Api::<VipAddress>::namespaced(client.clone(), &address.namespace().unwrap_or_default());
        // One that fails is tried again when the object is seen again.
        if api.patch_status(&address.name_any(), &PatchParams::default(), &Patch::Merge(&body)).await.is_ok()
        {
            told.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What an agent says of a VipAddress, when it has not said so yet.
fn conditions(address: &VipAddress) -> Option<Value> {
    let leaving = address.metadata.deletion_timestamp.is_some();
    let (status, reason) = if leaving { ("False", names::REASON_RELEASED) } else { ("True", "Programmed") };
    let said = address.status.iter().flat_map(|status| &status.conditions);
    if said.clone().any(|said| said.type_ == names::CONDITION_PROGRAMMED && said.status == status) {
        return None;
    }
    let kinds = [names::CONDITION_READY, names::CONDITION_PROGRAMMED, names::CONDITION_ANNOUNCED];
    let condition = |kind| {
        json!({"type": kind, "status": status, "reason": reason, "message": "",
        "observedGeneration": address.metadata.generation, "lastTransitionTime": Timestamp::now()})
    };
    Some(kinds.map(condition).into())
}
