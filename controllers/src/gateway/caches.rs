//! One cache for each kind, fed by a watch of its own, and what the agents say in their Leases.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use litek8s_crds::{VipGateway, VipRoute, names};
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::gather::Objects;

/// What each node's agent says of the gateways it knows.
type Says = Arc<Mutex<BTreeMap<String, String>>>;

/// The caches. They say when something changed, not what.
pub(crate) struct Caches {
    gateways: Store<VipGateway>,
    pods: Store<Pod>,
    routes: Store<VipRoute>,
    says: Says,
    /// Whether every agent's Lease was listed once.
    heard: watch::Receiver<bool>,
    changed: Arc<Notify>,
}

impl Caches {
    /// Begins to watch; `agents` is the namespace of the agents' Leases. The tasks end with `shutdown`.
    pub(crate) fn start(
        client: &Client,
        agents: &str,
        tasks: &TaskTracker,
        shutdown: &CancellationToken,
    ) -> Self {
        let changed = Arc::new(Notify::new());
        let start = Start { client, agents, tasks, shutdown, changed: &changed };
        let labelled =
            watcher::Config::default().labels(&format!("{}={}", names::LABEL_GATEWAY, names::ENABLED));
        let (says, heard) = start.listen();
        Self {
            gateways: start.watch(watcher::Config::default()),
            pods: start.watch(labelled),
            routes: start.watch(watcher::Config::default()),
            says,
            heard,
            changed,
        }
    }

    /// Returns when each cache holds all there is. Nothing may be decided before.
    pub(crate) async fn synced(&self) -> anyhow::Result<()> {
        self.gateways.wait_until_ready().await?;
        self.pods.wait_until_ready().await?;
        self.routes.wait_until_ready().await?;
        self.heard.clone().wait_for(|heard| *heard).await?;
        Ok(())
    }

    /// Returns when something changed since the last time it returned.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Everything that is cached now.
    pub(crate) fn objects(&self) -> Objects {
        Objects {
            gateways: self.gateways.state(),
            pods: self.pods.state(),
            routes: self.routes.state(),
            says: self.says.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

struct Start<'a> {
    client: &'a Client,
    /// The namespace of the agents' Leases.
    agents: &'a str,
    tasks: &'a TaskTracker,
    shutdown: &'a CancellationToken,
    changed: &'a Arc<Notify>,
}

impl Start<'_> {
    fn watch<K>(&self, config: watcher::Config) -> Store<K>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let (store, writer) = reflector::store();
        let kind = K::kind(&()).into_owned();
        let (changed, shutdown) = (self.changed.clone(), self.shutdown.clone());
        let stream = watcher(Api::<K>::all(self.client.clone()), config).default_backoff().reflect(writer);
        self.tasks.spawn(async move {
            let mut stream = std::pin::pin!(stream);
            loop {
                let event = tokio::select! {
                    () = shutdown.cancelled() => return,
                    event = stream.next() => event,
                };
                match event {
                    Some(Ok(watcher::Event::Init | watcher::Event::InitApply(_))) => {}
                    Some(Ok(
                        watcher::Event::InitDone | watcher::Event::Apply(_) | watcher::Event::Delete(_),
                    )) => changed.notify_one(),
                    Some(Err(error)) => tracing::warn!(kind, %error, "the watch failed, trying again"),
                    None => return,
                }
            }
        });
        store
    }

    /// Watches the agents' Leases. A renewal is not a change; what an agent says of gateways is.
    fn listen(&self) -> (Says, watch::Receiver<bool>) {
        let says = Says::default();
        let (ready, heard) = watch::channel(false);
        let (known, changed, shutdown) = (says.clone(), self.changed.clone(), self.shutdown.clone());
        let api = Api::<Lease>::namespaced(self.client.clone(), self.agents);
        let stream = watcher(api, watcher::Config::default()).default_backoff();
        self.tasks.spawn(async move {
            let mut stream = std::pin::pin!(stream);
            let mut listed = BTreeMap::new();
            loop {
                let event = tokio::select! {
                    () = shutdown.cancelled() => return,
                    event = stream.next() => event,
                };
                let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                let differs = match event {
                    Some(Ok(watcher::Event::Init)) => {
                        listed.clear();
                        false
                    }
                    Some(Ok(watcher::Event::InitApply(lease))) => {
                        listed.extend(said(&lease));
                        false
                    }
                    Some(Ok(watcher::Event::InitDone)) => {
                        let now = std::mem::take(&mut listed);
                        ready.send_replace(true);
                        std::mem::replace(&mut *known, now) != *known
                    }
                    Some(Ok(watcher::Event::Apply(lease))) => said(&lease)
                        .is_some_and(|(node, text)| known.insert(node, text.clone()) != Some(text)),
                    Some(Ok(watcher::Event::Delete(lease))) => {
                        said(&lease).is_some_and(|(node, _)| known.remove(&node).is_some())
                    }
                    Some(Err(error)) => {
                        tracing::warn!(%error, "the watch of Leases failed, trying again");
                        false
                    }
                    None => return,
                };
                if differs {
                    changed.notify_one();
                }
            }
        });
        (says, heard)
    }
}

/// The node of an agent's Lease, and what it says.
fn said(lease: &Lease) -> Option<(String, String)> {
    let node = lease.name_any().strip_prefix(names::AGENT_LEASE_PREFIX)?.to_owned();
    let text = lease.annotations().get(names::ANNOTATION_GATEWAYS).cloned();
    Some((node, text.unwrap_or_default()))
}
