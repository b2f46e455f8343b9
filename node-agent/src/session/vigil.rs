//! The agent's own Lease, renewed every two seconds, and its watch over its neighbours, which the Lease reports.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use litek8s_crds::{VipAddress, names};
use litek8s_kernel::{Asker, Prober};
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior};

use super::Identity;
use crate::fitness::Says;
use crate::index::Change;
use crate::neighbours::Neighbours;
use crate::owner::Event;
use crate::vips;

const MANAGER: &str = "litek8s-agent";
/// How often the Lease is renewed, and for how long it is good, in seconds.
const RENEW: Duration = Duration::from_secs(2);
const LEASE_SECONDS: i32 = 6;
/// The pause after a renewal that failed, and how long one may take.
const RETRY: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_millis(1500);
/// How long the API must not have answered before a node whom nobody answers counts as cut off.
const CUT_OFF: Duration = Duration::from_secs(5);
/// How often neighbours are asked.
const ASK: Duration = Duration::from_millis(500);
/// How often the nodes are listed anew.
const LIST: Duration = Duration::from_secs(30);

/// What the watch over the neighbours came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Sight {
    /// The nodes that do not answer.
    unreachable: BTreeSet<String>,
    /// Nobody answers.
    alone: bool,
}

/// Keeps the agent's own Lease.
pub(super) struct LeaseKeeper {
    pub(super) client: Client,
    pub(super) identity: Identity,
    pub(super) sight: watch::Receiver<Sight>,
    pub(super) says: watch::Receiver<Says>,
}

impl LeaseKeeper {
    /// Renews the Lease, and at once when what it says changes. Ends when the API answers a node that was cut off: then
    /// everything is to be listed anew.
    pub(super) async fn keep(mut self, events: mpsc::Sender<Event>) {
        let mut failing = false;
        let (mut answered, mut cut_off) = (Instant::now(), false);
        loop {
            let sees = self.sight.borrow_and_update().clone();
            let mut says = self.says.borrow_and_update().clone();
            let unreachable: Vec<&str> = sees.unreachable.iter().map(String::as_str).collect();
            says.insert(names::ANNOTATION_UNREACHABLE, unreachable.join(","));
            let renewed = tokio::time::timeout(PATIENCE, self.renew(&says)).await;
            let mut there = true;
            let error = match renewed {
                Ok(Ok(found)) => {
                    there = found;
                    None
                }
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some("no answer in time".to_owned()),
            };
            if let Some(error) = &error
                && !failing
            {
                tracing::warn!(error, "cannot renew the agent's Lease");
            }
            failing = error.is_some();
            if !failing {
                if cut_off {
                    return;
                }
                answered = Instant::now();
            } else if sees.alone && !cut_off && answered.elapsed() > CUT_OFF {
                cut_off = true;
                if events.send(Event::CutOff).await.is_err() {
                    return;
                }
            }
            tokio::select! {
                () = tokio::time::sleep(if failing || !there { RETRY } else { RENEW }) => {}
                changed = self.sight.changed(), if !failing => if changed.is_err() { return },
                changed = self.says.changed(), if !failing => if changed.is_err() { return },
            }
        }
    }

    /// Whether the Lease is there: it goes with its Node, which is registered elsewhere, and does not come before it.
    async fn renew(&self, says: &Says) -> kube::Result<bool> {
        let leases = Api::<Lease>::namespaced(self.client.clone(), &self.identity.agent_namespace);
        let node = &self.identity.name;
        let name = format!("{}{node}", names::AGENT_LEASE_PREFIX);
        let spec = LeaseSpec {
            holder_identity: Some(node.clone()),
            lease_duration_seconds: Some(LEASE_SECONDS),
            renew_time: Some(MicroTime(Timestamp::now())),
            ..LeaseSpec::default()
        };
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let body = json!({"metadata": {"annotations": says}, "spec": spec});
        let patched = leases.patch(&name, &params, &Patch::Merge(&body)).await;
        if !matches!(&patched, Err(kube::Error::Api(status)) if status.code == 404) {
            return patched.map(|_| true);
        }
        let Some(uid) =
            Api::<Node>::all(self.client.clone()).get_metadata_opt(node).await?.map(|node| node.metadata.uid)
        else {
            return Ok(false);
        };
        let owner = OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: node.clone(),
            uid: uid.unwrap_or_default(),
            ..OwnerReference::default()
        };
        let metadata = ObjectMeta {
            name: Some(name),
            namespace: Some(self.identity.agent_namespace.clone()),
            annotations: Some(says.iter().map(|(&name, text)| (name.to_owned(), text.clone())).collect()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        };
        leases.create(&PostParams::default(), &Lease { metadata, spec: Some(spec) }).await.map(|_| true)
    }
}

/// Asks the neighbours for their VIPs for ever, and tells which do not answer.
pub(super) async fn watch_over(
    client: Client,
    identity: Identity,
    prober: Arc<Prober>,
    sight: watch::Sender<Sight>,
    events: mpsc::Sender<Event>,
) {
    let mut neighbours = Neighbours::new(&identity.name);
    let addresses = watcher(Api::<VipAddress>::all(client.clone()), watcher::Config::default());
    let mut addresses = std::pin::pin!(addresses.default_backoff());
    let nodes = Api::<Node>::all(client);
    let (mut listed, mut ask, mut list) =
        (Vec::new(), tokio::time::interval(ASK), tokio::time::interval(LIST));
    ask.set_missed_tick_behavior(MissedTickBehavior::Delay);
    list.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = list.tick() => {
                let all = tokio::time::timeout(PATIENCE, nodes.list_metadata(&ListParams::default())).await;
                // Otherwise the next time; who watches over whom may stay as it is.
                if let Ok(Ok(all)) = all {
                    neighbours.set_nodes(all.items.iter().map(ResourceExt::name_any));
                }
            }
            event = addresses.next() => match event {
                Some(Ok(watcher::Event::Init)) => listed.clear(),
                Some(Ok(watcher::Event::InitApply(address))) => listed.push(address),
                Some(Ok(watcher::Event::InitDone)) => neighbours.hear(Change::Reset(std::mem::take(&mut listed))),
                Some(Ok(watcher::Event::Apply(address))) => {
                    if let Some(leaves) = leaves(&identity.name, &address) {
                        // Unheard, its next holder asks for it first.
                        let _ = events.try_send(leaves);
                    }
                    neighbours.hear(Change::Apply(address));
                }
                Some(Ok(watcher::Event::Delete(address))) => neighbours.hear(Change::Delete(address)),
                Some(Err(_)) => {}
                None => return,
            },
            claim = prober.heard() => match claim {
                Ok(claim) => neighbours.answered(claim.address),
                Err(error) => {
                    tracing::warn!(%error, "cannot hear neighbours");
                    tokio::time::sleep(RETRY).await;
                }
            },
            _ = ask.tick() => {
                for (interface, addresses) in neighbours.tick(Instant::now()) {
                    if prober.ask(&interface, &addresses, Asker::Ourselves).await.is_err() {
                        neighbours.unasked(&interface);
                    }
                }
                let now = Sight { unreachable: neighbours.unreachable(), alone: neighbours.alone() };
                sight.send_if_modified(|before| {
                    let differs = *before != now;
                    if differs {
                        tracing::warn!(nodes = ?now.unreachable, alone = now.alone, "neighbours that do not answer");
                        *before = now;
                    }
                    differs
                });
            }
        }
    }
}

/// What is told of a VipAddress that another node is asked to let go of: this one may be the next to have it.
fn leaves(own: &str, address: &VipAddress) -> Option<Event> {
    let spec = &address.spec;
    if spec.node == own || !vips::waits(address) {
        return None;
    }
    let cidr: ipnet::IpNet = spec.virtual_cidr.parse().ok()?;
    let mac = address.status.as_ref().and_then(|status| status.hardware_address.as_deref());
    Some(Event::Leaves(cidr.addr(), mac.and_then(vips::read_mac)))
}
