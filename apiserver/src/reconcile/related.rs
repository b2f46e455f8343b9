//! Which objects point to which: EndpointSlices to their Service by a label, pods to their node. Kept beside the store so
//! that neither is searched for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use litek8s_store::{Object, ObjectKey};
use serde::Deserialize;

use super::kind::Kind;
use super::service;

/// How one object points to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Relation {
    /// An EndpointSlice to the Service that its label names.
    SliceOfService,
    /// A pod to the node that it is on.
    PodOnNode,
}

/// What is pointed to: a relation, a namespace and a name.
type Target = (Relation, Arc<str>, Arc<str>);

/// The pointers, from both ends.
#[derive(Debug, Default)]
pub(super) struct Related {
    from: BTreeMap<ObjectKey, Target>,
    to: BTreeMap<Target, BTreeSet<ObjectKey>>,
}

impl Related {
    /// An object as it is now.
    pub(super) fn note(&mut self, kind: Kind, object: &Object) {
        let target = target(kind, object);
        if self.from.get(&object.key) == target.as_ref() {
            return;
        }
        self.forget(&object.key);
        if let Some(target) = target {
            self.from.insert(object.key.clone(), target.clone());
            self.to.entry(target).or_default().insert(object.key.clone());
        }
    }

    /// An object that is gone.
    pub(super) fn forget(&mut self, key: &ObjectKey) {
        let Some(target) = self.from.remove(key) else { return };
        if let Some(keys) = self.to.get_mut(&target) {
            keys.remove(key);
            if keys.is_empty() {
                self.to.remove(&target);
            }
        }
    }

    /// What an object points to by this relation.
    pub(super) fn of(&self, relation: Relation, key: &ObjectKey) -> Option<&Arc<str>> {
        self.from.get(key).filter(|target| target.0 == relation).map(|target| &target.2)
    }

    /// The objects that point to the one of this name.
    pub(super) fn to(
        &self,
        relation: Relation,
        namespace: &str,
        name: &str,
    ) -> impl Iterator<Item = &ObjectKey> + use<'_> {
        self.to.get(&(relation, Arc::from(namespace), Arc::from(name))).into_iter().flatten()
    }
}

fn target(kind: Kind, object: &Object) -> Option<Target> {
    if kind == Kind::EndpointSlice {
        let service = object.meta.labels.get(service::NAME_LABEL)?;
        return Some((Relation::SliceOfService, object.key.namespace.clone(), Arc::from(service.as_str())));
    }
    if kind != Kind::Pod {
        return None;
    }
    let node = serde_json::from_slice::<Placed>(&object.json).ok()?.spec.node_name?;
    (!node.is_empty()).then(|| (Relation::PodOnNode, Arc::from(""), Arc::from(node)))
}

#[derive(Deserialize)]
struct Placed {
    spec: Place,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Place {
    node_name: Option<String>,
}
