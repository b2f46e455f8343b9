//! API groups served by others (APIServices): which backend has a group and version, and the way there.
//!
//! A request finds its backend by a lock and a comparison; only a change of an APIService reads the objects again.

mod availability;
mod backend;
mod client;
mod documents;
mod front_proxy;
mod headers;
mod learned;
mod namespaces;
mod probe;
mod proxy;
mod registration;
mod strategy;
mod swagger;
mod trust;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

use litek8s_daemon::pki::PkiError;
use litek8s_raft::Replica;
use litek8s_store::{GroupResource, Revision};
use tokio::sync::watch;

pub(crate) use availability::run as look_after;
pub(crate) use backend::Backend;
pub(crate) use client::causes;
pub(crate) use front_proxy::{FrontProxy, NAME as FRONT_PROXY, renew};
pub(crate) use headers::{
    REMOTE_EXTRA, REMOTE_GROUP, REMOTE_UID, REMOTE_USER, forwarded_for, strip_hop_by_hop, strip_private,
    upgrade,
};
pub(crate) use learned::learn;
pub(crate) use namespaces::{Content, Contents, run as empty_namespaces};
pub(crate) use strategy::ApiServices;
pub(crate) use trust::trust;

use crate::request::RequestInfo;
use documents::Merged;
use learned::LearnedOf;

/// Group, version and plural name of the APIServices themselves.
pub(crate) const API_SERVICES: (&str, &str, &str) = ("apiregistration.k8s.io", "v1", "apiservices");

/// Who this server is to its backends when it asks for itself.
pub(crate) const AGGREGATOR: &str = "system:kube-aggregator";

/// The APIServices' resource in the store.
pub(crate) fn api_services() -> GroupResource {
    GroupResource::new(API_SERVICES.0, API_SERVICES.2)
}

/// The backends by group and version.
pub(crate) type Backends = BTreeMap<(String, String), Arc<Backend>>;

/// The backends as the store has them, and who this server is to them.
pub struct Aggregation {
    front_proxy: FrontProxy,
    known: RwLock<Known>,
    learned: watch::Sender<Arc<LearnedOf>>,
    contents: watch::Sender<Arc<Contents>>,
    merged: Mutex<Option<Arc<Merged>>>,
}

#[derive(Default)]
struct Known {
    /// The last change of an APIService that is in `backends`.
    seen: Option<Revision>,
    backends: Arc<Backends>,
}

impl Aggregation {
    /// Opens or makes the keys in `directory`.
    pub fn open(directory: &Path, now: SystemTime) -> Result<Self, PkiError> {
        Ok(Self {
            front_proxy: FrontProxy::open(directory, now)?,
            known: RwLock::default(),
            learned: watch::Sender::default(),
            contents: watch::Sender::default(),
            merged: Mutex::default(),
        })
    }

    /// Who this server is to its backends.
    pub(crate) fn front_proxy(&self) -> &FrontProxy {
        &self.front_proxy
    }

    /// What is known of what the backends serve.
    fn learned(&self) -> Arc<LearnedOf> {
        self.learned.borrow().clone()
    }

    /// Wakes when something was learned.
    fn learned_changes(&self) -> watch::Receiver<Arc<LearnedOf>> {
        self.learned.subscribe()
    }

    fn set_learned(&self, learned: LearnedOf) {
        self.learned.send_if_modified(|known| {
            let changed = **known != learned;
            if changed {
                *known = Arc::new(learned);
            }
            changed
        });
    }

    /// What backends have of the namespaces that end, whenever somebody looked.
    pub(crate) fn contents(&self) -> watch::Receiver<Arc<Contents>> {
        self.contents.subscribe()
    }

    fn set_content(&self, namespace_uid: &str, content: Content) {
        self.contents.send_modify(|contents| {
            Arc::make_mut(contents).insert(namespace_uid.to_owned(), content);
        });
    }

    /// Forgets the other namespaces.
    fn keep_contents(&self, keep: impl Fn(&str) -> bool) {
        self.contents.send_if_modified(|contents| {
            if contents.keys().any(|uid| !keep(uid)) {
                Arc::make_mut(contents).retain(|uid, _| keep(uid));
            }
            false
        });
    }

    /// The backends of all APIServices that name a Service.
    pub(crate) fn backends(&self, replica: &Replica) -> Arc<Backends> {
        let newest = *replica.changes(&api_services()).borrow();
        {
            let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
            if known.seen.is_some_and(|seen| seen >= newest) {
                return known.backends.clone();
            }
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let view = replica.view();
        let mut backends = Backends::new();
        for object in view.list(&api_services(), None) {
            let before = known.backends.values().find(|backend| backend.name == *object.key.name);
            if let Some(backend) = Backend::of(object, before.map(|b| &**b), &self.front_proxy) {
                backends.insert((backend.group.clone(), backend.version.clone()), Arc::new(backend));
            }
        }
        *known = Known { seen: Some(view.revision()), backends: Arc::new(backends) };
        known.backends.clone()
    }

    /// The backend that answers a request, if it is not this server.
    pub(crate) fn backend_of(&self, replica: &Replica, info: &RequestInfo) -> Option<Arc<Backend>> {
        let (group, version) = if info.is_resource_request {
            (info.api_group.as_str(), info.api_version.as_str())
        } else {
            // The list of the version's resources is the backend's too, and its schema.
            let path = info.path.trim_matches('/');
            let parts: Vec<&str> = path.strip_prefix("openapi/v3/").unwrap_or(path).splitn(4, '/').collect();
            match parts.as_slice() {
                ["api", version] => ("", *version),
                ["apis", group, version] => (*group, *version),
                _ => return None,
            }
        };
        let backends = self.backends(replica);
        if backends.is_empty() {
            return None;
        }
        backends.get(&(group.to_owned(), version.to_owned())).cloned()
    }
}
