//! What the server counts, under the names that dashboards for kube-apiserver use.

mod store;

use std::time::Duration;

use litek8s_daemon::metrics::Metrics;
use litek8s_raft::Replica;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use crate::request::RequestInfo;

/// Upper bounds in seconds, those of kube-apiserver thinned out to every other one.
const LATENCY: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// What was asked for, as far as it is a bounded set of values.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    /// The verb in upper case; `WATCH` and `LIST` are told apart from `GET`.
    pub verb: String,
    /// The API group.
    pub group: String,
    /// The API version.
    pub version: String,
    /// The resource; empty for paths that are none and for unknown resources.
    pub resource: String,
    /// The subresource.
    pub subresource: String,
    /// `cluster`, `namespace`, `resource` or empty.
    pub scope: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CodeLabels {
    verb: String,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: String,
    component: &'static str,
    code: u16,
}

/// `readOnly` or `mutating`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct KindLabels {
    /// The kind of request.
    pub request_kind: &'static str,
}

/// The server's metrics.
#[derive(Debug, Clone)]
pub struct ApiMetrics {
    /// The registry everything is in.
    pub registry: Metrics,
    requests: Family<CodeLabels, Counter>,
    durations: Family<RequestLabels, Histogram, fn() -> Histogram>,
    inflight: Family<KindLabels, Gauge>,
    longrunning: Family<RequestLabels, Gauge>,
    terminations: Family<KindLabels, Counter>,
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
            inflight: Family::default(),
            longrunning: Family::default(),
            terminations: Family::default(),
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

impl RequestLabels {
    /// The labels of a request; the resource only when it is `known`, so that clients cannot invent series.
    pub fn of(info: &RequestInfo, known: bool) -> Self {
        let scope = match info {
            _ if !info.is_resource_request => "",
            info if !info.name.is_empty() => "resource",
            info if !info.namespace.is_empty() => "namespace",
            _ => "cluster",
        };
        let shown = |text: &str| if known { text.to_owned() } else { String::new() };
        let verb = match info.verb.as_str() {
            "create" => "POST".to_owned(),
            "update" => "PUT".to_owned(),
            verb @ ("get" | "list" | "watch" | "patch" | "delete" | "deletecollection" | "post" | "put") => {
                verb.to_ascii_uppercase()
            }
            _ => "other".to_owned(),
        };
        Self {
            verb,
            group: shown(&info.api_group),
            version: shown(&info.api_version),
            resource: shown(&info.resource),
            subresource: shown(&info.subresource),
            scope: scope.to_owned(),
        }
    }
}

impl ApiMetrics {
    /// Shows the store's figures as well.
    pub fn observe(&self, replica: Replica) {
        self.registry.register(|r| r.register_collector(Box::new(store::StoreCollector(replica))));
    }

    /// Counts one answer; `took` is absent for watches, whose length says nothing.
    pub fn answered(&self, labels: RequestLabels, code: u16, took: Option<Duration>) {
        if let Some(took) = took {
            self.durations.get_or_create(&labels).observe(took.as_secs_f64());
        }
        let RequestLabels { verb, group, version, resource, subresource, scope } = labels;
        let component = "apiserver";
        let labels = CodeLabels { verb, group, version, resource, subresource, scope, component, code };
        self.requests.get_or_create(&labels).inc();
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
