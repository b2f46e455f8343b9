//! Does what a decision says: guards, deletions, then what is new, then statuses and Events. One that fails stops no other one,
//! but for what is made in the place of something that may still be there. It is tried again after a pause of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, Resource, ResourceExt};
use litek8s_crds::{VipAddress, VipConfig, VipEndpoint, VipGuard, VipNetwork, names};
use litek8s_daemon::backoff::Backoff;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::caches::Caches;
use super::changes::occupied;
use super::decision::{self, Action, Decision, Note};
use super::facts::AddressFact;
use super::gather::{Objects, address, asks, load_balancer};
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
    /// Actions and statuses that failed.
    refused: Backoff,
    untold: Backoff,
}

impl Executor {
    pub(crate) fn new(client: Client, recorder: Recorder, manager: String, metrics: VipMetrics) -> Self {
        Self { client, recorder, manager, metrics, refused: Backoff::default(), untold: Backoff::default() }
    }

    /// Does everything but what failed lately; how long it is until that is tried again, if there is any.
    pub(crate) async fn execute(
        &mut self,
        decision: &Decision,
        objects: &Objects,
        caches: &Caches,
        now: Timestamp,
    ) -> Option<Duration> {
        let wanted: BTreeSet<String> = decision.actions.iter().map(ToString::to_string).collect();
        self.refused.keep(|write| wanted.contains(write));
        let [guards, deletions, rest] = stages(&decision.actions);
        self.act_on(guards, caches, now).await;
        let stay = self.act_on(deletions, caches, now).await;
        let there: Vec<AddressFact> = objects
            .addresses
            .iter()
            .filter(|address| address.uid().is_some_and(|uid| stay.contains(&uid)))
            .map(|found| address(found, &self.manager))
            .collect();
        self.act_on(free(rest, &there), caches, now).await;
        self.statuses(decision, objects, now).await;
        self.note(&decision.notes, now);
        let waits = [&self.refused, &self.untold].map(|writes| writes.wait(Instant::now()));
        waits.into_iter().flatten().min()
    }

    /// Does these together, and waits until the caches show it. The UIDs of what may still be there and should have gone.
    async fn act_on(&mut self, actions: Vec<&Action>, caches: &Caches, now: Timestamp) -> BTreeSet<String> {
        let started = Instant::now();
        let (held, due): (Vec<&Action>, Vec<&Action>) =
            actions.into_iter().partition(|action| self.refused.holds(&action.to_string(), started));
        let this = &*self;
        // Boxed, so that the compiler sees the whole as `Send`.
        let writes: Vec<BoxFuture<'_, Result<Written<'_>, ()>>> =
            due.iter().map(|action| this.act(action).boxed()).collect();
        // In order, so that what happened to one Service is told together.
        let done: Vec<Result<Written<'_>, ()>> = stream::iter(writes).buffered(CONCURRENCY).collect().await;
        let mut stay: BTreeSet<String> = held.into_iter().filter_map(goes).map(str::to_owned).collect();
        for (action, result) in due.iter().zip(&done) {
            self.refused.note(&action.to_string(), result.is_ok(), Instant::now());
            if result.is_err() {
                stay.extend(goes(action).map(str::to_owned));
            }
        }
        self.metrics.failed(done.iter().filter(|result| result.is_err()).count());
        let written: Vec<Written<'_>> = done.into_iter().flatten().collect();
        self.note(written.iter().filter_map(Written::note), now);
        if tokio::time::timeout(PATIENCE, shown(caches, &written)).await.is_err() {
            tracing::warn!("the watch of VipAddresses is behind what was written");
        }
        stay
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
    async fn statuses(&mut self, decision: &Decision, objects: &Objects, now: Timestamp) {
        let this = &*self;
        let mut writes: Vec<(String, BoxFuture<'_, Result<(), kube::Error>>)> = Vec::new();
        let config = objects.configs.iter().find(|config| config.name_any() == names::CONFIG_NAME);
        if let (Some(config), Some(report)) = (config, &decision.config) {
            let before = config.status.clone().unwrap_or_default();
            let wanted = status::config(report, &before, now);
            if wanted != before {
                let api: Api<VipConfig> = Api::all(this.client.clone());
                writes.push(this.status(api, config.name_any(), json!({}), json!(wanted)));
            }
        }
        for report in &decision.networks {
            let network = objects.networks.iter().find(|network| network.name_any() == report.name);
            let before = network.and_then(|network| network.status.clone()).unwrap_or_default();
            let wanted = status::network(report, &before, now);
            if wanted != before {
                let api: Api<VipNetwork> = Api::all(this.client.clone());
                writes.push(this.status(api, report.name.clone(), json!({}), json!(wanted)));
            }
        }
        let reports: BTreeMap<&str, &ServiceReport> =
            decision.services.iter().map(|report| (report.uid.as_str(), report)).collect();
        for service in &objects.services {
            let report = service.metadata.uid.as_deref().and_then(|uid| reports.get(uid).copied());
            if let Some(status) = service_status(report, service, now) {
                let namespace = service.namespace().unwrap_or_default();
                let api: Api<Service> = Api::namespaced(this.client.clone(), &namespace);
                let metadata = json!({ "namespace": namespace, "uid": service.uid() });
                writes.push(this.status(api, service.name_any(), metadata, status));
            }
        }
        let wanted: BTreeSet<String> = writes.iter().map(|(what, _)| what.clone()).collect();
        let started = Instant::now();
        let due = writes.into_iter().filter(|(what, _)| !this.untold.holds(what, started));
        let told = due.map(|(what, write)| async { (what, write.await) }.boxed());
        let told: Vec<BoxFuture<'_, (String, Result<(), kube::Error>)>> = told.collect();
        let told: Vec<(String, Result<(), kube::Error>)> =
            stream::iter(told).buffer_unordered(CONCURRENCY).collect().await;
        self.untold.keep(|what| wanted.contains(what));
        for (what, result) in &told {
            self.untold.note(what, result.is_ok(), Instant::now());
            if let Err(error) = result {
                tracing::warn!(error = brief(error), "{what} was not written");
            }
        }
        self.metrics.failed(told.iter().filter(|(_, result)| result.is_err()).count());
    }

    /// A status that is to be written, and what it is.
    fn status<'a, K>(
        &'a self,
        api: Api<K>,
        name: String,
        metadata: Value,
        status: Value,
    ) -> (String, BoxFuture<'a, Result<(), kube::Error>>)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + 'static,
    {
        let namespace = metadata["namespace"].as_str().map(|namespace| format!("{namespace}/"));
        let what = format!("the status of {} {}{name}", K::kind(&()), namespace.unwrap_or_default());
        let write = async move { self.apply(&api, &name, metadata, status).await };
        (what, write.boxed())
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

/// What is done together, in order: a pod is guarded before it loses its VIP, and what is new comes when its place is free.
fn stages(actions: &[Action]) -> [Vec<&Action>; 3] {
    let mut stages = [const { Vec::new() }; 3];
    for action in actions {
        let stage = match action {
            Action::Guard { .. } => 0,
            Action::Delete { .. } | Action::Release { .. } => 1,
            Action::Create { .. } | Action::Map { .. } => 2,
        };
        stages[stage].push(action);
    }
    stages
}

/// The UID of what an action lets go.
fn goes(action: &Action) -> Option<&str> {
    match action {
        Action::Delete { uid, .. } | Action::Release { uid, .. } => Some(uid),
        Action::Create { .. } | Action::Guard { .. } | Action::Map { .. } => None,
    }
}

/// Those actions that need nothing of what is still there.
fn free<'a>(mut actions: Vec<&'a Action>, there: &[AddressFact]) -> Vec<&'a Action> {
    actions.retain(|action| match action {
        Action::Create { address, .. } => !occupied(there.iter(), address),
        Action::Delete { .. } | Action::Release { .. } | Action::Guard { .. } | Action::Map { .. } => true,
    });
    actions
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

#[cfg(test)]
mod tests {
    use super::super::decide::decide;
    use super::super::fixture::{address, facts, service};
    use super::super::memory::Memory;
    use super::*;

    #[test]
    fn a_pod_is_guarded_before_it_loses_its_vip_and_a_place_is_free_before_it_is_taken() {
        let (namespace, name, uid) = ("default".to_owned(), "web-1".to_owned(), "u".to_owned());
        let release = Action::Release { namespace, name, uid, finalizers: Vec::new(), why: String::new() };
        let guard = Action::Guard { node: "a".into(), pods: Vec::new() };
        let mut facts = facts();
        facts.services = vec![service("web", &["203.0.113.10"], &[("a", 1)])];
        let mut actions = decide(&facts, &Memory::default()).actions;
        actions.extend([release.clone(), guard.clone()]);
        let [first, second, third] = stages(&actions);
        assert_eq!((first, second), (vec![&guard], vec![&release]));
        assert!(matches!(third.as_slice(), [Action::Create { .. }]), "{third:?}");
    }

    #[test]
    fn what_cannot_be_deleted_holds_back_only_what_needs_its_place() {
        let mut facts = facts();
        facts.services = vec![service("web", &["203.0.113.10", "203.0.113.11"], &[("a", 1), ("b", 1)])];
        let decision = decide(&facts, &Memory::default());
        let all: Vec<&Action> = decision.actions.iter().collect();
        let made = |there: &[AddressFact]| -> Vec<String> {
            let made = free(all.clone(), there).into_iter().map(ToString::to_string);
            made.map(|text| text.split(" mark").next().unwrap_or_default().to_owned()).collect()
        };
        let both = [
            "create default/web-1 on a: 203.0.113.10/24".to_owned(),
            "create default/web-2 on b: 203.0.113.11/24".to_owned(),
        ];
        assert_eq!(made(&[]), both);
        assert_eq!(made(&[address("other", 9, "203.0.113.10", "c")]), both[1..], "its address");
        assert_eq!(made(&[address("web", 1, "203.0.113.99", "c")]), both[1..], "its name");
        assert_eq!(made(&[address("other", 1, "203.0.113.99", "a")]), both[1..], "its mark on the node");
        assert_eq!(made(&[address("other", 9, "203.0.113.11", "c")]), both[..1]);
    }
}
