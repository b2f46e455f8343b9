//! Everything that talks to the API with one client: watches, the node's own objects, status patches.
//!
//! It ends when told, or when its client's certificate is to be renewed; the owner goes on meanwhile.

mod registration;
mod vigil;
mod watches;
mod writer;

use std::net::IpAddr;
use std::sync::Arc;

use kube::Client;
use litek8s_kernel::Prober;
use serde_json::Value;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::fitness::Says;
use crate::metrics::AgentMetrics;
use crate::owner::Event;
use crate::streams::{self, Services};

/// Who this node is.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) name: String,
    /// Where others reach it, at most one of each family.
    pub(crate) addresses: Vec<IpAddr>,
    /// Where the agents' own Leases are.
    pub(crate) agent_namespace: String,
    /// Whether the Node and its Lease in `kube-node-lease` are the agent's to write. A kubelet's are not.
    pub(crate) registers: bool,
}

/// What the owner has to say to the API.
#[derive(Debug)]
pub(crate) enum Outgoing {
    Status(StatusPatch),
    Note(Note),
}

/// A merge patch of a VipAddress's status.
#[derive(Debug, Clone)]
pub(crate) struct StatusPatch {
    pub(crate) vip: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) body: Value,
}

/// An Event on a Service.
#[derive(Debug, Clone)]
pub(crate) struct Note {
    pub(crate) namespace: String,
    pub(crate) service: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// All that the owner has to say.
pub(crate) struct Said<'a> {
    pub(crate) outgoing: &'a mut mpsc::Receiver<Outgoing>,
    /// What the agent's Lease says.
    pub(crate) lease: &'a watch::Receiver<Says>,
    /// Told when everything is to be listed anew.
    pub(crate) anew: &'a Notify,
}

/// What a session answers and asks others with.
pub(crate) struct Means<'a> {
    pub(crate) prober: &'a Arc<Prober>,
    pub(crate) services: &'a Services,
}

/// Runs until `until`.
pub(crate) async fn run(
    client: Client,
    identity: &Identity,
    events: &mpsc::Sender<Event>,
    said: Said<'_>,
    metrics: &AgentMetrics,
    means: Means<'_>,
    until: CancellationToken,
) {
    let mut tasks = JoinSet::new();
    watches::spawn(&mut tasks, &client, &identity.name, events);
    tasks.spawn(registration::keep(client.clone(), identity.clone(), metrics.clone(), events.clone()));
    let (sees, sight) = watch::channel(vigil::Sight::default());
    let lease = vigil::LeaseKeeper {
        client: client.clone(),
        identity: identity.clone(),
        sight,
        says: said.lease.clone(),
    };
    tasks.spawn(lease.keep(events.clone()));
    let prober = means.prober.clone();
    tasks.spawn(vigil::watch_over(client.clone(), identity.clone(), prober, sees, events.clone()));
    tasks.spawn(streams::keep(client.clone(), identity.name.clone(), means.services.clone()));
    let writer = writer::Writer { client, node: identity.name.clone(), events: events.clone() };
    tokio::select! {
        () = until.cancelled() => {}
        () = said.anew.notified() => {}
        () = writer.run(said.outgoing) => {}
        // None of the tasks ends by itself; one that does takes the session along, and the next one starts all anew.
        _ = tasks.join_next() => tracing::warn!("a task of the API session ended"),
    }
    metrics.api_connected.set(0);
    tasks.shutdown().await;
}
