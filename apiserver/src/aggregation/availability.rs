//! The leader's part: local APIServices are made and removed, and the condition `Available` of the others says whether
//! their backends answer. A backend is asked when something about it changes, and again after a while.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::{BoxFuture, join_all};
use futures::stream::FuturesUnordered;
use litek8s_store::{Command, GroupResource, ObjectKey, View};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::backend::Backend;
use super::registration::Registrar;
use super::{Backends, api_services, probe, registration};
use crate::api::Api;
use crate::endpoints::metadata;
use crate::extensions::{Condition, DEFINITIONS, is_condition_true, set_condition};
use crate::service_endpoints::Unreachable;

/// How often a good backend is asked.
const PERIOD: Duration = Duration::from_secs(10);
/// After how long a bad one is asked again: at first, and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// How long after a write that failed it is tried again.
const REWRITE: Duration = Duration::from_millis(500);

/// What is known of a backend.
struct Watched {
    backend: Arc<Backend>,
    endpoints: Vec<String>,
    due: Instant,
    failures: u32,
    asking: bool,
}

type Probe = BoxFuture<'static, (String, Result<(), String>)>;

/// What a check ended in, in upstream's words.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// Looks after all APIServices until `over`; every write is bound to `term`.
pub(crate) async fn run(api: Arc<Api>, term: u64, over: CancellationToken) {
    let resources = [
        api_services(),
        GroupResource::new(DEFINITIONS.0, DEFINITIONS.2),
        GroupResource::new("", "services"),
        GroupResource::new("discovery.k8s.io", "endpointslices"),
    ];
    let mut changes = resources.each_ref().map(|resource| api.replica.changes(resource));
    let mut keeper = Keeper { api, term, watched: BTreeMap::new(), failed: false, shown: BTreeSet::new() };
    let mut registrar = Registrar::default();
    let mut probes: FuturesUnordered<Probe> = FuturesUnordered::new();
    let mut start = true;
    loop {
        changes.iter_mut().for_each(|change| drop(change.borrow_and_update()));
        let view = keeper.api.replica.view();
        let now = keeper.api.clock.now();
        let commands = registrar.decide(&view, start, now);
        // Together, so that they share the disk's syncs.
        let written = join_all(commands.into_iter().map(|command| keeper.propose(command))).await;
        keeper.failed = written.contains(&false);
        start &= keeper.failed;
        let backends = keeper.api.aggregation.backends(&keeper.api.replica);
        probes.extend(keeper.look(&view, &backends).await);
        let wake = keeper.wake();
        let changed =
            futures::future::select_all(changes.iter_mut().map(|change| Box::pin(change.changed())));
        tokio::select! {
            () = over.cancelled() => return,
            (changed, ..) = changed => if changed.is_err() { return },
            Some((name, answer)) = probes.next(), if !probes.is_empty() => keeper.answered(&name, answer).await,
            () = sleep_until(wake) => {}
        }
    }
}

async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake).await,
        None => std::future::pending().await,
    }
}

struct Keeper {
    api: Arc<Api>,
    term: u64,
    watched: BTreeMap<String, Watched>,
    failed: bool,
    /// The backends that metrics show.
    shown: BTreeSet<String>,
}

impl Keeper {
    /// Says what can be said without asking; the questions that are due.
    async fn look(&mut self, view: &View, backends: &Backends) -> Vec<Probe> {
        self.watched.retain(|name, _| backends.values().any(|backend| backend.name == *name));
        let gone = |name: &String| !backends.values().any(|backend| backend.name == *name);
        for name in self.shown.extract_if(.., gone) {
            self.api.metrics.forget_api_service(&name);
        }
        let (mut probes, now) = (Vec::new(), Instant::now());
        for backend in backends.values() {
            let endpoints = match endpoints(view, backend) {
                Ok(endpoints) => endpoints,
                Err(verdict) => {
                    self.watched.remove(&backend.name);
                    self.conclude(&backend.name, &verdict).await;
                    continue;
                }
            };
            let watched = self.watched.entry(backend.name.clone()).or_insert_with(|| Watched {
                backend: backend.clone(),
                endpoints: Vec::new(),
                due: now,
                failures: 0,
                asking: false,
            });
            if watched.backend.print != backend.print || watched.endpoints != endpoints {
                (watched.due, watched.failures) = (now, 0);
            }
            watched.backend = backend.clone();
            watched.endpoints = endpoints;
            if watched.due <= now && !watched.asking {
                watched.asking = true;
                watched.due = now + PERIOD;
                let (name, backend) = (backend.name.clone(), backend.clone());
                let endpoints = watched.endpoints.clone();
                probes.push(Box::pin(async move { (name, probe::check(backend, endpoints).await) }) as Probe);
            }
        }
        probes
    }

    /// A question was answered.
    async fn answered(&mut self, name: &str, answer: Result<(), String>) {
        // What became of its Service meanwhile has been said already.
        let Some(watched) = self.watched.get_mut(name) else { return };
        watched.asking = false;
        let verdict = match answer {
            Ok(()) => {
                watched.failures = 0;
                Verdict { reason: "Passed", message: "all checks passed".to_owned() }
            }
            Err(message) => {
                let wait = RETRY.0.saturating_mul(1 << watched.failures.min(10)).min(RETRY.1);
                watched.failures += 1;
                watched.due = watched.due.min(Instant::now() + wait);
                Verdict { reason: "FailedDiscoveryCheck", message }
            }
        };
        self.conclude(name, &verdict).await;
    }

    /// Writes the condition, if it says something else.
    async fn conclude(&mut self, name: &str, verdict: &Verdict) {
        let view = self.api.replica.view();
        let Some(object) = view.get(&ObjectKey::new(api_services(), "", name)) else { return };
        let Ok(before) = serde_json::from_slice::<serde_json::Value>(&object.json) else { return };
        let mut after = before.clone();
        let (reason, message) = (verdict.reason, &*verdict.message);
        let condition = Condition { ty: "Available", holds: reason == "Passed", reason, message };
        set_condition(&mut after, &condition, &metadata::time(self.api.clock.now()));
        let lost = (!condition.holds && is_condition_true(&before, "Available")).then_some(reason);
        self.api.metrics.api_service(name, condition.holds, lost);
        self.shown.insert(name.to_owned());
        if let Some(command) = registration::update(object, &before, after) {
            tracing::info!(name, reason, message, "an APIService's availability changed");
            self.failed |= !self.propose(command).await;
        }
    }

    /// Whether a change got through. One that somebody else's overtook did: that other one wakes this loop.
    async fn propose(&self, command: Command) -> bool {
        let proposed = self.api.replica.propose(command, Some(self.term)).await;
        if let Err(error) = &proposed {
            tracing::warn!(%error, "a change of an APIService will be tried again");
        }
        proposed.is_ok()
    }

    /// When something is due without any change.
    fn wake(&self) -> Option<Instant> {
        let due = self.watched.values().filter(|watched| !watched.asking).map(|watched| watched.due);
        due.chain(self.failed.then(|| Instant::now() + REWRITE)).min()
    }
}

/// The ready endpoints of a backend, or what its Service lacks.
pub(super) fn endpoints(view: &View, backend: &Backend) -> Result<Vec<String>, Verdict> {
    let service = &backend.service;
    service.ready(view).map_err(|why| match why {
        Unreachable::NoService => {
            Verdict { reason: "ServiceNotFound", message: format!("{service} is not present") }
        }
        Unreachable::NoPort => {
            let message = format!("{service} is not listening on port {}", service.port);
            Verdict { reason: "ServicePortError", message }
        }
        Unreachable::NoSlices => {
            let message = format!("cannot find endpointslices for {service}");
            Verdict { reason: "EndpointsNotFound", message }
        }
        Unreachable::NoneReady(port) => {
            let message = format!("endpointslices for {service} have no addresses with port name {port:?}");
            Verdict { reason: "MissingEndpoints", message }
        }
    })
}
