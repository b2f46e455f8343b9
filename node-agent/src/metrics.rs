//! What an agent counts.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use litek8s_daemon::metrics::{GaugeFamily, Gauges, Metrics};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

/// The agent's metrics; clones share them.
#[derive(Debug, Clone)]
pub(crate) struct AgentMetrics {
    pub(crate) passes: Counter,
    pub(crate) failures: Counter,
    pub(crate) drift: Counter,
    pub(crate) announcements: Counter,
    pub(crate) dropped_patches: Counter,
    pub(crate) vips: Gauge,
    pub(crate) gateways: Gauge,
    pub(crate) mark_conflicts: Gauge,
    pub(crate) api_connected: Gauge,
    pub(crate) last_success: Gauge<f64, AtomicU64>,
    pub(crate) seconds: Histogram,
    problems: Gauges,
}

impl AgentMetrics {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let own = Self {
            passes: Counter::default(),
            failures: Counter::default(),
            drift: Counter::default(),
            announcements: Counter::default(),
            dropped_patches: Counter::default(),
            vips: Gauge::default(),
            gateways: Gauge::default(),
            mark_conflicts: Gauge::default(),
            api_connected: Gauge::default(),
            last_success: Gauge::default(),
            seconds: Histogram::new([0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0]),
            problems: Gauges::default(),
        };
        metrics.register(|registry| {
            let mut counter = |name: &str, help: &str, counter: &Counter| {
                registry.register(format!("litek8s_agent_{name}"), help, counter.clone());
            };
            counter("passes", "Comparisons of the node with what it should be", &own.passes);
            counter("pass_failures", "Passes that the kernel or the API kept from succeeding", &own.failures);
            counter("drift_repairs", "Changes made because somebody else changed the node", &own.drift);
            counter("announcements", "Addresses announced by gratuitous ARP", &own.announcements);
            counter("status_patches_dropped", "Status patches that found no room", &own.dropped_patches);
            let mut gauge = |name: &str, help: &str, gauge: &Gauge| {
                registry.register(format!("litek8s_agent_{name}"), help, gauge.clone());
            };
            gauge("vips", "VIPs in place on this node", &own.vips);
            gauge("gateways", "VipGateways applied on this node", &own.gateways);
            gauge(
                "mark_conflicts",
                "Rules of other programs that look at our mark bits",
                &own.mark_conflicts,
            );
            gauge("api_connected", "Whether the API answers", &own.api_connected);
            registry.register(
                "litek8s_agent_last_success_timestamp_seconds",
                "When a pass last succeeded",
                own.last_success.clone(),
            );
            registry.register("litek8s_agent_pass_seconds", "How long a pass takes", own.seconds.clone());
        });
        own.problems.register(metrics);
        own.troubled(BTreeMap::new());
        own
    }

    /// So many VIPs have a problem, by its reason; others that had one have none any more.
    pub(crate) fn troubled(&self, problems: BTreeMap<String, i64>) {
        let series = problems.into_iter().map(|(reason, count)| (vec![reason], count)).collect();
        self.problems.set(vec![GaugeFamily {
            name: "litek8s_agent_vip_problems",
            help: "VIPs of this node with a problem, by its reason",
            labels: &["reason"],
            series,
        }]);
    }
}
