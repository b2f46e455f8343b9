//! Which controller there may be something to do for, and about what; found from objects and their changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use litek8s_store::{Event, EventKind, Object, ObjectKey, View};
use serde_json::Value;

use super::index::Index;
use super::job;
use super::kind::Kind;
use super::placement;
use super::related::Relation;
use super::{condition, endpoints, read, resource_quota, secret, service};

/// What one controller looks after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Duty {
    ReplicationController,
    ReplicaSet,
    Deployment,
    EndpointSlice,
    Endpoints,
    EndpointSliceMirroring,
    Disruption,
    StatefulSet,
    DaemonSet,
    Job,
    /// Pods that wait to be counted by a Job.
    JobPod,
    CronJob,
    ResourceQuota,
    Secret,
    Node,
    TaintEviction,
    PodGarbage,
}

impl Duty {
    /// All of them.
    pub(super) const ALL: [Self; 17] = [
        Self::ReplicationController,
        Self::ReplicaSet,
        Self::Deployment,
        Self::EndpointSlice,
        Self::Endpoints,
        Self::EndpointSliceMirroring,
        Self::Disruption,
        Self::StatefulSet,
        Self::DaemonSet,
        Self::Job,
        Self::JobPod,
        Self::CronJob,
        Self::ResourceQuota,
        Self::Secret,
        Self::Node,
        Self::TaintEviction,
        Self::PodGarbage,
    ];

    /// The kind of object that it looks after.
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::ReplicationController => Kind::ReplicationController,
            Self::ReplicaSet => Kind::ReplicaSet,
            Self::Deployment => Kind::Deployment,
            Self::EndpointSlice | Self::Endpoints => Kind::Service,
            Self::EndpointSliceMirroring => Kind::Endpoints,
            Self::Disruption => Kind::PodDisruptionBudget,
            Self::StatefulSet => Kind::StatefulSet,
            Self::DaemonSet => Kind::DaemonSet,
            Self::Job => Kind::Job,
            Self::JobPod => Kind::Pod,
            Self::CronJob => Kind::CronJob,
            Self::ResourceQuota => Kind::ResourceQuota,
            Self::Secret => Kind::Secret,
            Self::Node => Kind::Node,
            Self::TaintEviction | Self::PodGarbage => Kind::Pod,
        }
    }

    /// The name of its ServiceAccount in kube-system, as kube-controller-manager names it.
    pub(super) fn account(self) -> &'static str {
        match self {
            Self::ReplicationController => "replication-controller",
            Self::ReplicaSet => "replicaset-controller",
            Self::Deployment => "deployment-controller",
            Self::EndpointSlice => "endpointslice-controller",
            Self::Endpoints => "endpoint-controller",
            Self::EndpointSliceMirroring => "endpointslicemirroring-controller",
            Self::Disruption => "disruption-controller",
            Self::StatefulSet => "statefulset-controller",
            Self::DaemonSet => "daemon-set-controller",
            Self::Job | Self::JobPod => "job-controller",
            Self::CronJob => "cronjob-controller",
            Self::ResourceQuota => "resourcequota-controller",
            Self::Secret => "tokens-controller",
            Self::Node | Self::TaintEviction => "node-controller",
            Self::PodGarbage => "pod-garbage-collector",
        }
    }

    /// The kinds it selects by labels and adopts when nobody controls them.
    pub(super) fn adopts(self) -> &'static [Kind] {
        match self {
            Self::ReplicationController | Self::ReplicaSet | Self::Job => &[Kind::Pod],
            Self::Deployment => &[Kind::ReplicaSet],
            Self::StatefulSet | Self::DaemonSet => &[Kind::Pod, Kind::ControllerRevision],
            Self::EndpointSlice
            | Self::Endpoints
            | Self::EndpointSliceMirroring
            | Self::Disruption
            | Self::JobPod
            | Self::CronJob
            | Self::ResourceQuota
            | Self::Secret
            | Self::Node
            | Self::TaintEviction
            | Self::PodGarbage => &[],
        }
    }

    /// The kind it selects by labels whoever controls it.
    pub(super) fn looks_at(self) -> Option<Kind> {
        matches!(self, Self::EndpointSlice | Self::Endpoints | Self::Disruption).then_some(Kind::Pod)
    }

    /// Whether there may be something to do about an object of its kind.
    fn concerns(self, object: &Object) -> bool {
        self != Self::JobPod || job::is_tracked(object)
    }
}

/// One thing to decide about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Subject {
    /// Whose it is to decide.
    pub(super) duty: Duty,
    /// The namespace, empty for objects of the cluster.
    pub(super) namespace: Arc<str>,
    /// The name.
    pub(super) name: Arc<str>,
}

impl Subject {
    /// What is decided about the object of this key.
    pub(super) fn of(duty: Duty, key: &ObjectKey) -> Self {
        Self { duty, namespace: key.namespace.clone(), name: key.name.clone() }
    }

    /// The object's key.
    pub(super) fn key(&self) -> ObjectKey {
        ObjectKey {
            resource: self.duty.kind().resource().clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }
}

/// What an object that is there makes due.
pub(super) fn of_object(object: &Object, due: &mut BTreeSet<Subject>) {
    let Some(kind) = Kind::of_resource(&object.key.resource) else { return };
    for duty in Duty::ALL.into_iter().filter(|duty| duty.kind() == kind && duty.concerns(object)) {
        due.insert(Subject::of(duty, &object.key));
    }
    // What is left of a Service that went when nobody looked.
    if kind == Kind::Endpoints && endpoints::is_ours(object) {
        due.insert(Subject::of(Duty::Endpoints, &object.key));
    }
}

/// What a change makes due; `index` has followed it already.
pub(super) fn of_event(view: &View, index: &Index, event: &Event, due: &mut BTreeSet<Subject>) {
    resource_quota::of_event(view, event, due);
    let Some(kind) = Kind::of_resource(&event.object.key.resource) else { return };
    of_object(&event.object, due);
    let moved = kind == Kind::Pod && service::is_moved(event);
    let concerned = |duty: Duty| duty.looks_at() == Some(kind) && (duty.kind() != Kind::Service || moved);
    let states = event.previous.iter().chain([&event.object]);
    for object in states {
        of_owner(view, object, due);
        for duty in Duty::ALL {
            let adoptable = duty.adopts().contains(&kind) && object.meta.controller().is_none();
            if adoptable || concerned(duty) {
                index.selecting(duty, object, |key| {
                    due.insert(key);
                });
            }
        }
    }
    let key = &event.object.key;
    if kind == Kind::Service {
        due.insert(Subject::of(Duty::EndpointSliceMirroring, key));
    }
    if kind == Kind::Endpoints && view.get(&Kind::Service.key(&key.namespace, &key.name)).is_some() {
        due.insert(Subject::of(Duty::Endpoints, key));
    }
    if kind == Kind::Node {
        of_node(view, index, event, due);
        of_pods(index, event, due);
        let before = event.previous.as_ref();
        let same = before.is_some_and(|before| !placement::differs(before, &event.object));
        if !same || event.kind == EventKind::Deleted {
            index.of_all_namespaces(Duty::DaemonSet, due);
        }
    }
    if kind == Kind::Pod {
        due.extend(index.surplus().map(|pod| Subject::of(Duty::PodGarbage, pod)));
    }
    if kind == Kind::ServiceAccount && event.kind != EventKind::Modified {
        secret::of_account(view, &key.namespace, due);
    }
    // A StatefulSet waits for claims that come and go; nothing in them says whose they are.
    if kind == Kind::PersistentVolumeClaim {
        index.of_namespace(Duty::StatefulSet, &key.namespace, due);
    }
    // A Deployment waits for the last pods of what it scaled down.
    if kind == Kind::Pod && event.kind == EventKind::Deleted {
        let set =
            event.object.meta.controller().filter(|owner| Kind::of_owner(owner) == Some(Kind::ReplicaSet));
        let set =
            set.and_then(|owner| view.get(&Kind::ReplicaSet.key(&event.object.key.namespace, &owner.name)));
        if let Some(set) = set {
            of_owner(view, set, due);
        }
    }
}

/// The controller of an object, if it is one of ours.
fn of_owner(view: &View, object: &Object, due: &mut BTreeSet<Subject>) {
    let Some(owner) = object.meta.controller() else { return };
    let Some(kind) = Kind::of_owner(owner) else { return };
    for duty in Duty::ALL.into_iter().filter(|duty| duty.kind() == kind) {
        let key = kind.key(&object.key.namespace, &owner.name);
        if view.get(&key).is_some_and(|found| found.meta.uid == owner.uid && duty.concerns(found)) {
            due.insert(Subject::of(duty, &key));
        }
    }
}

/// Endpoints say in which zone their node is, and are none before it exists.
fn of_node(view: &View, index: &Index, event: &Event, due: &mut BTreeSet<Subject>) {
    let zone = |object: &Object| object.meta.labels.get(service::ZONE).cloned();
    if event.previous.as_ref().is_some_and(|before| zone(before) == zone(&event.object))
        && event.kind == EventKind::Modified
    {
        return;
    }
    for pod in index.related(Relation::PodOnNode, "", &event.object.key.name) {
        let Some(pod) = view.get(pod) else { continue };
        for duty in [Duty::EndpointSlice, Duty::Endpoints] {
            index.selecting(duty, pod, |subject| {
                due.insert(subject);
            });
        }
    }
}

/// Pods care whether their node is there, whether it is ready and what it drives away.
fn of_pods(index: &Index, event: &Event, due: &mut BTreeSet<Subject>) {
    let same = |before: &Object| {
        let (before, after) = (read::value(before), read::value(&event.object));
        let says = |node: &Option<Value>| {
            let node = node.as_ref()?;
            let ready = condition::find(&node["status"], "Ready").map(|ready| ready["status"].clone());
            Some((node["spec"]["taints"].clone(), ready))
        };
        says(&before) == says(&after)
    };
    if event.kind == EventKind::Modified && event.previous.as_ref().is_some_and(|before| same(before)) {
        return;
    }
    for pod in index.related(Relation::PodOnNode, "", &event.object.key.name) {
        due.insert(Subject::of(Duty::TaintEviction, pod));
        due.insert(Subject::of(Duty::PodGarbage, pod));
    }
}

/// Everything there is to decide about nodes.
pub(super) fn of_all_nodes(index: &Index, due: &mut BTreeSet<Subject>) {
    due.extend(index.nodes().names().map(|name| Subject::of(Duty::Node, &Kind::Node.key("", name))));
}
