//! What controllers look at in a pod; the rest of it is not even parsed.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use litek8s_store::Object;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::time::seconds_after;

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
    /// The annotations.
    pub(super) annotations: BTreeMap<String, String>,
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
    /// Where it may be.
    pub(super) affinity: Option<Map<String, Value>>,
}

/// The parts of a pod's status that controllers look at.
#[derive(Debug, Clone, Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Status {
    /// `Pending`, `Running`, `Succeeded`, `Failed`, `Unknown`.
    pub(super) phase: String,
    /// The conditions.
    pub(super) conditions: Option<Vec<PodCondition>>,
    container_statuses: Option<Vec<Container>>,
    init_container_statuses: Option<Vec<Container>>,
}

/// One condition.
#[derive(Debug, Clone, Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PodCondition {
    /// The type.
    #[serde(rename = "type")]
    pub(super) ty: String,
    /// `True`, `False` or `Unknown`.
    pub(super) status: String,
    last_transition_time: Option<String>,
}

/// One container.
#[derive(Debug, Clone, Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Container {
    /// The name.
    pub(super) name: String,
    /// How often it was started again.
    pub(super) restart_count: i64,
    state: State,
}

#[derive(Debug, Clone, Deserialize, Default)]
#[serde(default)]
struct State {
    terminated: Option<Terminated>,
}

#[derive(Debug, Clone, Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Terminated {
    exit_code: i64,
    finished_at: Option<String>,
}

impl Container {
    /// With what it ended, if it has.
    pub(super) fn exit_code(&self) -> Option<i64> {
        self.state.terminated.as_ref().map(|end| end.exit_code)
    }

    fn finished_at(&self) -> Option<Timestamp> {
        self.state.terminated.as_ref()?.finished_at.as_ref()?.parse().ok()
    }
}

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

impl<'a> Pod<'a> {
    /// Reads a pod.
    pub(super) fn read(object: &'a Arc<Object>) -> Self {
        let wire: Wire = serde_json::from_slice(&object.json).unwrap_or_default();
        let annotations = wire.metadata.annotations.unwrap_or_default();
        let deletion_cost = annotations.get(DELETION_COST).and_then(|cost| cost.parse().ok()).unwrap_or(0);
        Self { object, spec: wire.spec, status: wire.status, deletion_cost, annotations }
    }

    /// Whether it has ended, one way or the other.
    pub(super) fn is_finished(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Whether it counts as one of those wanted.
    pub(super) fn is_active(&self) -> bool {
        !self.is_finished() && !self.object.meta.is_terminating()
    }

    fn readiness(&self) -> Option<&PodCondition> {
        self.status.conditions.iter().flatten().find(|condition| condition.ty == "Ready")
    }

    fn ready(&self) -> Option<&PodCondition> {
        self.readiness().filter(|condition| condition.status == "True")
    }

    /// The containers, as its status has them.
    pub(super) fn containers(&self) -> impl Iterator<Item = &Container> {
        self.status.container_statuses.iter().flatten()
    }

    /// The init containers, as its status has them.
    pub(super) fn init_containers(&self) -> impl Iterator<Item = &Container> {
        self.status.init_container_statuses.iter().flatten()
    }

    /// When it was created.
    pub(super) fn created(&self) -> Option<Timestamp> {
        self.object.meta.creation_timestamp.as_deref()?.parse().ok()
    }

    /// When it ended: as its containers say, or when it stopped being ready, or when it was deleted.
    pub(super) fn finished_at(&self) -> Option<Timestamp> {
        let meta = &self.object.meta;
        let ends: Option<Vec<Timestamp>> = self.containers().map(Container::finished_at).collect();
        let stopped = || {
            let unready = self.readiness().filter(|condition| condition.status == "False")?;
            unready.last_transition_time.as_ref()?.parse().ok()
        };
        let deleted = || {
            let end: Timestamp = meta.deletion_timestamp.as_deref()?.parse().ok()?;
            let grace = meta.deletion_grace_period_seconds.unwrap_or(0);
            end.checked_sub(SignedDuration::from_secs(grace)).ok()
        };
        let ended = ends.and_then(|ends| ends.into_iter().max());
        ended.or_else(stopped).or_else(deleted).or_else(|| self.created())
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
        Some(seconds_after(self.ready_since()?, seconds))
    }

    /// How often its containers were started again: the most of any.
    pub(super) fn restarts(&self) -> i64 {
        self.containers().map(|container| container.restart_count).max().unwrap_or(0)
    }
}
