//! This node's own objects: its Node with address and condition, and its Lease, renewed while the agent lives. On a node
//! with a kubelet they are the kubelet's, and only looked at.

use std::fs;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeCondition, NodeStatus, NodeSystemInfo};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference, Time};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Identity;
use crate::metrics::AgentMetrics;
use crate::owner::Event;

const NAMESPACE: &str = "kube-node-lease";
const MANAGER: &str = "litek8s-agent";
/// How often the Lease is renewed, and the sooner try after a failure.
const RENEW: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(1);
/// How long a Lease is good for, in seconds: the default of a kubelet.
const LEASE_SECONDS: i32 = 40;
/// How old the Ready condition's heartbeat may get.
const HEARTBEAT: SignedDuration = SignedDuration::from_secs(60);
/// A request that takes longer has failed: the Lease must not wait for it.
const PATIENCE: Duration = Duration::from_secs(5);

/// An outage after which the VIPs are listed and announced again: others may have held them meanwhile.
const OUTAGE: Duration = Duration::from_secs(3);

/// Keeps both up to date, and tells the owner when an outage is over. Ends then: everything is to be listed anew.
pub(super) async fn keep(
    client: Client,
    identity: Identity,
    metrics: AgentMetrics,
    events: mpsc::Sender<Event>,
) {
    let mut failing: Option<Instant> = None;
    loop {
        let renewed = tokio::time::timeout(PATIENCE, renew(&client, &identity)).await;
        let error = match renewed {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("no answer in time".to_owned()),
        };
        metrics.api_connected.set(i64::from(error.is_none()));
        match (error, failing) {
            (Some(error), None) => {
                tracing::warn!(error, "cannot reach the Node");
                failing = Some(Instant::now());
            }
            (None, Some(since)) => {
                let outage = since.elapsed();
                tracing::info!(?outage, "the Node is reached again");
                failing = None;
                if outage > OUTAGE {
                    // Without an owner there is nobody to tell.
                    let _ = events.send(Event::Reconnected).await;
                    return;
                }
            }
            (Some(_), Some(_)) | (None, None) => {}
        }
        tokio::time::sleep(if failing.is_some() { RETRY } else { RENEW }).await;
    }
}

async fn renew(client: &Client, identity: &Identity) -> kube::Result<()> {
    let nodes = Api::<Node>::all(client.clone());
    if !identity.registers {
        return nodes.get_metadata(&identity.name).await.map(drop);
    }
    let uid = keep_node(&nodes, identity).await?;
    keep_lease(&Api::namespaced(client.clone(), NAMESPACE), identity, uid).await
}

/// Registers the node if it is not there, and corrects its status when it differs or gets old. Returns its UID.
async fn keep_node(nodes: &Api<Node>, identity: &Identity) -> kube::Result<Option<String>> {
    let node = match nodes.get_opt(&identity.name).await? {
        Some(node) => node,
        None => nodes.create(&PostParams::default(), &new_node(identity)).await?,
    };
    let uid = node.metadata.uid.clone();
    let now = Timestamp::now();
    let status = node.status.unwrap_or_default();
    let wanted = wanted_status(identity, &status, now);
    if !is_current(&status, &wanted, now) {
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let body = json!({"status": wanted});
        nodes.patch_status(&identity.name, &params, &Patch::Merge(&body)).await?;
    }
    Ok(uid)
}

fn new_node(identity: &Identity) -> Node {
    let labels = [
        ("kubernetes.io/hostname", identity.name.as_str()),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", architecture()),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    Node {
        metadata: ObjectMeta {
            name: Some(identity.name.clone()),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        ..Node::default()
    }
}

/// What the agent has to say about the node; what others said stays.
fn wanted_status(identity: &Identity, present: &NodeStatus, now: Timestamp) -> NodeStatus {
    let address = |kind: &str, address: String| NodeAddress { type_: kind.to_owned(), address };
    let own = identity.addresses.iter().map(|own| address("InternalIP", own.to_string()));
    let addresses = own.chain([address("Hostname", identity.name.clone())]).collect();
    let mut conditions: Vec<NodeCondition> = present.conditions.clone().unwrap_or_default();
    let before = conditions.iter().position(|condition| condition.type_ == "Ready");
    let before = before.map(|index| conditions.remove(index)).filter(|condition| condition.status == "True");
    let since = before.and_then(|condition| condition.last_transition_time);
    conditions.push(NodeCondition {
        type_: "Ready".to_owned(),
        status: "True".to_owned(),
        reason: Some("AgentReady".to_owned()),
        message: Some("the node agent is running".to_owned()),
        last_heartbeat_time: Some(Time(now)),
        last_transition_time: Some(since.unwrap_or(Time(now))),
    });
    NodeStatus {
        addresses: Some(addresses),
        conditions: Some(conditions),
        node_info: Some(system_info()),
        ..NodeStatus::default()
    }
}

/// Whether the status says what it should, and not too long ago.
fn is_current(present: &NodeStatus, wanted: &NodeStatus, now: Timestamp) -> bool {
    let ready = |status: &NodeStatus| {
        let conditions = status.conditions.clone().unwrap_or_default();
        conditions.into_iter().find(|condition| condition.type_ == "Ready")
    };
    let fresh = ready(present).is_some_and(|condition| {
        let beat = condition.last_heartbeat_time.map(|time| time.0);
        condition.status == "True" && beat.is_some_and(|beat| now.duration_since(beat) < HEARTBEAT)
    });
    fresh && present.addresses == wanted.addresses && present.node_info == wanted.node_info
}

async fn keep_lease(leases: &Api<Lease>, identity: &Identity, uid: Option<String>) -> kube::Result<()> {
    let spec = LeaseSpec {
        holder_identity: Some(identity.name.clone()),
        lease_duration_seconds: Some(LEASE_SECONDS),
        renew_time: Some(MicroTime(Timestamp::now())),
        ..LeaseSpec::default()
    };
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let patched = leases.patch(&identity.name, &params, &Patch::Merge(&json!({"spec": spec}))).await;
    let missing = matches!(&patched, Err(kube::Error::Api(status)) if status.code == 404);
    if !missing {
        return patched.map(drop);
    }
    // It goes with its Node.
    let owner = uid.map(|uid| OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: identity.name.clone(),
        uid,
        ..OwnerReference::default()
    });
    let lease = Lease {
        metadata: ObjectMeta {
            name: Some(identity.name.clone()),
            namespace: Some(NAMESPACE.to_owned()),
            owner_references: owner.map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
    };
    leases.create(&PostParams::default(), &lease).await.map(drop)
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn system_info() -> NodeSystemInfo {
    let line = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let os_image = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .unwrap_or("Linux")
        .trim_matches('"')
        .to_owned();
    NodeSystemInfo {
        architecture: architecture().to_owned(),
        boot_id: crate::boot::id(),
        container_runtime_version: "none".to_owned(),
        kernel_version: line("/proc/sys/kernel/osrelease"),
        kubelet_version: format!("v{}-litek8s", env!("CARGO_PKG_VERSION")),
        machine_id: line("/etc/machine-id"),
        operating_system: "linux".to_owned(),
        os_image,
        ..NodeSystemInfo::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_ready_condition_keeps_its_time_and_others_stay() {
        let identity = Identity {
            name: "n1".into(),
            addresses: vec![[192, 0, 2, 1].into()],
            agent_namespace: "kube-system".into(),
            registers: true,
        };
        let other = NodeCondition {
            type_: "NetworkUnavailable".into(),
            status: "False".into(),
            ..NodeCondition::default()
        };
        let bare = NodeStatus { conditions: Some(vec![other.clone()]), ..NodeStatus::default() };
        let first = wanted_status(&identity, &bare, at(100));
        assert!(!is_current(&bare, &first, at(100)));
        assert!(is_current(&first, &wanted_status(&identity, &first, at(150)), at(150)));
        let second = wanted_status(&identity, &first, at(161));
        assert!(!is_current(&first, &second, at(161)), "the heartbeat is old");
        let conditions = second.conditions.clone().unwrap();
        assert_eq!(conditions[0], other);
        assert_eq!(conditions[1].last_transition_time, Some(Time(at(100))));
        let mut doubted = second.clone();
        doubted.conditions.as_mut().unwrap()[1].status = "Unknown".into();
        let third = wanted_status(&identity, &doubted, at(162));
        assert!(!is_current(&doubted, &third, at(162)));
        assert_eq!(third.conditions.unwrap()[1].last_transition_time, Some(Time(at(162))));
    }
}
