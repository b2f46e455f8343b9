//! What is known of nodes between two looks at them: when each was last heard of, how it is, what drives pods away from
//! it, and how its zone is doing. Times are this server's: the clocks of nodes are not trusted.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use litek8s_store::Object;
use serde_json::Value;

use super::condition;
use super::read::{self, list, text};
use super::service::ZONE;
use crate::time;

/// The namespace of the nodes' Leases.
pub(super) const LEASES: &str = "kube-node-lease";
/// The taint of a node that says that it is not ready.
pub(super) const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The taint of a node that says nothing any more.
pub(super) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// The taint of a node that an administrator knows to be off.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// The label of a node that says nothing about how its zone is doing.
const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";
/// How far apart nodes of a zone are tainted, usually and when most of a large zone failed.
const PACE: SignedDuration = SignedDuration::from_secs(10);
const SLOW_PACE: SignedDuration = SignedDuration::from_secs(100);
/// A zone of more nodes than this is a large one.
const LARGE: usize = 50;

/// What drives pods away from a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Driving {
    pub(super) key: String,
    pub(super) value: String,
    /// Since when: as the taint says, or since it was seen.
    pub(super) since: Timestamp,
}

/// One node.
#[derive(Debug, Clone)]
pub(super) struct Health {
    /// `True`, `False`, `Unknown`, or nothing yet.
    pub(super) ready: String,
    /// Since when.
    pub(super) since: Option<Timestamp>,
    /// The taints that drive pods away.
    pub(super) driving: Vec<Driving>,
    /// Whether it is known to be off.
    pub(super) out_of_service: bool,
    /// Region and zone.
    zone: Arc<str>,
    counts: bool,
}

impl Health {
    /// The node as it says it is, and its heartbeat.
    fn read(object: &Object, before: Option<&Self>, now: Timestamp) -> (Self, String) {
        let value = read::value(object).unwrap_or_default();
        let ready = condition::find(&value["status"], "Ready").cloned().unwrap_or_default();
        let label = |name: &str| object.meta.labels.get(name).cloned().unwrap_or_default();
        let taints = list(&value["spec"]["taints"]);
        let driving = taints.iter().filter(|taint| taint["effect"] == "NoExecute").map(|taint| {
            let (key, value) = (text(&taint["key"]).to_owned(), text(&taint["value"]).to_owned());
            let same = |known: &&Driving| known.key == key && known.value == value;
            let seen = before.and_then(|before| before.driving.iter().find(same)).map(|known| known.since);
            // Whoever says that it will only come has it already.
            let added = read::time(&taint["timeAdded"]).filter(|added| *added <= now);
            let since = added.or(seen).unwrap_or(now);
            Driving { key, value, since }
        });
        let health = Self {
            ready: text(&ready["status"]).to_owned(),
            since: read::time(&ready["lastTransitionTime"]),
            driving: driving.collect(),
            out_of_service: taints.iter().any(|taint| taint["key"] == OUT_OF_SERVICE),
            zone: format!("{}/{}", label("topology.kubernetes.io/region"), label(ZONE)).into(),
            counts: !object.meta.labels.contains_key(EXCLUDED),
        };
        (health, text(&ready["lastHeartbeatTime"]).to_owned())
    }

    /// Whether it runs pods.
    pub(super) fn is_ready(&self) -> bool {
        self.ready == "True"
    }

    /// Since when it has a taint for not being ready that drives pods away, if it has one.
    fn marked(&self) -> Option<Timestamp> {
        let marks = self.driving.iter().filter(|taint| taint.key == NOT_READY || taint.key == UNREACHABLE);
        marks.map(|taint| taint.since).max()
    }

    fn waits(&self) -> bool {
        matches!(self.ready.as_str(), "False" | "Unknown") && self.marked().is_none()
    }
}

/// How a zone is doing, as far as it decides how fast nodes are tainted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Normal,
    Partial { large: bool },
    Full,
}

/// The nodes of a zone that count.
#[derive(Debug, Default)]
struct Census {
    ready: usize,
    all: usize,
}

impl Census {
    fn state(&self) -> State {
        let failed = self.all - self.ready;
        match self.ready {
            0 => State::Full,
            // 55 of a hundred, and not only two.
            _ if failed > 2 && failed * 100 >= self.all * 55 => State::Partial { large: self.all > LARGE },
            _ => State::Normal,
        }
    }
}

/// The last signs of life of a node.
#[derive(Debug)]
struct Heard {
    at: Timestamp,
    /// The heartbeat of its Ready condition.
    beat: String,
    /// The time in its Lease.
    renewed: String,
}

/// All nodes.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    nodes: BTreeMap<Arc<str>, Health>,
    zones: BTreeMap<Arc<str>, Census>,
    heard: BTreeMap<Arc<str>, Heard>,
    /// Nodes that pods are on and that are not there, since when.
    missing: BTreeMap<Arc<str>, Timestamp>,
}

impl Nodes {
    /// A node as it is now; whether another pace holds for its neighbours.
    pub(super) fn note(&mut self, object: &Object, now: Timestamp) -> bool {
        let name = &object.key.name;
        let (health, beat) = Health::read(object, self.nodes.get(name), now);
        match self.heard.get_mut(name) {
            Some(heard) if heard.beat == beat => {}
            Some(heard) => (heard.at, heard.beat) = (now, beat),
            None => {
                self.heard.insert(name.clone(), Heard { at: now, beat, renewed: String::new() });
            }
        }
        self.missing.remove(name);
        self.put(name, Some(health))
    }

    /// A node that is gone; `used` is whether pods are still on it.
    pub(super) fn forget(&mut self, name: &Arc<str>, used: bool, now: Timestamp) -> bool {
        self.heard.remove(name);
        if used {
            self.missing.insert(name.clone(), now);
        }
        self.put(name, None)
    }

    fn put(&mut self, name: &Arc<str>, health: Option<Health>) -> bool {
        let states = self.states();
        if let Some(after) = health.as_ref().filter(|after| after.counts) {
            let census = self.zones.entry(after.zone.clone()).or_default();
            census.all += 1;
            census.ready += usize::from(after.is_ready());
        }
        let before = match health {
            Some(after) => self.nodes.insert(name.clone(), after),
            None => self.nodes.remove(name),
        };
        if let Some(before) = before.filter(|before| before.counts)
            && let Some(census) = self.zones.get_mut(&before.zone)
        {
            census.all -= 1;
            census.ready -= usize::from(before.is_ready());
        }
        self.zones.retain(|_, census| census.all > 0);
        states != self.states()
    }

    /// A node's Lease: a sign of life when it was renewed.
    pub(super) fn hear(&mut self, lease: &Object, now: Timestamp) {
        let Some(heard) = self.heard.get_mut(&lease.key.name) else { return };
        let value = read::value(lease).unwrap_or_default();
        let renewed = text(&value["spec"]["renewTime"]);
        if heard.renewed != renewed {
            (heard.at, heard.renewed) = (now, renewed.to_owned());
        }
    }

    /// Nobody could be heard for a while, because nobody here listened: everybody's time begins anew.
    pub(super) fn listen_anew(&mut self, now: Timestamp) {
        for heard in self.heard.values_mut() {
            heard.at = now;
        }
    }

    /// A pod is on a node.
    pub(super) fn used(&mut self, name: &Arc<str>, now: Timestamp) {
        if !self.nodes.contains_key(name) {
            self.missing.entry(name.clone()).or_insert(now);
        }
    }

    /// No pod is on a node any more.
    pub(super) fn unused(&mut self, name: &Arc<str>) {
        self.missing.remove(name);
    }

    /// A node.
    pub(super) fn get(&self, name: &str) -> Option<&Health> {
        self.nodes.get(name)
    }

    /// When a node was last heard of.
    pub(super) fn heard(&self, name: &str) -> Option<Timestamp> {
        self.heard.get(name).map(|heard| heard.at)
    }

    /// Since when a node that pods are on is not there.
    pub(super) fn missing(&self, name: &str) -> Option<Timestamp> {
        self.missing.get(name).copied()
    }

    /// The names of all.
    pub(super) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.nodes.keys()
    }

    /// How each zone is doing.
    fn states(&self) -> BTreeMap<Arc<str>, State> {
        self.zones.iter().map(|(zone, census)| (zone.clone(), census.state())).collect()
    }

    /// Whether no node anywhere is ready: more likely it is this server that sees none.
    pub(super) fn all_failed(&self) -> bool {
        !self.zones.is_empty() && self.zones.values().all(|census| census.state() == State::Full)
    }

    /// When a node that is not ready may drive its pods away: one after the other of a zone. `None` while too many fail.
    pub(super) fn turn(&self, name: &str, now: Timestamp) -> Option<Timestamp> {
        let node = self.nodes.get(name)?;
        let pace = match self.zones.get(&node.zone).map(Census::state) {
            Some(State::Partial { large: false }) => return None,
            Some(State::Partial { large: true }) => SLOW_PACE,
            Some(State::Normal | State::Full) | None => PACE,
        };
        let neighbours = || self.nodes.iter().filter(|(_, other)| other.zone == node.zone);
        let last = neighbours().filter_map(|(_, other)| other.marked()).max();
        let first = last.map_or(now, |last| time::after(last, pace).max(now));
        let place = (node.since, name);
        let before =
            neighbours().filter(|(other, health)| health.waits() && (health.since, &***other) < place);
        let before = i32::try_from(before.count()).unwrap_or(i32::MAX);
        first.checked_add(pace.saturating_mul(before)).ok()
    }
}

/// Whether a value of a toleration tolerates a taint.
pub(super) fn tolerates(toleration: &Value, taint: &Driving) -> bool {
    let effect = text(&toleration["effect"]);
    let key = text(&toleration["key"]);
    if !matches!(effect, "" | "NoExecute") || (!key.is_empty() && key != taint.key) {
        return false;
    }
    match text(&toleration["operator"]) {
        "Exists" => true,
        "" | "Equal" => key == taint.key && text(&toleration["value"]) == taint.value,
        _ => false,
    }
}
