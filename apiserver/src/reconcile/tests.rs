//! Controllers acted out on a store without a server around it, by a clock that stands still until it is moved.

mod governance;
mod network;
mod server;

use std::sync::LazyLock;

use jiff::{SignedDuration, Timestamp};
use litek8s_store::{Command, Entry, Object, ObjectKey, Outcome, Precondition, Store};
use serde_json::{Value, json};

use super::action::{Action, Failed};
use super::agenda::Agenda;
use super::facts::{Facts, decide};
use super::kind::Kind;
use super::subject::{Duty, Subject};
use super::{placement, read};
use crate::endpoints::{metadata, refine};
use crate::registry::Registry;
use crate::service_account::Issuer;

/// Who signs tokens in all worlds: its key takes a while to make.
static ISSUER: LazyLock<Issuer> =
    LazyLock::new(|| Issuer::from_pem(&rcgen::KeyPair::generate().unwrap().serialize_pem()).unwrap());

/// A store and the controllers.
pub(super) struct World {
    store: Store,
    registry: Registry,
    agenda: Agenda,
    pub(super) now: Timestamp,
    made: usize,
    /// Why no more pods are created.
    pub(super) refusal: Option<&'static str>,
    /// Whether nodes are looked after; elsewhere pods may be on nodes that are not there.
    pub(super) has_nodes: bool,
    /// What was written since it was last looked at, as `create Pod`.
    pub(super) written: Vec<String>,
}

impl World {
    pub(super) fn new() -> Self {
        Self {
            store: Store::default(),
            registry: Registry::new(),
            agenda: Agenda::default(),
            now: "2024-01-01T00:00:00Z".parse().unwrap(),
            made: 0,
            refusal: None,
            has_nodes: false,
            written: Vec::new(),
        }
    }

    fn propose(&mut self, command: Command) -> Outcome {
        self.store.apply(1, Entry { session: 0, sequence: 0, acknowledged: 0, bound_term: None, command })
    }

    fn refined(&self, kind: Kind, mut value: Value) -> Value {
        let (group, version, plural) = kind.path();
        value["apiVersion"] = json!(kind.api_version());
        value["kind"] = json!(kind.name());
        refine(&self.registry.get(group, version, plural).unwrap().resource, &mut value);
        value
    }

    /// Creates an object; its uid is `uid-NAME` unless it brings one.
    pub(super) fn add(&mut self, kind: Kind, name: &str, object: Value) {
        let mut object = object;
        object["metadata"]["name"] = json!(name);
        if object["metadata"]["namespace"].is_null() {
            object["metadata"]["namespace"] = json!("default");
        }
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("uid-{name}"));
        }
        self.create(kind, object).unwrap();
    }

    fn create(&mut self, kind: Kind, mut object: Value) -> Result<(), Failed> {
        if let Some(message) = self.refusal.filter(|_| kind == Kind::Pod) {
            return Err(Failed { reason: "FailedCreate", message: message.to_owned() });
        }
        self.made += 1;
        let prefix = metadata::text(&object, "generateName").to_owned();
        if metadata::text(&object, "name").is_empty() {
            object["metadata"]["name"] = json!(format!("{prefix}{:03}", self.made));
        }
        let made = &mut object["metadata"];
        if made["uid"].is_null() {
            made["uid"] = json!(format!("uid-{}", self.made));
        }
        made["creationTimestamp"] = json!(metadata::time(self.now));
        made["generation"] = json!(1);
        if kind == Kind::Pod && object["status"]["phase"].is_null() {
            object["status"]["phase"] = json!("Pending");
        }
        let object = self.refined(kind, object);
        let key = kind.key(metadata::text(&object, "namespace"), metadata::text(&object, "name"));
        let command = Command::Create { key, object: object.to_string().into(), claims: Vec::new() };
        match self.propose(command) {
            Outcome::Rejected(rejection) => {
                Err(Failed { reason: "FailedCreate", message: rejection.to_string() })
            }
            Outcome::Created(_) | Outcome::Updated(_) | Outcome::Deleted(_) | Outcome::Batch(_) => Ok(()),
        }
    }

    fn replace(&mut self, key: ObjectKey, object: &Value, revision: Option<u64>) -> Outcome {
        let precondition = Precondition { uid: None, revision };
        let object = object.to_string().into();
        self.propose(Command::Update { key, object, precondition, claims: Vec::new() })
    }

    fn update(&mut self, kind: Kind, subresource: &str, object: Value) {
        let key = kind.key(metadata::text(&object, "namespace"), metadata::text(&object, "name"));
        let current = self.store.view().get(&key).unwrap().clone();
        let revision = metadata::text(&object, "resourceVersion").parse().unwrap();
        let old = read::value(&current).unwrap();
        let mut new = object;
        let kept = if subresource == "status" { "spec" } else { "status" };
        new[kept] = old[kept].clone();
        let mut new = self.refined(kind, new);
        if !read::same(&new["spec"], &old["spec"]) {
            new["metadata"]["generation"] = json!(current.meta.generation + 1);
        }
        let waits_for_node = current.meta.deletion_grace_period_seconds.is_some_and(|grace| grace > 0);
        if current.meta.is_terminating() && !waits_for_node && metadata::finalizers(&new).is_empty() {
            self.propose(Command::Delete { key, precondition: Precondition::at(revision) });
            return;
        }
        assert!(!matches!(self.replace(key, &new, Some(revision)), Outcome::Rejected(_)));
    }

    /// Changes an object as a client would.
    pub(super) fn edit(&mut self, kind: Kind, name: &str, change: impl FnOnce(&mut Value)) {
        self.edit_in("default", kind, name, change);
    }

    pub(super) fn edit_in(
        &mut self,
        namespace: &str,
        kind: Kind,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) {
        let key = kind.key(namespace, name);
        let current = self.store.view().get(&key).unwrap().clone();
        let old = read::value(&current).unwrap();
        let mut new = old.clone();
        change(&mut new);
        if !read::same(&new["spec"], &old["spec"]) {
            new["metadata"]["generation"] = json!(current.meta.generation + 1);
        }
        let new = self.refined(kind, new);
        assert!(!matches!(self.replace(key, &new, None), Outcome::Rejected(_)));
    }

    /// Deletes an object: at once, or marked when a node or a finalizer holds it.
    pub(super) fn delete(&mut self, kind: Kind, name: &str) {
        let object = self.store.view().get(&kind.key("default", name)).unwrap().clone();
        self.remove(&object);
    }

    fn remove(&mut self, object: &Object) {
        let Some(object) = self.store.view().get(&object.key).cloned() else { return };
        let mut value = read::value(&object).unwrap();
        let on_node = value["spec"]["nodeName"].is_string();
        if on_node || !object.meta.finalizers.is_empty() {
            value["metadata"]["deletionTimestamp"] = json!(metadata::time(self.now));
            value["metadata"]["deletionGracePeriodSeconds"] = json!(if on_node { 30 } else { 0 });
            self.replace(object.key.clone(), &value, None);
        } else {
            self.end(&object.key);
        }
    }

    fn end(&mut self, key: &ObjectKey) {
        self.propose(Command::Delete { key: key.clone(), precondition: Precondition::default() });
    }

    /// A pod that was marked is gone.
    pub(super) fn gone(&mut self, kind: Kind, name: &str) {
        self.end(&kind.key("default", name));
    }

    pub(super) fn gone_in(&mut self, namespace: &str, kind: Kind, name: &str) {
        self.end(&kind.key(namespace, name));
    }

    fn carry_out(&mut self, actions: Vec<Action>, only_status: bool) -> Option<Failed> {
        for action in actions {
            if only_status && !action.is_status() {
                continue;
            }
            match action {
                Action::Create { kind, object, .. } => {
                    self.written.push(format!("create {}", kind.name()));
                    if let Err(failed) = self.create(kind, object) {
                        return Some(failed);
                    }
                }
                Action::Update { kind, subresource, object, .. } => {
                    self.written.push(format!("update {} {subresource}", kind.name()).trim_end().to_owned());
                    self.update(kind, subresource, object);
                }
                Action::Delete { kind, object, at_once, .. } => {
                    self.written.push(format!("delete {}", kind.name()));
                    if at_once { self.end(&object.key) } else { self.remove(&object) }
                }
            }
        }
        None
    }

    /// Decides and acts until nothing is due at this time.
    pub(super) fn settle(&mut self) {
        for _ in 0..5_000 {
            if self.step().is_none() {
                return;
            }
        }
        panic!("the controllers never come to rest: {:?}", &self.written[self.written.len() - 20..]);
    }

    /// Decides about one subject and acts; with how many writes, or nothing when none is due.
    pub(super) fn step(&mut self) -> Option<usize> {
        let (view, table) = (self.store.view(), self.registry.table());
        self.agenda.follow(&view, self.now);
        let subject = self.take()?;
        let (index, now) = (&self.agenda.index, self.now);
        let (ca, issuer) = ("the CA", &*ISSUER);
        let facts = Facts { view: &view, table: &table, ca, issuer, index, now, failed: None };
        let decision = decide(&facts, &subject);
        let writes = decision.actions.len();
        let failed = self.carry_out(decision.actions, false);
        if let Some(failed) = &failed {
            let view = self.store.view();
            self.agenda.follow(&view, self.now);
            let index = &self.agenda.index;
            let failed = Some(failed);
            let facts = Facts { view: &view, table: &table, ca, issuer, index, now, failed };
            let actions = decide(&facts, &subject).actions;
            self.carry_out(actions, true);
        }
        self.agenda.done(subject, decision.again, failed.is_some(), self.now);
        Some(writes)
    }

    /// Lets time pass and settles.
    pub(super) fn pass(&mut self, seconds: i64) {
        let end = self.now + SignedDuration::from_secs(seconds);
        while let Some(wait) = self.agenda.wait(self.now) {
            let next = self.now + SignedDuration::try_from(wait).unwrap();
            if next > end {
                break;
            }
            self.now = next;
            self.settle();
        }
        self.now = end;
        self.settle();
    }

    /// How long until something is due by time alone, in seconds.
    pub(super) fn waits(&self) -> Option<u64> {
        self.agenda.wait(self.now).map(|wait| wait.as_secs())
    }

    /// Whether anything is due now.
    pub(super) fn is_due(&mut self) -> bool {
        self.agenda.follow(&self.store.view(), self.now);
        self.take().is_some()
    }

    /// The next subject that is due and looked after in this world.
    fn take(&mut self) -> Option<Subject> {
        let of_nodes = |duty: Duty| matches!(duty, Duty::Node | Duty::TaintEviction | Duty::PodGarbage);
        loop {
            let subject = self.agenda.take(self.now)?;
            if self.has_nodes || !of_nodes(subject.duty) {
                return Some(subject);
            }
            self.agenda.done(subject, None, false, self.now);
        }
    }

    pub(super) fn find(&self, kind: Kind, name: &str) -> Option<Value> {
        self.store.view().get(&kind.key("default", name)).map(|object| read::value(object).unwrap())
    }

    pub(super) fn get(&self, kind: Kind, name: &str) -> Value {
        self.find(kind, name).unwrap_or_else(|| panic!("no {} {name}", kind.name()))
    }

    pub(super) fn list(&self, kind: Kind) -> Vec<Value> {
        self.store.view().list(kind.resource(), None).map(|object| read::value(object).unwrap()).collect()
    }

    pub(super) fn names(&self, kind: Kind) -> Vec<String> {
        self.list(kind).iter().map(|object| metadata::text(object, "name").to_owned()).collect()
    }

    /// The pods become ready, on a node.
    pub(super) fn run_pods(&mut self) {
        for name in self.names(Kind::Pod) {
            self.run_pod(&name);
        }
    }

    pub(super) fn run_pod(&mut self, name: &str) {
        let now = metadata::time(self.now);
        let pod = self.get(Kind::Pod, name);
        let waits = pod["status"]["phase"] == "Pending";
        if !waits || pod["metadata"]["deletionTimestamp"].is_string() {
            return;
        }
        self.edit(Kind::Pod, name, |pod| {
            if pod["spec"]["nodeName"].is_null() {
                let affinity = pod["spec"]["affinity"].as_object();
                let node = affinity.and_then(placement::pinned).unwrap_or("n1").to_owned();
                pod["spec"]["nodeName"] = json!(node);
            }
            pod["status"]["phase"] = json!("Running");
            pod["status"]["conditions"] =
                json!([{"type": "Ready", "status": "True", "lastTransitionTime": now}]);
        });
    }

    /// Nodes finish what was deleted and run what was created, and controllers act, until all is quiet.
    pub(super) fn live(&mut self) {
        for _ in 0..100 {
            self.settle();
            let before = self.store.view().revision();
            self.run_pods();
            for pod in self.list(Kind::Pod) {
                if pod["metadata"]["deletionTimestamp"].is_string() && metadata::finalizers(&pod).is_empty() {
                    self.gone(Kind::Pod, metadata::text(&pod, "name"));
                }
            }
            self.settle();
            if self.store.view().revision() == before {
                return;
            }
        }
        panic!("nodes and controllers never come to rest");
    }
}

/// A pod template with these labels.
pub(super) fn template(app: &str, image: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}
