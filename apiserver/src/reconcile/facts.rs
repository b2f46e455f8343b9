//! What decisions are made from: one view, the time, and why the last write was refused.

use jiff::Timestamp;
use litek8s_store::View;

use super::action::{Decision, Failed};
use super::index::Index;
use super::subject::{Duty, Subject};
use super::{
    cron_job, daemon_set, deployment, disruption, endpoint_slice, endpoints, job, mirroring, node,
    pod_garbage, replica_set, resource_quota, secret, stateful_set, taint_eviction,
};
use crate::registry::Table;
use crate::service_account::Issuer;

/// What a decision looks at.
pub(super) struct Facts<'a> {
    /// The state.
    pub(super) view: &'a View,
    /// What is served.
    pub(super) table: &'a Table,
    /// The cluster's CA, PEM.
    pub(super) ca: &'a str,
    /// Who signs tokens.
    pub(super) issuer: &'a Issuer,
    /// What is selected and what is nobody's, at the same revision.
    pub(super) index: &'a Index,
    /// The time.
    pub(super) now: Timestamp,
    /// A write of this round was refused: only the status is to be brought up to date.
    pub(super) failed: Option<&'a Failed>,
}

/// What is to be done about a subject now. Doing it changes the state so that the same is not decided again.
pub(super) fn decide(facts: &Facts<'_>, subject: &Subject) -> Decision {
    let object = facts.view.get(&subject.key());
    match (subject.duty, object) {
        (Duty::Endpoints, _) => endpoints::decide(facts, subject, object),
        (Duty::EndpointSliceMirroring, _) => mirroring::decide(facts, subject, object),
        (Duty::ReplicationController | Duty::ReplicaSet, Some(object)) => {
            replica_set::decide(facts, subject.duty.kind(), object)
        }
        (Duty::Deployment, Some(object)) => deployment::decide(facts, object),
        (Duty::EndpointSlice, Some(object)) => endpoint_slice::decide(facts, object),
        (Duty::Node, Some(object)) => node::decide(facts, object),
        (Duty::TaintEviction, Some(object)) => taint_eviction::decide(facts, object),
        (Duty::PodGarbage, Some(object)) => pod_garbage::decide(facts, object),
        (Duty::ResourceQuota, Some(object)) => resource_quota::decide(facts, object),
        (Duty::Secret, Some(object)) => secret::decide(facts, object),
        (Duty::Disruption, Some(object)) => disruption::decide(facts, object),
        (Duty::StatefulSet, Some(object)) => stateful_set::decide(facts, object),
        (Duty::DaemonSet, Some(object)) => daemon_set::decide(facts, object),
        (Duty::Job, Some(object)) => job::decide(facts, object),
        (Duty::JobPod, Some(object)) => job::let_go(facts, object),
        (Duty::CronJob, Some(object)) => cron_job::decide(facts, object),
        (_, None) => Decision::nothing(),
    }
}
