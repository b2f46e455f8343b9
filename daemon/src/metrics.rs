//! One registry of metrics a process, and what the kernel says about the process itself.

mod gauges;
mod process;

use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::registry::Registry;

pub use gauges::{GaugeFamily, Gauges};

/// The `Content-Type` of [`Metrics::encode`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The process's metrics; clones share one registry.
#[derive(Debug, Clone)]
pub struct Metrics(Arc<Mutex<Registry>>);

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(process::ProcessCollector));
        Self(Arc::new(Mutex::new(registry)))
    }
}

impl Metrics {
    /// Registers with the registry; counters get their `_total` at encoding.
    pub fn register<T>(&self, register: impl FnOnce(&mut Registry) -> T) -> T {
        register(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// All metrics as OpenMetrics text.
    pub fn encode(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        let registry = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        prometheus_client::encoding::text::encode(&mut text, &registry)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;

    use super::*;

    #[test]
    fn registered_and_process_metrics_are_encoded() {
        let metrics = Metrics::default();
        let counter: Counter = Counter::default();
        metrics.register(|r| r.register("litek8s_test_events", "Events", counter.clone()));
        counter.inc();
        let text = metrics.encode().unwrap();
        assert!(text.contains("litek8s_test_events_total 1"), "{text}");
        assert!(text.contains("process_resident_memory_bytes "), "{text}");
        assert!(text.contains("process_cpu_seconds_total "), "{text}");
    }
}
