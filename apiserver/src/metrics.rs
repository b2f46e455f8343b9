//! What the server counts, under the names that dashboards for kube-apiserver use.

mod admission;
mod flow_control;
mod requests;
mod store;
mod watches;

use std::time::Duration;

use litek8s_daemon::metrics::Metrics;
use litek8s_raft::Replica;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

pub(crate) use admission::{AdmissionMetrics, Called};
pub(crate) use flow_control::{Executing, FlowMetrics};
pub use requests::RequestLabels;
pub(crate) use requests::dry_run;
pub(crate) use watches::Sent;

use crate::registry::Served;
use requests::{AskedLabels, CodeLabels};
use watches::Watches;

/// Upper bounds in bytes.
const SIZES: [f64; 7] = [1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
/// Upper bounds in seconds, those of kube-apiserver thinned out to every other one.
const LATENCY: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// `readOnly` or `mutating`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct KindLabels {
    /// The kind of request.
    pub request_kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NameLabels {
    name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    name: String,
    reason: &'static str,
}

/// The server's metrics.
#[derive(Debug, Clone)]
pub struct ApiMetrics {
    /// The registry everything is in.
    pub registry: Metrics,
    requests: Family<CodeLabels, Counter>,
    durations: Family<AskedLabels, Histogram, fn() -> Histogram>,
    sizes: Family<RequestLabels, Histogram, fn() -> Histogram>,
    inflight: Family<KindLabels, Gauge>,
    longrunning: Family<RequestLabels, Gauge>,
    terminations: Family<KindLabels, Counter>,
    admission: AdmissionMetrics,
    flows: FlowMetrics,
    watches: Watches,
    unavailable: Family<NameLabels, Gauge>,
    became_unavailable: Family<ReasonLabels, Gauge>,
    audit_events: Counter,
    audit_errors: Counter,
}

impl Default for ApiMetrics {
    fn default() -> Self {
        let registry = Metrics::default();
        let metrics = Self {
            registry: registry.clone(),
            requests: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(LATENCY)),
            sizes: Family::new_with_constructor(|| Histogram::new(SIZES)),
            inflight: Family::default(),
            longrunning: Family::default(),
            terminations: Family::default(),
            admission: AdmissionMetrics::default(),
            flows: FlowMetrics::default(),
            watches: Watches::default(),
            unavailable: Family::default(),
            became_unavailable: Family::default(),
            audit_events: Counter::default(),
            audit_errors: Counter::default(),
        };
        registry.register(|r| {
            r.register("apiserver_request", "Requests by verb, resource and code", metrics.requests.clone());
            r.register(
                "apiserver_request_duration_seconds",
                "Seconds until the answer began, without watches",
                metrics.durations.clone(),
            );
            r.register("apiserver_response_sizes", "Bytes of answers to GET and LIST", metrics.sizes.clone());
            metrics.admission.register(r);
            metrics.flows.register(r);
            metrics.watches.register(r);
            r.register(
                "aggregator_unavailable_apiservice",
                "Whether an APIService is not available",
                metrics.unavailable.clone(),
            );
            // No counter, whose family would have the name of the gauge above.
            r.register(
                "aggregator_unavailable_apiservice_total",
                "How often an APIService became unavailable, by reason",
                metrics.became_unavailable.clone(),
            );
            r.register(
                "apiserver_current_inflight_requests",
                "Requests being answered, without watches",
                metrics.inflight.clone(),
            );
            r.register(
                "apiserver_longrunning_requests",
                "Open watches and streams",
                metrics.longrunning.clone(),
            );
            r.register(
                "apiserver_request_terminations",
                "Requests refused because too many were in flight",
                metrics.terminations.clone(),
            );
            r.register(
                "apiserver_audit_event",
                "Events given to the audit log",
                metrics.audit_events.clone(),
            );
            r.register(
                "apiserver_audit_error",
                "Events that the audit log did not take",
                metrics.audit_errors.clone(),
            );
        });
        metrics
    }
}

impl ApiMetrics {
    /// Shows the store's figures as well.
    pub fn observe(&self, replica: Replica) {
        self.registry.register(|r| r.register_collector(Box::new(store::StoreCollector(replica))));
    }

    /// Counts one answer; `took` is absent for watches, whose length says nothing, and `size` where it is not known.
    pub fn answered(
        &self,
        request: RequestLabels,
        dry_run: &'static str,
        code: u16,
        took: Option<Duration>,
        size: Option<u64>,
    ) {
        if let Some(size) = size.filter(|_| matches!(request.verb, "GET" | "LIST")) {
            #[expect(clippy::cast_precision_loss, reason = "a size is a figure for graphs")]
            self.sizes.get_or_create(&request).observe(size as f64);
        }
        let asked = AskedLabels { request, dry_run };
        if let Some(took) = took {
            self.durations.get_or_create(&asked).observe(took.as_secs_f64());
        }
        self.requests.get_or_create(&CodeLabels { asked, code }).inc();
    }

    /// What admission counts.
    pub(crate) fn admission(&self) -> &AdmissionMetrics {
        &self.admission
    }

    /// What is counted by FlowSchema.
    pub(crate) fn flows(&self) -> &FlowMetrics {
        &self.flows
    }

    /// Counts the events of one resource's watches.
    pub(crate) fn watch_events(&self, served: &Served) -> Sent {
        self.watches.of(served)
    }

    /// Shows whether an APIService is available; the reason when it has just become unavailable.
    pub(crate) fn api_service(&self, name: &str, available: bool, lost: Option<&'static str>) {
        let name = name.to_owned();
        self.unavailable.get_or_create(&NameLabels { name: name.clone() }).set(i64::from(!available));
        if let Some(reason) = lost {
            self.became_unavailable.get_or_create(&ReasonLabels { name, reason }).inc();
        }
    }

    /// Shows nothing more about an APIService that is gone.
    pub(crate) fn forget_api_service(&self, name: &str) {
        self.unavailable.remove(&NameLabels { name: name.to_owned() });
    }

    /// Counts a request while the guard lives.
    pub fn in_flight(&self, request_kind: &'static str) -> Counted {
        Counted::new(self.inflight.get_or_create_owned(&KindLabels { request_kind }))
    }

    /// Counts a watch or stream while the guard lives.
    pub fn long_running(&self, labels: &RequestLabels) -> Counted {
        Counted::new(self.longrunning.get_or_create_owned(labels))
    }

    /// Counts an audit event, and whether the log took it.
    pub(crate) fn audited(&self, taken: bool) {
        self.audit_events.inc();
        if !taken {
            self.audit_errors.inc();
        }
    }

    /// Counts a refusal for want of room.
    pub fn terminated(&self, request_kind: &'static str) {
        self.terminations.get_or_create(&KindLabels { request_kind }).inc();
    }
}

/// One in a gauge until it is dropped.
#[derive(Debug)]
pub struct Counted(Gauge);

impl Counted {
    fn new(gauge: Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}
