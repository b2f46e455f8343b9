//! Requests by FlowSchema and priority level, under upstream's names. Only what is limited is counted: no watches, no
//! streams. Nothing waits, so there is nothing about queues.

use std::time::Instant;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::Counted;
use crate::flow_control::Flow;

/// Upper bounds in seconds.
const EXECUTION: [f64; 12] = [0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FlowLabels {
    priority_level: String,
    flow_schema: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RejectionLabels {
    priority_level: String,
    flow_schema: String,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ExecutionLabels {
    priority_level: String,
    flow_schema: String,
    r#type: &'static str,
}

/// The metrics of flow control.
#[derive(Debug, Clone)]
pub(crate) struct FlowMetrics {
    dispatched: Family<FlowLabels, Counter>,
    rejected: Family<RejectionLabels, Counter>,
    executing: Family<FlowLabels, Gauge>,
    execution: Family<ExecutionLabels, Histogram, fn() -> Histogram>,
}

impl Default for FlowMetrics {
    fn default() -> Self {
        Self {
            dispatched: Family::default(),
            rejected: Family::default(),
            executing: Family::default(),
            execution: Family::new_with_constructor(|| Histogram::new(EXECUTION)),
        }
    }
}

/// A request being answered.
#[derive(Debug)]
pub(crate) struct Executing {
    _counted: Counted,
    execution: Histogram,
    begun: Instant,
}

impl Drop for Executing {
    fn drop(&mut self) {
        self.execution.observe(self.begun.elapsed().as_secs_f64());
    }
}

impl FlowMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "apiserver_flowcontrol_dispatched_requests",
            "Requests that got a seat, by FlowSchema",
            self.dispatched.clone(),
        );
        registry.register(
            "apiserver_flowcontrol_rejected_requests",
            "Requests that got none, by FlowSchema",
            self.rejected.clone(),
        );
        registry.register(
            "apiserver_flowcontrol_current_executing_requests",
            "Requests being answered, by FlowSchema, without watches and streams",
            self.executing.clone(),
        );
        registry.register(
            "apiserver_flowcontrol_request_execution_seconds",
            "Seconds until the answer of a request that got a seat began",
            self.execution.clone(),
        );
    }

    /// A request got a seat; it has it as long as what is returned lives.
    pub(crate) fn dispatched(&self, flow: &Flow) -> Executing {
        let (priority_level, flow_schema) = names(flow);
        let labels = FlowLabels { priority_level: priority_level.clone(), flow_schema: flow_schema.clone() };
        self.dispatched.get_or_create(&labels).inc();
        let execution = ExecutionLabels { priority_level, flow_schema, r#type: "regular" };
        Executing {
            _counted: Counted::new(self.executing.get_or_create_owned(&labels)),
            execution: self.execution.get_or_create_owned(&execution),
            begun: Instant::now(),
        }
    }

    /// A request got none.
    pub(crate) fn rejected(&self, flow: &Flow) {
        let (priority_level, flow_schema) = names(flow);
        let labels = RejectionLabels { priority_level, flow_schema, reason: "concurrency-limit" };
        self.rejected.get_or_create(&labels).inc();
    }
}

fn names(flow: &Flow) -> (String, String) {
    (flow.level.0.clone(), flow.schema.0.clone())
}
