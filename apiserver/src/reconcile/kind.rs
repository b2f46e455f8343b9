//! The kinds that controllers read and write, by one name each; never an object.

use std::sync::{Arc, LazyLock};

use litek8s_store::{GroupResource, Object, ObjectKey, OwnerReference};
use serde_json::{Value, json};

/// A kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    Pod,
    ReplicationController,
    ReplicaSet,
    Deployment,
    Event,
    Service,
    Endpoints,
    EndpointSlice,
    Node,
    PodDisruptionBudget,
    StatefulSet,
    ControllerRevision,
    PersistentVolumeClaim,
    DaemonSet,
    Job,
    CronJob,
    ResourceQuota,
    Secret,
    ServiceAccount,
    Lease,
}

/// Group, version, plural name and kind, in the order of the enum.
const ROWS: [(Kind, &str, &str, &str, &str); 20] = [
    (Kind::Pod, "", "v1", "pods", "Pod"),
    (Kind::ReplicationController, "", "v1", "replicationcontrollers", "ReplicationController"),
    (Kind::ReplicaSet, "apps", "v1", "replicasets", "ReplicaSet"),
    (Kind::Deployment, "apps", "v1", "deployments", "Deployment"),
    (Kind::Event, "", "v1", "events", "Event"),
    (Kind::Service, "", "v1", "services", "Service"),
    (Kind::Endpoints, "", "v1", "endpoints", "Endpoints"),
    (Kind::EndpointSlice, "discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"),
    (Kind::Node, "", "v1", "nodes", "Node"),
    (Kind::PodDisruptionBudget, "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
    (Kind::StatefulSet, "apps", "v1", "statefulsets", "StatefulSet"),
    (Kind::ControllerRevision, "apps", "v1", "controllerrevisions", "ControllerRevision"),
    (Kind::PersistentVolumeClaim, "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
    (Kind::DaemonSet, "apps", "v1", "daemonsets", "DaemonSet"),
    (Kind::Job, "batch", "v1", "jobs", "Job"),
    (Kind::CronJob, "batch", "v1", "cronjobs", "CronJob"),
    (Kind::ResourceQuota, "", "v1", "resourcequotas", "ResourceQuota"),
    (Kind::Secret, "", "v1", "secrets", "Secret"),
    (Kind::ServiceAccount, "", "v1", "serviceaccounts", "ServiceAccount"),
    (Kind::Lease, "coordination.k8s.io", "v1", "leases", "Lease"),
];

static RESOURCES: LazyLock<Vec<GroupResource>> =
    LazyLock::new(|| ROWS.iter().map(|(_, group, _, plural, _)| GroupResource::new(group, plural)).collect());

impl Kind {
    fn row(self) -> &'static (Kind, &'static str, &'static str, &'static str, &'static str) {
        &ROWS[self as usize]
    }

    /// Group, version and plural name.
    pub(super) fn path(self) -> (&'static str, &'static str, &'static str) {
        let (_, group, version, plural, _) = self.row();
        (group, version, plural)
    }

    /// The resource in the store.
    pub(super) fn resource(self) -> &'static GroupResource {
        &RESOURCES[self as usize]
    }

    /// The key of an object.
    pub(super) fn key(self, namespace: &str, name: &str) -> ObjectKey {
        ObjectKey::new(self.resource().clone(), namespace, name)
    }

    /// `apiVersion` of its objects.
    pub(super) fn api_version(self) -> String {
        let (group, version, _) = self.path();
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
    }

    /// The kind's name.
    pub(super) fn name(self) -> &'static str {
        self.row().4
    }

    /// The kind of a resource.
    pub(super) fn of_resource(resource: &GroupResource) -> Option<Self> {
        let named =
            |row: &&(Kind, &str, &str, &str, &str)| *resource.resource == *row.3 && *resource.group == *row.1;
        ROWS.iter().find(named).map(|row| row.0)
    }

    /// The kind an owner reference names, in any version.
    pub(super) fn of_owner(owner: &OwnerReference) -> Option<Self> {
        let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
        ROWS.iter().find(|row| row.4 == owner.kind && row.1 == group).map(|row| row.0)
    }

    /// A reference by which `owner`, which is of this kind, controls another object.
    pub(super) fn controls(self, owner: &Arc<Object>) -> Value {
        json!({
            "apiVersion": self.api_version(), "kind": self.name(), "name": &*owner.key.name,
            "uid": owner.meta.uid, "controller": true, "blockOwnerDeletion": true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_of_the_kinds_and_served() {
        let table = crate::registry::Registry::new().table();
        for (at, (kind, group, version, plural, name)) in ROWS.iter().enumerate() {
            assert_eq!(*kind as usize, at);
            let served = table.get(group, version, plural).unwrap();
            assert_eq!(*served.resource.kind, **name);
        }
    }
}
