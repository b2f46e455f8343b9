//! Who selects what by labels, and what nobody controls: kept beside the store so that a changed pod is led to the few
//! objects that care about it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use litek8s_machinery::selector::{LabelSelector, Operator, Requirement};
use litek8s_store::{Event, EventKind, Object, ObjectKey};
use serde_json::Value;

use super::kind::Kind;
use super::nodes::{self, Nodes};
use super::pod_garbage::{self, Ended};
use super::read;
use super::related::{Related, Relation};
use super::subject::{Duty, Subject};

/// The names of a namespace's objects that nobody controls, by kind.
type Orphans = BTreeMap<(Kind, Arc<str>), BTreeSet<Arc<str>>>;
/// The selectors of a controller's objects in a namespace.
type Selectors = BTreeMap<(Duty, Arc<str>), BTreeMap<Arc<str>, LabelSelector>>;

/// The index.
#[derive(Debug, Default)]
pub(super) struct Index {
    selectors: Selectors,
    orphans: Orphans,
    related: Related,
    nodes: Nodes,
    ended: Ended,
}

impl Index {
    /// Follows a change.
    ///
    /// True when nodes may be tainted faster or slower from now on.
    pub(super) fn follow(&mut self, event: &Event, now: Timestamp) -> bool {
        match event.kind {
            EventKind::Deleted => self.forget(&event.object, now),
            EventKind::Added | EventKind::Modified => self.note(&event.object, now),
        }
    }

    /// An object as it is now; true when nodes may be tainted faster or slower from now on.
    pub(super) fn note(&mut self, object: &Object, now: Timestamp) -> bool {
        let Some(kind) = Kind::of_resource(&object.key.resource) else { return false };
        self.related.note(kind, object);
        if kind == Kind::Pod {
            self.note_pod(object, now);
        }
        if kind == Kind::Lease && *object.key.namespace == *nodes::LEASES {
            self.nodes.hear(object, now);
        }
        self.note_selector(kind, object);
        kind == Kind::Node && self.nodes.note(object, now)
    }

    fn note_pod(&mut self, object: &Object, now: Timestamp) {
        let line = pod_garbage::line(object);
        if pod_garbage::has_ended(object) {
            self.ended.insert(line);
        } else {
            self.ended.remove(&line);
        }
        if let Some(node) = self.related.of(Relation::PodOnNode, &object.key) {
            self.nodes.used(node, now);
        }
    }

    fn note_selector(&mut self, kind: Kind, object: &Object) {
        let selects = |duty: &Duty| !duty.adopts().is_empty() || duty.looks_at().is_some();
        for duty in Duty::ALL.into_iter().filter(|duty| duty.kind() == kind && selects(duty)) {
            let selector = read::value(object).map(|value| selector(kind, &value["spec"]["selector"]));
            let selectors = self.selectors.entry((duty, object.key.namespace.clone())).or_default();
            selectors.insert(object.key.name.clone(), selector.unwrap_or_else(LabelSelector::nothing));
        }
        if !Duty::ALL.into_iter().any(|duty| duty.adopts().contains(&kind)) {
            return;
        }
        if object.meta.controller().is_none() {
            let names = self.orphans.entry((kind, object.key.namespace.clone())).or_default();
            names.insert(object.key.name.clone());
        } else {
            self.forget_orphan(kind, object);
        }
    }

    fn forget(&mut self, object: &Object, now: Timestamp) -> bool {
        let Some(kind) = Kind::of_resource(&object.key.resource) else { return false };
        let name = &object.key.name;
        let node = self.related.of(Relation::PodOnNode, &object.key).cloned();
        self.related.forget(&object.key);
        self.ended.remove(&pod_garbage::line(object));
        if let Some(node) =
            node.filter(|node| self.related.to(Relation::PodOnNode, "", node).next().is_none())
        {
            self.nodes.unused(&node);
        }
        self.forget_selector(kind, object);
        let used = self.related.to(Relation::PodOnNode, "", name).next().is_some();
        kind == Kind::Node && self.nodes.forget(name, used, now)
    }

    fn forget_selector(&mut self, kind: Kind, object: &Object) {
        for duty in Duty::ALL.into_iter().filter(|duty| duty.kind() == kind) {
            let place = (duty, object.key.namespace.clone());
            if let Some(selectors) = self.selectors.get_mut(&place) {
                selectors.remove(&object.key.name);
                if selectors.is_empty() {
                    self.selectors.remove(&place);
                }
            }
        }
        self.forget_orphan(kind, object);
    }

    fn forget_orphan(&mut self, kind: Kind, object: &Object) {
        let place = (kind, object.key.namespace.clone());
        if let Some(names) = self.orphans.get_mut(&place) {
            names.remove(&object.key.name);
            if names.is_empty() {
                self.orphans.remove(&place);
            }
        }
    }

    /// What of a duty selects `object` for.
    pub(super) fn selecting(&self, duty: Duty, object: &Object, mut each: impl FnMut(Subject)) {
        let namespace = &object.key.namespace;
        for (name, selector) in self.selectors.get(&(duty, namespace.clone())).into_iter().flatten() {
            if selector.matches(&object.meta.labels) {
                each(Subject { duty, namespace: namespace.clone(), name: name.clone() });
            }
        }
    }

    /// The objects that point to the one of this name.
    pub(super) fn related(
        &self,
        relation: Relation,
        namespace: &str,
        name: &str,
    ) -> impl Iterator<Item = &ObjectKey> + use<'_> {
        self.related.to(relation, namespace, name)
    }

    /// All of a duty that select anything in a namespace.
    pub(super) fn of_namespace(&self, duty: Duty, namespace: &Arc<str>, due: &mut BTreeSet<Subject>) {
        for name in self.selectors.get(&(duty, namespace.clone())).into_iter().flatten().map(|(name, _)| name)
        {
            due.insert(Subject { duty, namespace: namespace.clone(), name: name.clone() });
        }
    }

    /// All of a duty that select anything.
    pub(super) fn of_all_namespaces(&self, duty: Duty, due: &mut BTreeSet<Subject>) {
        for ((_, namespace), names) in self.selectors.iter().filter(|((of, _), _)| *of == duty) {
            due.extend(names.keys().map(|name| Subject {
                duty,
                namespace: namespace.clone(),
                name: name.clone(),
            }));
        }
    }

    /// This server did not look for a while: whoever was silent meanwhile may have spoken.
    pub(super) fn listen_anew(&mut self, now: Timestamp) {
        self.nodes.listen_anew(now);
    }

    /// What is known of nodes.
    pub(super) fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// The node that a pod is on.
    pub(super) fn node_of(&self, pod: &ObjectKey) -> Option<&Arc<str>> {
        self.related.of(Relation::PodOnNode, pod)
    }

    /// The ended pods that are too many, the oldest first; no more than are deleted in a row.
    pub(super) fn surplus(&self) -> impl Iterator<Item = &ObjectKey> + use<'_> {
        let surplus = self.ended.len().saturating_sub(pod_garbage::MOST_ENDED);
        self.ended.iter().take(surplus.min(pod_garbage::IN_A_ROW)).map(|(_, key)| key)
    }

    /// The names of what nobody controls.
    pub(super) fn orphans(&self, kind: Kind, namespace: &str) -> impl Iterator<Item = &Arc<str>> + use<'_> {
        self.orphans.get(&(kind, Arc::from(namespace))).into_iter().flatten()
    }
}

/// The selector of an object: plain labels for the kinds of old, a LabelSelector for all others. One that cannot be read
/// selects nothing, and so does one that selects everything: no controller takes all pods of a namespace. A budget may.
pub(super) fn selector(kind: Kind, value: &Value) -> LabelSelector {
    let plainly = matches!(kind, Kind::ReplicationController | Kind::Service);
    let selector = if plainly { plain(value) } else { LabelSelector::from_json(value).ok() };
    let takes_all = kind == Kind::PodDisruptionBudget;
    selector.filter(|selector| takes_all || !selector.is_everything()).unwrap_or_else(LabelSelector::nothing)
}

fn plain(value: &Value) -> Option<LabelSelector> {
    let labels = value.as_object()?.iter();
    let requirements = labels.map(|(key, value)| {
        Requirement::new(key, Operator::Equals, vec![value.as_str().unwrap_or_default().to_owned()])
    });
    Some(LabelSelector::new(requirements.collect::<Result<_, _>>().ok()?))
}
