//! What the VIP controller tells Prometheus: where every VIP is, what has no place, and what was done.

use std::collections::BTreeMap;
use std::time::Duration;

use litek8s_daemon::metrics::{GaugeFamily, Gauges, Metrics};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use super::decision::{Decision, NoteKind};
use super::report::AddressState;
use crate::metrics::counter;

/// Upper bounds of the time of a decision, in seconds.
const SECONDS: [f64; 8] = [0.0005, 0.002, 0.005, 0.02, 0.05, 0.2, 1.0, 5.0];

/// The metrics; clones share them.
#[derive(Debug, Clone)]
pub(crate) struct VipMetrics {
    assignments: Counter,
    moves: Counter,
    unanswered: Counter,
    failures: Counter,
    seconds: Histogram,
    state: Gauges,
}

impl VipMetrics {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let own = Self {
            assignments: counter(metrics, "litek8s_vip_assignments", "VIPs that got a place"),
            moves: counter(metrics, "litek8s_vip_moves", "VIPs that went to another node"),
            unanswered: counter(
                metrics,
                "litek8s_vip_releases_unanswered",
                "VIPs whose old node did not say in time that it let go",
            ),
            failures: counter(metrics, "litek8s_vip_write_failures", "Writes to the API that failed"),
            seconds: Histogram::new(SECONDS),
            state: Gauges::default(),
        };
        metrics.register(|registry| {
            registry.register(
                "litek8s_vip_decision_seconds",
                "How long it takes to decide where every VIP belongs",
                own.seconds.clone(),
            );
        });
        own.state.register(metrics);
        own
    }

    /// A decision was made, and took so long.
    pub(crate) fn decided(&self, decision: &Decision, took: Duration) {
        self.seconds.observe(took.as_secs_f64());
        self.state.set(state(decision));
    }

    /// Something was told to people.
    pub(crate) fn noted(&self, kind: NoteKind) {
        match kind {
            NoteKind::VipAssigned => self.assignments.inc(),
            NoteKind::VipMoved => self.moves.inc(),
            NoteKind::VipReleaseUnanswered => self.unanswered.inc(),
            NoteKind::VipUnplaced
            | NoteKind::VipConflict
            | NoteKind::NetworkDisabled
            | NoteKind::GatewayReady
            | NoteKind::GatewayClosed
            | NoteKind::GatewayRefused
            | NoteKind::GatewayDegraded => return,
        };
    }

    /// So many writes failed.
    pub(crate) fn failed(&self, count: usize) {
        self.failures.inc_by(u64::try_from(count).unwrap_or(u64::MAX));
    }

    /// Another process decides from now on.
    pub(crate) fn ended(&self) {
        self.state.set(Vec::new());
    }
}

/// The state that a decision found and made.
fn state(decision: &Decision) -> Vec<GaugeFamily> {
    let mut addresses = BTreeMap::from([("pending", 0), ("ready", 0), ("unplaced", 0)]);
    let mut services = addresses.clone();
    let mut unplaced: BTreeMap<&str, i64> = BTreeMap::new();
    let mut nodes: BTreeMap<&str, i64> = BTreeMap::new();
    let mut info = Vec::new();
    for service in &decision.services {
        let mut worst = "ready";
        for address in &service.addresses {
            let state = match address.state {
                AddressState::Ready => "ready",
                AddressState::Pending => "pending",
                AddressState::Unplaced(reason) => {
                    *unplaced.entry(reason).or_default() += 1;
                    "unplaced"
                }
            };
            *addresses.entry(state).or_default() += 1;
            worst = if worst == "unplaced" || state == "ready" { worst } else { state };
            let node = address.node.as_deref().unwrap_or_default();
            if !node.is_empty() {
                *nodes.entry(node).or_default() += 1;
            }
            let labels =
                [&service.key.namespace, &service.key.name, &address.text, node, state].map(str::to_owned);
            info.push((labels.to_vec(), 1));
        }
        *services.entry(worst).or_default() += 1;
    }
    let config = decision.config.as_ref();
    let flag = |good: bool| i64::from(good);
    let capacity = config.map_or(0, |config| i64::try_from(config.capacity).unwrap_or(i64::MAX));
    let network = |name, help, value: fn(&super::report::NetworkReport) -> i64| GaugeFamily {
        name,
        help,
        labels: &["network"],
        series: decision.networks.iter().map(|found| (vec![found.name.clone()], value(found))).collect(),
    };
    vec![
        counted(
            "litek8s_vip_addresses",
            "VIPs that Services list, by how far they are",
            &["state"],
            addresses,
        ),
        counted("litek8s_vip_unplaced_addresses", "VIPs without a place, by reason", &["reason"], unplaced),
        counted(
            "litek8s_vip_services",
            "Services with VIPs, by the VIP that is least far",
            &["state"],
            services,
        ),
        counted("litek8s_vip_node_addresses", "VIPs placed on a node", &["node"], nodes),
        GaugeFamily {
            name: "litek8s_vip_info",
            help: "Every VIP that a Service lists, with its node and how far it is; always 1",
            labels: &["namespace", "service", "address", "node", "state"],
            series: info,
        },
        GaugeFamily::single(
            "litek8s_vip_node_capacity",
            "VIPs that a node has marks, route tables and priorities for",
            capacity,
        ),
        GaugeFamily::single(
            "litek8s_vip_config_accepted",
            "Whether the VipConfig is accepted; when it is not, the last accepted one is in force",
            flag(config.is_some_and(|config| config.verdict.good)),
        ),
        network("litek8s_vip_network_addresses", "Addresses of a VipNetwork that can be VIPs", |found| {
            found.size
        }),
        network("litek8s_vip_network_used_addresses", "VIPs placed in a VipNetwork", |found| found.used),
        network("litek8s_vip_network_ready", "Whether a VipNetwork is in force", |found| {
            i64::from(found.ready.good)
        }),
    ]
}

fn counted(
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    counts: BTreeMap<&str, i64>,
) -> GaugeFamily {
    let series = counts.into_iter().map(|(value, count)| (vec![value.to_owned()], count)).collect();
    GaugeFamily { name, help, labels, series }
}

#[cfg(test)]
mod tests {
    use super::super::decide::decide;
    use super::super::fixture::{facts, service};
    use super::super::memory::Memory;
    use super::*;

    #[test]
    fn a_decision_is_told_by_state_reason_node_and_network() {
        let mut facts = facts();
        let listed = ["203.0.113.10", "203.0.113.11", "198.51.100.1"];
        facts.services = vec![service("web", &listed, &[("a", 1)]), service("idle", &["203.0.113.20"], &[])];
        let (registry, decision) = (Metrics::default(), decide(&facts, &Memory::default()));
        let metrics = VipMetrics::new(&registry);
        metrics.decided(&decision, Duration::from_millis(1));
        metrics.noted(NoteKind::VipMoved);
        let text = registry.encode().unwrap();
        for line in [
            "litek8s_vip_addresses{state=\"pending\"} 2",
            "litek8s_vip_addresses{state=\"ready\"} 0",
            "litek8s_vip_addresses{state=\"unplaced\"} 2",
            "litek8s_vip_unplaced_addresses{reason=\"NoNetwork\"} 1",
            "litek8s_vip_unplaced_addresses{reason=\"NoReadyEndpoint\"} 1",
            "litek8s_vip_services{state=\"unplaced\"} 2",
            "litek8s_vip_node_addresses{node=\"a\"} 2",
            "litek8s_vip_node_capacity 127",
            "litek8s_vip_config_accepted 1",
            "litek8s_vip_network_addresses{network=\"public\"} 253",
            "litek8s_vip_network_ready{network=\"public\"} 1",
            "litek8s_vip_moves_total 1",
            "litek8s_vip_decision_seconds_count 1",
        ] {
            assert!(text.lines().any(|found| found == line), "no {line} in\n{text}");
        }
        let info =
            "namespace=\"default\",service=\"web\",address=\"203.0.113.10\",node=\"a\",state=\"pending\"";
        assert!(text.contains(&format!("litek8s_vip_info{{{info}}} 1")), "{text}");
        metrics.ended();
        assert!(!registry.encode().unwrap().contains("litek8s_vip_addresses{"));
    }
}
