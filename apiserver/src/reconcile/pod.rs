//! What controllers look at in a pod; the rest of it is not even parsed.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use litek8s_store::Object;
use serde::Deserialize;

/// A pod and what was read of it.
#[derive(Debug, Clone)]
pub(super) struct Pod<'a> {
    /// The object.
    pub(super) object: &'a Arc<Object>,
    /// What the spec says.
    pub(super) spec: Spec,
    /// What the status says.
    pub(super) status: Status,
    /// `controller.kubernetes.io/pod-deletion-cost`.
    pub(super) deletion_cost: i64,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct Wire {
    metadata: WireMeta,
    spec: Spec,
    status: Status,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct WireMeta {
    annotations: Option<BTreeMap<String, String>>,
}

/// The parts of a pod's spec that controllers look at.
#[derive(Debug, Clone, Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Spec {
    /// The node it is on, empty before it is on one.
    pub(super) node_name: String,
}

/// The parts of a pod's status that controllers look at.
#[derive(Debug, Clone, Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Status {
    /// `Pending`, `Running`, `Succeeded`, `Failed`, `Unknown`.
    pub(super) phase: String,
    /// The conditions.
    pub(super) conditions: Option<Vec<PodCondition>>,
    /// The containers.
    pub(super) container_statuses: Option<Vec<Container>>,
}

/// One condition.
#[derive(Debug, Clone, Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PodCondition {
    #[serde(rename = "type")]
    ty: String,
    status: String,
    last_transition_time: Option<String>,
}

/// One container.
#[derive(Debug, Clone, Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Container {
    restart_count: i64,
}

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

impl<'a> Pod<'a> {
    /// Reads a pod.
    pub(super) fn read(object: &'a Arc<Object>) -> Self {
        let wire: Wire = serde_json::from_slice(&object.json).unwrap_or_default();
        let annotations = wire.metadata.annotations.unwrap_or_default();
        let deletion_cost = annotations.get(DELETION_COST).and_then(|cost| cost.parse().ok()).unwrap_or(0);
        Self { object, spec: wire.spec, status: wire.status, deletion_cost }
    }

    /// Whether it has ended, one way or the other.
    pub(super) fn is_finished(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Whether it counts as one of those wanted.
    pub(super) fn is_active(&self) -> bool {
        !self.is_finished() && !self.object.meta.is_terminating()
    }

    fn ready(&self) -> Option<&PodCondition> {
        let conditions = self.status.conditions.as_deref().unwrap_or_default();
        conditions.iter().find(|condition| condition.ty == "Ready" && condition.status == "True")
    }

    /// Whether it is ready.
    pub(super) fn is_ready(&self) -> bool {
        self.ready().is_some()
    }

    /// Since when it is ready.
    pub(super) fn ready_since(&self) -> Option<Timestamp> {
        self.ready()?.last_transition_time.as_ref()?.parse().ok()
    }

    /// From when on it is available: ready for `seconds`. `None` while it is not ready.
    pub(super) fn available_from(&self, seconds: i64) -> Option<Timestamp> {
        self.ready()?;
        if seconds <= 0 {
            return Some(Timestamp::MIN);
        }
        Some(self.ready_since()? + SignedDuration::from_secs(seconds))
    }

    /// How often its containers were started again: the most of any.
    pub(super) fn restarts(&self) -> i64 {
        let containers = self.status.container_statuses.as_deref().unwrap_or_default();
        containers.iter().map(|container| container.restart_count).max().unwrap_or(0)
    }
}
