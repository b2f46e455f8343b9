//! One cache for each kind, fed by a watch of its own.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use litek8s_crds::{VipAddress, VipConfig, VipGateway, VipGuard, VipNetwork};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::gather::{self, Objects};
use super::liveness::Heard;

/// The caches. They say when something changed, not what.
pub(crate) struct Caches {
    services: Store<Service>,
    slices: Store<EndpointSlice>,
    nodes: Store<Node>,
    configs: Store<VipConfig>,
    networks: Store<VipNetwork>,
    gateways: Store<VipGateway>,
    guards: Store<VipGuard>,
    addresses: Store<VipAddress>,
    heard: Arc<Mutex<Heard>>,
    /// Cancelled once the Leases were listed.
    listed: CancellationToken,
    changed: Arc<Notify>,
    pressing: Arc<Notify>,
}

impl Caches {
    /// Begins to watch; `agents` is the namespace of the agents' Leases. The tasks end with `shutdown`.
    pub(crate) fn start(
        client: &Client,
        agents: &str,
        tasks: &TaskTracker,
        shutdown: &CancellationToken,
    ) -> Self {
        let (changed, pressing) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let listed = CancellationToken::new();
        let start = Start { client, agents, tasks, shutdown, changed: &changed, pressing: &pressing };
        Self {
            services: start.watch(),
            slices: start.watch(),
            nodes: start.watch(),
            configs: start.watch(),
            networks: start.watch(),
            gateways: start.watch(),
            guards: start.watch(),
            addresses: start.watch_for(gather::let_go),
            heard: start.listen(listed.clone()),
            listed,
            changed,
            pressing,
        }
    }

    /// Returns when each cache holds all there is. Nothing may be decided before.
    pub(crate) async fn synced(&self) -> anyhow::Result<()> {
        self.services.wait_until_ready().await?;
        self.slices.wait_until_ready().await?;
        self.nodes.wait_until_ready().await?;
        self.configs.wait_until_ready().await?;
        self.networks.wait_until_ready().await?;
        self.gateways.wait_until_ready().await?;
        self.guards.wait_until_ready().await?;
        self.addresses.wait_until_ready().await?;
        self.listed.cancelled().await;
        Ok(())
    }

    /// Returns when something changed since the last time it returned.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Returns when something changed that a VIP out of service waits for.
    pub(crate) async fn pressing(&self) {
        self.pressing.notified().await;
    }

    /// Everything that is cached now.
    pub(crate) fn objects(&self) -> Objects {
        Objects {
            services: self.services.state(),
            slices: self.slices.state(),
            nodes: self.nodes.state(),
            configs: self.configs.state(),
            networks: self.networks.state(),
            gateways: self.gateways.state(),
            guards: self.guards.state(),
            addresses: self.addresses.state(),
            leases: self.heard.lock().unwrap_or_else(PoisonError::into_inner).facts(),
        }
    }

    /// A VipAddress.
    pub(crate) fn address(&self, namespace: &str, name: &str) -> Option<Arc<VipAddress>> {
        self.addresses.get(&reflector::ObjectRef::new(name).within(namespace))
    }
}

struct Start<'a> {
    client: &'a Client,
    /// The namespace of the agents' Leases.
    agents: &'a str,
    tasks: &'a TaskTracker,
    shutdown: &'a CancellationToken,
    changed: &'a Arc<Notify>,
    pressing: &'a Arc<Notify>,
}

impl Start<'_> {
    /// Watches the agents' Leases. A renewal is not a change; what an agent says of other nodes is.
    fn listen(&self, listed: CancellationToken) -> Arc<Mutex<Heard>> {
        let heard = Arc::new(Mutex::new(Heard::default()));
        let (known, shutdown) = (heard.clone(), self.shutdown.clone());
        let (changed, pressing) = (self.changed.clone(), self.pressing.clone());
        let api = Api::<Lease>::namespaced(self.client.clone(), self.agents);
        let stream = watcher(api, watcher::Config::default()).default_backoff();
        self.tasks.spawn(async move {
            let mut stream = std::pin::pin!(stream);
            loop {
                let event = tokio::select! {
                    () = shutdown.cancelled() => return,
                    event = stream.next() => event,
                };
                let mut heard = known.lock().unwrap_or_else(PoisonError::into_inner);
                let now = Timestamp::now();
                match event {
                    Some(Ok(watcher::Event::Apply(lease) | watcher::Event::InitApply(lease))) => {
                        if heard.hear(&lease, now) {
                            pressing.notify_one();
                            changed.notify_one();
                        }
                    }
                    Some(Ok(watcher::Event::Delete(lease))) => {
                        heard.forget(&lease);
                        changed.notify_one();
                    }
                    Some(Ok(watcher::Event::Init)) => heard.restart(now),
                    Some(Ok(watcher::Event::InitDone)) => {
                        heard.restart(now);
                        listed.cancel();
                    }
                    Some(Err(error)) => tracing::warn!(%error, "the watch of Leases failed, trying again"),
                    None => return,
                }
            }
        });
        heard
    }

    fn watch<K>(&self) -> Store<K>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        self.watch_for(|_| false)
    }

    /// Watches; an object for which `pressing` holds is not waited with.
    fn watch_for<K>(&self, pressing: fn(&K) -> bool) -> Store<K>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let urgent = self.pressing.clone();
        let (store, writer) = reflector::store();
        let kind = K::kind(&()).into_owned();
        let (changed, shutdown) = (self.changed.clone(), self.shutdown.clone());
        let stream = watcher(Api::<K>::all(self.client.clone()), watcher::Config::default());
        let stream = stream.default_backoff().reflect(writer);
        self.tasks.spawn(async move {
            let mut stream = std::pin::pin!(stream);
            loop {
                tokio::select! {
                    () = shutdown.cancelled() => return,
                    event = stream.next() => match event {
                        Some(Ok(watcher::Event::Init | watcher::Event::InitApply(_))) => {}
                        Some(Ok(watcher::Event::Apply(object))) => {
                            if pressing(&object) {
                                urgent.notify_one();
                            }
                            changed.notify_one();
                        }
                        Some(Ok(watcher::Event::InitDone | watcher::Event::Delete(_))) => {
                            changed.notify_one();
                        }
                        Some(Err(error)) => tracing::warn!(kind, %error, "the watch failed, trying again"),
                        None => return,
                    }
                }
            }
        });
        store
    }
}
