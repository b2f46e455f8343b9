//! What the gateway controller tells Prometheus.

use litek8s_daemon::metrics::{GaugeFamily, Gauges, Metrics};
use prometheus_client::metrics::counter::Counter;

use super::verdict::{Decision, GatewayReport};
use crate::metrics::counter;

/// The metrics; clones share them.
#[derive(Debug, Clone)]
pub(crate) struct GatewayMetrics {
    failures: Counter,
    state: Gauges,
}

impl GatewayMetrics {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let own = Self {
            failures: counter(metrics, "litek8s_gateway_write_failures", "Writes to the API that failed"),
            state: Gauges::default(),
        };
        own.state.register(metrics);
        own
    }

    /// A decision was made.
    pub(crate) fn decided(&self, decision: &Decision) {
        let by_gateway = |name, help, value: fn(&GatewayReport) -> usize| GaugeFamily {
            name,
            help,
            labels: &["gateway"],
            series: decision
                .reports
                .iter()
                .map(|found| (vec![found.name.clone()], i64::try_from(value(found)).unwrap_or(i64::MAX)))
                .collect(),
        };
        self.state.set(vec![
            by_gateway(
                "litek8s_gateway_ready",
                "Whether a pod leads to the VipGateway's destination",
                |found| usize::from(found.ready.good),
            ),
            by_gateway("litek8s_gateway_pods", "Pods that lead to the VipGateway's destination", |found| {
                usize::try_from(found.pods).unwrap_or_default()
            }),
            by_gateway(
                "litek8s_gateway_nodes",
                "Agents there are, each of which may apply the VipGateway",
                |found| found.nodes.1,
            ),
            by_gateway("litek8s_gateway_applied_nodes", "Agents that apply the VipGateway", |found| {
                found.nodes.0
            }),
        ]);
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
