//! What the controllers tell Prometheus. What is counted is in the controllers' own folders.

use litek8s_daemon::metrics::Metrics;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use crate::gateway::GatewayMetrics;
use crate::requests::Requests;
use crate::vip::VipMetrics;

/// The metrics of all controllers; clones share them. Those that describe a state are there only while this process
/// works, so that of several replicas one tells it.
#[derive(Debug, Clone)]
pub struct ControllerMetrics {
    pub(crate) leading: Gauge,
    pub(crate) requests: Requests,
    pub(crate) vips: VipMetrics,
    pub(crate) gateways: GatewayMetrics,
}

impl ControllerMetrics {
    /// Registers them; once a registry.
    pub fn new(metrics: &Metrics) -> Self {
        let leading = Gauge::default();
        metrics.register(|registry| {
            registry.register(
                "litek8s_controllers_leading",
                "Whether this process is the one whose controllers work",
                leading.clone(),
            );
        });
        Self {
            leading,
            requests: Requests::new(metrics),
            vips: VipMetrics::new(metrics),
            gateways: GatewayMetrics::new(metrics),
        }
    }
}

/// A counter that is registered.
pub(crate) fn counter(metrics: &Metrics, name: &str, help: &str) -> Counter {
    let counter = Counter::default();
    metrics.register(|registry| registry.register(name, help, counter.clone()));
    counter
}
