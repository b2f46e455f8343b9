//! What there may be something to do about, found from objects and their changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use litek8s_store::{Event, EventKind, GroupResource, Object, ObjectKey, View};

use super::garbage::{owner_key, waits_for_collector};
use super::{address, service_cidr};
use crate::registry::Table;

/// One thing to decide about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    /// An object that has owners, or waits for the garbage collector.
    Object(ObjectKey),
    /// A namespace.
    Namespace(Arc<str>),
    /// A CustomResourceDefinition.
    Definition(Arc<str>),
    /// Objects of a resource whose definition is gone.
    Leftovers(GroupResource),
    /// A cluster address.
    Address(Arc<str>),
    /// A range of cluster addresses that ends.
    ServiceCidr(Arc<str>),
    /// An Event whose time is over.
    Ended(ObjectKey),
}

pub(super) fn is_namespace(key: &ObjectKey) -> bool {
    key.resource.group.is_empty() && *key.resource.resource == *"namespaces"
}

pub(super) fn is_definition(key: &ObjectKey) -> bool {
    *key.resource.group == *"apiextensions.k8s.io" && *key.resource.resource == *"customresourcedefinitions"
}

pub(super) fn namespace_key(name: &str) -> ObjectKey {
    ObjectKey::new(GroupResource::new("", "namespaces"), "", name)
}

/// The namespaces that end.
pub(super) fn terminating(view: &View) -> BTreeSet<Subject> {
    let all = view.list(&GroupResource::new("", "namespaces"), None);
    let ending = all.filter(|namespace| namespace.meta.is_terminating());
    ending.map(|namespace| Subject::Namespace(namespace.key.name.clone())).collect()
}

/// What an object that is there makes due.
pub(super) fn of_object(object: &Object, due: &mut BTreeSet<Subject>) {
    if !object.meta.owners.is_empty() || waits_for_collector(object) {
        due.insert(Subject::Object(object.key.clone()));
    }
    if is_namespace(&object.key) {
        due.insert(Subject::Namespace(object.key.name.clone()));
    }
    if is_definition(&object.key) {
        due.insert(Subject::Definition(object.key.name.clone()));
    }
    due.extend(address::of_object(object).map(Subject::Address));
    due.extend(service_cidr::of_object(object).map(Subject::ServiceCidr));
}

/// What a change makes due.
pub(super) fn of_event(view: &View, table: &Table, event: &Event, due: &mut BTreeSet<Subject>) {
    let object = &event.object;
    if event.kind != EventKind::Deleted {
        of_object(object, due);
    }
    let before = event.previous.iter().map(|previous| &**previous).chain([&**object]);
    due.extend(before.flat_map(address::of_object).map(Subject::Address));
    due.extend(service_cidr::of_event(view, event).map(Subject::ServiceCidr));
    of_home(view, event, due);
    // Objects that name this one as an owner: it is gone, or it waits for them.
    if event.kind == EventKind::Deleted || waits_for_collector(object) {
        due.extend(view.dependents(&object.meta.uid).cloned().map(Subject::Object));
    }
    // Owners that wait for this one.
    let before = event.previous.as_ref().map(|p| p.meta.owners.as_slice()).unwrap_or_default();
    for owner in object.meta.owners.iter().chain(before) {
        if let Some(key) = owner_key(table, &object.key, owner)
            && view.get(&key).is_some_and(|owner| waits_for_collector(owner))
        {
            due.insert(Subject::Object(key));
        }
    }
}

/// The namespace or definition of a changed object.
fn of_home(view: &View, event: &Event, due: &mut BTreeSet<Subject>) {
    let key = &event.object.key;
    let gone = event.kind == EventKind::Deleted;
    if gone && is_namespace(key) {
        due.insert(Subject::Namespace(key.name.clone()));
    }
    if gone
        && is_definition(key)
        && let Some((plural, group)) = key.name.split_once('.')
    {
        due.insert(Subject::Leftovers(GroupResource::new(group, plural)));
        // Its names may be what another one waits for.
        let others = view.list(&key.resource, None).map(|other| other.key.name.clone());
        due.extend(others.map(Subject::Definition));
    }
    if !key.namespace.is_empty() {
        let home = view.get(&namespace_key(&key.namespace));
        let default = key.resource.group.is_empty() && matches!(&*key.name, "default" | "kube-root-ca.crt");
        if default || home.is_none_or(|namespace| namespace.meta.is_terminating()) {
            due.insert(Subject::Namespace(key.namespace.clone()));
        }
    }
    if !key.resource.group.is_empty() {
        let name = format!("{}.{}", key.resource.resource, key.resource.group);
        let resource = GroupResource::new("apiextensions.k8s.io", "customresourcedefinitions");
        let definition = view.get(&ObjectKey::new(resource, "", &name));
        if definition.is_some_and(|definition| definition.meta.is_terminating()) {
            due.insert(Subject::Definition(Arc::from(name)));
        }
    }
}
