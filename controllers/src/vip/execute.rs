//! Does what a decision says: deletions, then what is new, then statuses and Events. One that fails stops no other one,
//! but nothing is made while something that had to go first may still be there.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, Resource, ResourceExt};
use litek8s_crds::{VipAddress, VipConfig, VipEndpoint, VipGuard, VipNetwork, names};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::caches::Caches;
use super::decision::{Action, Decision, Note};
use super::gather::{Objects, asks, load_balancer};
use super::metrics::VipMetrics;
use super::recorder::Recorder;
use super::status;

/// How many requests are under way at once.
const CONCURRENCY: usize = 16;

/// How long to wait until the caches show what was written.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a write changed that the cache of VipAddresses has to show before the next decision.
enum Written {
    Made { namespace: String, name: String, uid: String },
    Gone { namespace: String, name: String, uid: String },
    Released { namespace: String, name: String, uid: String },
    Nothing,
}

/// The API, and in whose name to write.
pub(crate) struct Executor {
    client: Client,
    recorder: Recorder,
    pub(crate) manager: String,
    pub(crate) metrics: VipMetrics,
}

impl Executor {
    pub(crate) fn new(client: Client, recorder: Recorder, manager: String, metrics: VipMetrics) -> Self {
        Self { client, recorder, manager, metrics }
    }

    /// Does everything; how much failed.
    pub(crate) async fn execute(
        &self,
        decision: &Decision,
        objects: &Objects,
        caches: &Caches,
        now: Timestamp,
    ) -> usize {
        let mut failed = 0;
        // A pod is guarded before it loses its VIP.
        let deletions = |action: &&Action| {
            matches!(action, Action::Guard { .. } | Action::Delete { .. } | Action::Release { .. })
        };
        let (first, then): (Vec<&Action>, Vec<&Action>) = decision.actions.iter().partition(deletions);
        for actions in [first, then] {
            let makes = |action: &&Action| matches!(action, Action::Create { .. });
            let (made, other): (Vec<&Action>, Vec<&Action>) = actions.into_iter().partition(makes);
            let actions = if failed == 0 { [other, made].concat() } else { other };
            // Boxed, so that the compiler sees the whole as `Send`.
            let writes: Vec<BoxFuture<'_, Result<Written, ()>>> =
                actions.into_iter().map(|action| self.act(action, now).boxed()).collect();
            let written: Vec<Result<Written, ()>> =
                stream::iter(writes).buffer_unordered(CONCURRENCY).collect().await;
            failed += written.iter().filter(|result| result.is_err()).count();
            let written: Vec<Written> = written.into_iter().flatten().collect();
            if tokio::time::timeout(PATIENCE, shown(caches, &written)).await.is_err() {
                tracing::warn!("the watch of VipAddresses is behind what was written");
            }
        }
        failed += self.statuses(decision, objects, now).await;
        for note in &decision.notes {
            self.recorder.tell(note, now);
            self.metrics.noted(note.kind);
        }
        self.metrics.failed(failed);
        failed
    }

    async fn act(&self, action: &Action, now: Timestamp) -> Result<Written, ()> {
        let result = match action {
            Action::Delete { namespace, name, uid, finalizers, .. } => {
                let kept = finalizers.as_deref();
                self.delete(namespace, name, uid, kept).await
            }
            Action::Release { namespace, name, uid, finalizers, .. } => {
                self.strip(namespace, name, uid, finalizers).await.map(|()| Written::Released {
                    namespace: namespace.clone(),
                    name: name.clone(),
                    uid: uid.clone(),
                })
            }
            Action::Create { address, note } => self.create(address, note, now).await,
            Action::Guard { node, pods } => self.guard(node, pods).await.map(|()| Written::Nothing),
            Action::Map { namespace, name, uid, endpoints } => {
                let api: Api<VipAddress> = Api::namespaced(self.client.clone(), namespace);
                let metadata = json!({ "namespace": namespace, "uid": uid });
                self.apply(&api, name, metadata, json!({ "endpoints": endpoints }))
                    .await
                    .map(|()| Written::Nothing)
            }
        };
        match result {
            Ok(written) => {
                tracing::info!("{action}");
                Ok(written)
            }
            Err(error) => {
                tracing::warn!(error = brief(&error), "{action}");
                Err(())
            }
        }
    }

    /// Deletes this very object; another of its name, or none, is as good.
    async fn delete(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        finalizers: Option<&[String]>,
    ) -> Result<Written, kube::Error> {
        if let Some(finalizers) = finalizers {
            self.strip(namespace, name, uid, finalizers).await?;
        }
        let api: Api<VipAddress> = Api::namespaced(self.client.clone(), namespace);
        let this = Preconditions { uid: Some(uid.to_owned()), ..Preconditions::default() };
        match api.delete(name, &DeleteParams::default().preconditions(this)).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {}
            Err(error) => return Err(error),
        }
        Ok(Written::Gone { namespace: namespace.to_owned(), name: name.to_owned(), uid: uid.to_owned() })
    }

    /// Leaves only these finalizers on this very object.
    async fn strip(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        finalizers: &[String],
    ) -> Result<(), kube::Error> {
        let api: Api<VipAddress> = Api::namespaced(self.client.clone(), namespace);
        let parameters = PatchParams { field_manager: Some(self.manager.clone()), ..PatchParams::default() };
        let body = json!({ "metadata": { "uid": uid, "finalizers": finalizers } });
        match api.patch(name, &parameters, &Patch::Merge(&body)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Makes, changes or deletes the VipGuard of a node.
    async fn guard(&self, node: &str, pods: &[VipEndpoint]) -> Result<(), kube::Error> {
        let api: Api<VipGuard> = Api::all(self.client.clone());
        if pods.is_empty() {
            return match api.delete(node, &DeleteParams::default()).await {
                Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
                other => other.map(drop),
            };
        }
        let object = json!({
            "apiVersion": VipGuard::api_version(&()), "kind": VipGuard::kind(&()),
            "metadata": {"name": node, "labels": {(names::LABEL_MANAGED_BY): self.manager}},
            "spec": {"count": pods.len(), "pods": pods},
        });
        let parameters = PatchParams::apply(&self.manager).force();
        api.patch(node, &parameters, &Patch::Apply(&object)).await.map(drop)
    }

    /// Makes a VipAddress; one of its name that is there already will be seen.
    async fn create(
        &self,
        address: &VipAddress,
        note: &Note,
        now: Timestamp,
    ) -> Result<Written, kube::Error> {
        let namespace = address.namespace().unwrap_or_default();
        let api: Api<VipAddress> = Api::namespaced(self.client.clone(), &namespace);
        let parameters = PostParams { field_manager: Some(self.manager.clone()), ..PostParams::default() };
        match api.create(&parameters, address).await {
            Ok(made) => {
                self.recorder.tell(note, now);
                self.metrics.noted(note.kind);
                Ok(Written::Made { namespace, name: made.name_any(), uid: made.uid().unwrap_or_default() })
            }
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(Written::Nothing),
            Err(error) => Err(error),
        }
    }

    async fn statuses(&self, decision: &Decision, objects: &Objects, now: Timestamp) -> usize {
        let mut failed = 0;
        let mut count = |what: &str, name: &str, result: Result<(), kube::Error>| {
            if let Err(error) = result {
                tracing::warn!(error = brief(&error), "the status of {what} {name} was not written");
                failed += 1;
            }
        };
        let config = objects.configs.iter().find(|config| config.name_any() == names::CONFIG_NAME);
        if let (Some(config), Some(report)) = (config, &decision.config) {
            let before = config.status.clone().unwrap_or_default();
            let wanted = status::config(report, &before, now);
            if wanted != before {
                let api: Api<VipConfig> = Api::all(self.client.clone());
                count(
                    "VipConfig",
                    names::CONFIG_NAME,
                    self.apply(&api, names::CONFIG_NAME, json!({}), json!(wanted)).await,
                );
            }
        }
        for report in &decision.networks {
            let network = objects.networks.iter().find(|network| network.name_any() == report.name);
            let before = network.and_then(|network| network.status.clone()).unwrap_or_default();
            let wanted = status::network(report, &before, now);
            if wanted != before {
                let api: Api<VipNetwork> = Api::all(self.client.clone());
                count(
                    "VipNetwork",
                    &report.name,
                    self.apply(&api, &report.name, json!({}), json!(wanted)).await,
                );
            }
        }
        for service in &objects.services {
            if let Some(status) = self.service_status(decision, service, now) {
                let namespace = service.namespace().unwrap_or_default();
                let api: Api<Service> = Api::namespaced(self.client.clone(), &namespace);
                let metadata = json!({ "namespace": namespace, "uid": service.uid() });
                count(
                    "Service",
                    &service.name_any(),
                    self.apply(&api, &service.name_any(), metadata, status).await,
                );
            }
        }
        failed
    }

    fn service_status(&self, decision: &Decision, service: &Arc<Service>, now: Timestamp) -> Option<Value> {
        if !asks(service) {
            return status::left_over(service).then(|| json!({}));
        }
        let uid = service.uid();
        let report = decision.services.iter().find(|report| Some(&report.uid) == uid.as_ref())?;
        status::service(report, service, load_balancer(service), now)
    }

    /// Server-side apply of a status.
    async fn apply<K>(
        &self,
        api: &Api<K>,
        name: &str,
        metadata: Value,
        status: Value,
    ) -> Result<(), kube::Error>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let mut object = json!({
            "apiVersion": K::api_version(&()),
            "kind": K::kind(&()),
            "metadata": metadata,
            "status": status,
        });
        object["metadata"]["name"] = json!(name);
        let parameters = PatchParams::apply(&self.manager).force();
        match api.patch_status(name, &parameters, &Patch::Apply(&object)).await {
            Ok(_) => Ok(()),
            // It went, or another of its name came; the caches will say.
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// An error of the API in its own words, without the whole answer.
pub(crate) fn brief(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error { status.message.clone() } else { error.to_string() }
}

/// Returns when the cache shows what was written.
async fn shown(caches: &Caches, written: &[Written]) {
    for write in written {
        loop {
            let done = match write {
                Written::Nothing => true,
                Written::Made { namespace, name, uid } => {
                    caches.address(namespace, name).is_some_and(|address| address.uid().as_ref() == Some(uid))
                }
                Written::Released { namespace, name, uid } => {
                    caches.address(namespace, name).is_none_or(|address| address.uid().as_ref() != Some(uid))
                }
                Written::Gone { namespace, name, uid } => {
                    caches.address(namespace, name).is_none_or(|address| {
                        address.uid().as_ref() != Some(uid) || address.metadata.deletion_timestamp.is_some()
                    })
                }
            };
            if done {
                break;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}
