//! Does what a decision says: deletions, then what is new, then statuses and Events. One that fails stops no other one,
//! but nothing is made while something that had to go first may still be there.

use std::collections::BTreeMap;
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
use super::decision::{self, Action, Decision, Note};
use super::gather::{Objects, asks, load_balancer};
use super::metrics::VipMetrics;
use super::recorder::Recorder;
use super::report::ServiceReport;
use super::status;

/// How many requests are under way at once.
const CONCURRENCY: usize = 32;

/// How long to wait until the caches show what was written.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a write changed that the cache of VipAddresses has to show before the next decision.
enum Written<'a> {
    Made { namespace: String, name: String, uid: String, note: &'a Note },
    Gone { namespace: String, name: String, uid: String },
    Released { namespace: String, name: String, uid: String },
    Nothing,
}

impl Written<'_> {
    /// What is to be told of it.
    fn note(&self) -> Option<&Note> {
        match self {
            Self::Made { note, .. } => Some(note),
            Self::Gone { .. } | Self::Released { .. } | Self::Nothing => None,
        }
    }
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
            let writes: Vec<BoxFuture<'_, Result<Written<'_>, ()>>> =
                actions.into_iter().map(|action| self.act(action).boxed()).collect();
            // In order, so that what happened to one Service is told together.
            let written: Vec<Result<Written<'_>, ()>> =
                stream::iter(writes).buffered(CONCURRENCY).collect().await;
            failed += written.iter().filter(|result| result.is_err()).count();
            let written: Vec<Written<'_>> = written.into_iter().flatten().collect();
            self.note(written.iter().filter_map(Written::note), now);
            if tokio::time::timeout(PATIENCE, shown(caches, &written)).await.is_err() {
                tracing::warn!("the watch of VipAddresses is behind what was written");
            }
        }
        failed += self.statuses(decision, objects, now).await;
        self.note(&decision.notes, now);
        self.metrics.failed(failed);
        failed
    }

    /// Counts what happened and tells it as Events.
    fn note<'a>(&self, notes: impl IntoIterator<Item = &'a Note>, now: Timestamp) {
        let counted = notes.into_iter().inspect(|note| self.metrics.noted(note.kind));
        for note in decision::together(counted) {
            self.recorder.tell(&note, now);
        }
    }

    async fn act<'a>(&self, action: &'a Action) -> Result<Written<'a>, ()> {
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
            Action::Create { address, note } => self.create(address, note).await,
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
    ) -> Result<Written<'static>, kube::Error> {
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
    async fn create<'a>(&self, address: &VipAddress, note: &'a Note) -> Result<Written<'a>, kube::Error> {
        let namespace = address.namespace().unwrap_or_default();
        let api: Api<VipAddress> = Api::namespaced(self.client.clone(), &namespace);
        let parameters = PostParams { field_manager: Some(self.manager.clone()), ..PostParams::default() };
        match api.create(&parameters, address).await {
            Ok(made) => {
                let uid = made.uid().unwrap_or_default();
                Ok(Written::Made { namespace, name: made.name_any(), uid, note })
            }
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(Written::Nothing),
            Err(error) => Err(error),
        }
    }

    /// Writes what the objects are to say and do not say yet; how much failed.
    async fn statuses(&self, decision: &Decision, objects: &Objects, now: Timestamp) -> usize {
        let mut writes: Vec<BoxFuture<'_, bool>> = Vec::new();
        let config = objects.configs.iter().find(|config| config.name_any() == names::CONFIG_NAME);
        if let (Some(config), Some(report)) = (config, &decision.config) {
            let before = config.status.clone().unwrap_or_default();
            let wanted = status::config(report, &before, now);
            if wanted != before {
                let api: Api<VipConfig> = Api::all(self.client.clone());
                writes.push(self.tell(api, config.name_any(), json!({}), json!(wanted)).boxed());
            }
        }
        for report in &decision.networks {
            let network = objects.networks.iter().find(|network| network.name_any() == report.name);
            let before = network.and_then(|network| network.status.clone()).unwrap_or_default();
            let wanted = status::network(report, &before, now);
            if wanted != before {
                let api: Api<VipNetwork> = Api::all(self.client.clone());
                writes.push(self.tell(api, report.name.clone(), json!({}), json!(wanted)).boxed());
            }
        }
        let reports: BTreeMap<&str, &ServiceReport> =
            decision.services.iter().map(|report| (report.uid.as_str(), report)).collect();
        for service in &objects.services {
            let report = service.metadata.uid.as_deref().and_then(|uid| reports.get(uid).copied());
            if let Some(status) = service_status(report, service, now) {
                let namespace = service.namespace().unwrap_or_default();
                let api: Api<Service> = Api::namespaced(self.client.clone(), &namespace);
                let metadata = json!({ "namespace": namespace, "uid": service.uid() });
                writes.push(self.tell(api, service.name_any(), metadata, status).boxed());
            }
        }
        let told: Vec<bool> = stream::iter(writes).buffer_unordered(CONCURRENCY).collect().await;
        told.iter().filter(|told| !**told).count()
    }

    /// Writes a status; whether that went well.
    async fn tell<K>(&self, api: Api<K>, name: String, metadata: Value, status: Value) -> bool
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let result = self.apply(&api, &name, metadata, status).await;
        if let Err(error) = &result {
            tracing::warn!(error = brief(error), "the status of {} {name} was not written", K::kind(&()));
        }
        result.is_ok()
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

/// What a Service is to say, if it is something else than it says.
fn service_status(report: Option<&ServiceReport>, service: &Service, now: Timestamp) -> Option<Value> {
    if !asks(service) {
        return status::left_over(service).then(|| json!({}));
    }
    status::service(report?, service, load_balancer(service), now)
}

/// An error of the API in its own words, without the whole answer.
pub(crate) fn brief(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error { status.message.clone() } else { error.to_string() }
}

/// Returns when the cache shows what was written.
async fn shown(caches: &Caches, written: &[Written<'_>]) {
    for write in written {
        loop {
            let done = match write {
                Written::Nothing => true,
                Written::Made { namespace, name, uid, .. } => {
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
