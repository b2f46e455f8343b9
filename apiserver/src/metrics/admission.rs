//! What admission and its webhooks do, under upstream's names.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Upper bounds in seconds.
const STEPS: [f64; 6] = [0.005, 0.025, 0.1, 0.5, 1.0, 2.5];
const WEBHOOKS: [f64; 8] = [0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StepLabels {
    r#type: &'static str,
    operation: &'static str,
    rejected: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PluginLabels {
    name: &'static str,
    r#type: &'static str,
    operation: &'static str,
    rejected: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WebhookLabels {
    name: String,
    r#type: &'static str,
    operation: &'static str,
    rejected: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    name: String,
    r#type: &'static str,
    operation: &'static str,
    code: u16,
    rejected: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RejectionLabels {
    name: String,
    r#type: &'static str,
    operation: &'static str,
    error_type: &'static str,
    rejection_code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OpenLabels {
    name: String,
    r#type: &'static str,
}

/// How a call of a webhook ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Called {
    /// It allowed the request.
    Allowed,
    /// It refused, with this code.
    Refused(u16),
    /// It could not be asked, and the request was refused for it.
    Failed,
    /// It could not be asked, and was passed over.
    FailedOpen,
}

/// The metrics of admission.
#[derive(Debug, Clone)]
pub(crate) struct AdmissionMetrics {
    steps: Family<StepLabels, Histogram, fn() -> Histogram>,
    plugins: Family<PluginLabels, Histogram, fn() -> Histogram>,
    durations: Family<WebhookLabels, Histogram, fn() -> Histogram>,
    requests: Family<CallLabels, Counter>,
    rejections: Family<RejectionLabels, Gauge>,
    open: Family<OpenLabels, Gauge>,
}

impl Default for AdmissionMetrics {
    fn default() -> Self {
        Self {
            steps: Family::new_with_constructor(|| Histogram::new(STEPS)),
            plugins: Family::new_with_constructor(|| Histogram::new(STEPS)),
            durations: Family::new_with_constructor(|| Histogram::new(WEBHOOKS)),
            requests: Family::default(),
            rejections: Family::default(),
            open: Family::default(),
        }
    }
}

impl AdmissionMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "apiserver_admission_step_admission_duration_seconds",
            "Seconds of all mutating (admit) or validating (validate) admission of a request",
            self.steps.clone(),
        );
        registry.register(
            "apiserver_admission_controller_admission_duration_seconds",
            "Seconds of one admission plugin",
            self.plugins.clone(),
        );
        registry.register(
            "apiserver_admission_webhook_admission_duration_seconds",
            "Seconds until a webhook answered",
            self.durations.clone(),
        );
        registry.register(
            "apiserver_admission_webhook_request",
            "Requests to webhooks by outcome",
            self.requests.clone(),
        );
        // Upstream's names have no `_total`, which counters get here: gauges that only grow have the right ones.
        registry.register(
            "apiserver_admission_webhook_rejection_count",
            "Requests refused by or for a webhook",
            self.rejections.clone(),
        );
        registry.register(
            "apiserver_admission_webhook_fail_open_count",
            "Webhooks passed over because they failed",
            self.open.clone(),
        );
    }

    /// One step of a request's admission is over.
    pub(crate) fn step(&self, r#type: &'static str, operation: &'static str, rejected: bool, took: Duration) {
        let labels = StepLabels { r#type, operation, rejected: word(rejected) };
        self.steps.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// A plugin has done its part of a step.
    pub(crate) fn plugin(
        &self,
        name: &'static str,
        r#type: &'static str,
        operation: &'static str,
        rejected: bool,
        took: Duration,
    ) {
        let labels = PluginLabels { name, r#type, operation, rejected: word(rejected) };
        self.plugins.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// A webhook was called.
    pub(crate) fn webhook(
        &self,
        name: &str,
        r#type: &'static str,
        operation: &'static str,
        called: Called,
        took: Duration,
    ) {
        let name = name.to_owned();
        let refused = match called {
            Called::Allowed | Called::FailedOpen => None,
            Called::Refused(code) => Some(("no_error", code)),
            Called::Failed => Some(("calling_webhook_error", 0)),
        };
        let rejected = word(refused.is_some());
        let labels = WebhookLabels { name: name.clone(), r#type, operation, rejected };
        self.durations.get_or_create(&labels).observe(took.as_secs_f64());
        let code = match called {
            Called::Allowed => 200,
            Called::Refused(code) => code,
            Called::Failed | Called::FailedOpen => 600,
        };
        let labels = CallLabels { name: name.clone(), r#type, operation, code, rejected };
        self.requests.get_or_create(&labels).inc();
        if let Some((error_type, rejection_code)) = refused {
            let labels = RejectionLabels { name, r#type, operation, error_type, rejection_code };
            self.rejections.get_or_create(&labels).inc();
        } else if called == Called::FailedOpen {
            self.open.get_or_create(&OpenLabels { name, r#type }).inc();
        }
    }
}

fn word(rejected: bool) -> &'static str {
    if rejected { "true" } else { "false" }
}
