//! Which controller there may be something to do for, and about what; found from objects and their changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use litek8s_store::{Event, EventKind, Object, ObjectKey, View};

use super::index::Index;
use super::kind::Kind;

/// What one controller looks after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Duty {
    ReplicationController,
    ReplicaSet,
    Deployment,
}

impl Duty {
    /// All of them.
    pub(super) const ALL: [Self; 3] = [Self::ReplicationController, Self::ReplicaSet, Self::Deployment];

    /// The kind of object that it looks after.
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::ReplicationController => Kind::ReplicationController,
            Self::ReplicaSet => Kind::ReplicaSet,
            Self::Deployment => Kind::Deployment,
        }
    }

    /// The name of its ServiceAccount in kube-system, as kube-controller-manager names it.
    pub(super) fn account(self) -> &'static str {
        match self {
            Self::ReplicationController => "replication-controller",
            Self::ReplicaSet => "replicaset-controller",
            Self::Deployment => "deployment-controller",
        }
    }

    /// The kind it selects by labels and adopts when nobody controls it.
    pub(super) fn adopts(self) -> Option<Kind> {
        match self {
            Self::ReplicationController | Self::ReplicaSet => Some(Kind::Pod),
            Self::Deployment => Some(Kind::ReplicaSet),
        }
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
    for duty in Duty::ALL.into_iter().filter(|duty| duty.kind() == kind) {
        due.insert(Subject::of(duty, &object.key));
    }
}

/// What a change makes due; `index` has followed it already.
pub(super) fn of_event(view: &View, index: &Index, event: &Event, due: &mut BTreeSet<Subject>) {
    let Some(kind) = Kind::of_resource(&event.object.key.resource) else { return };
    of_object(&event.object, due);
    let states = event.previous.iter().chain([&event.object]);
    for object in states {
        of_owner(view, object, due);
        for duty in Duty::ALL {
            if duty.adopts() == Some(kind) && object.meta.controller().is_none() {
                index.selecting(duty, object, |key| {
                    due.insert(key);
                });
            }
        }
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
        if view.get(&key).is_some_and(|found| found.meta.uid == owner.uid) {
            due.insert(Subject::of(duty, &key));
        }
    }
}
