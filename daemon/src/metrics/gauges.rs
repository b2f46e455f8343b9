//! Gauges that describe one state of things and are replaced all at once: a scrape never sees half of two states.

use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use super::Metrics;

/// One gauge with all its series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GaugeFamily {
    /// The metric's name.
    pub name: &'static str,
    /// What it says, without a full stop.
    pub help: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// The values of the labels, in their order, and the gauge's.
    pub series: Vec<(Vec<String>, i64)>,
}

impl GaugeFamily {
    /// A gauge without labels.
    pub fn single(name: &'static str, help: &'static str, value: i64) -> Self {
        Self { name, help, labels: &[], series: vec![(Vec::new(), value)] }
    }
}

/// The state that is shown; clones share it. Nothing is shown until something is set.
#[derive(Debug, Clone, Default)]
pub struct Gauges(Arc<Mutex<Vec<GaugeFamily>>>);

impl Gauges {
    /// Makes them part of a registry.
    pub fn register(&self, metrics: &Metrics) {
        metrics.register(|registry| registry.register_collector(Box::new(self.clone())));
    }

    /// Shows these from now on, and nothing of before.
    pub fn set(&self, families: Vec<GaugeFamily>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = families;
    }
}

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let families = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for family in &families {
            let mut metric = encoder.encode_descriptor(family.name, family.help, None, MetricType::Gauge)?;
            if family.labels.is_empty() {
                if let Some((_, value)) = family.series.first() {
                    ConstGauge::new(*value).encode(metric)?;
                }
                continue;
            }
            for (values, value) in &family.series {
                let labels: Vec<(&str, &str)> =
                    family.labels.iter().copied().zip(values.iter().map(String::as_str)).collect();
                ConstGauge::new(*value).encode(metric.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_state_takes_the_place_of_the_old_one() {
        let (metrics, gauges) = (Metrics::default(), Gauges::default());
        gauges.register(&metrics);
        let family = |node: &str| GaugeFamily {
            name: "litek8s_test_addresses",
            help: "Addresses",
            labels: &["node", "state"],
            series: vec![(vec![node.to_owned(), "ready".to_owned()], 3)],
        };
        gauges.set(vec![family("a"), GaugeFamily::single("litek8s_test_limit", "Limit", 7)]);
        let text = metrics.encode().unwrap();
        assert!(text.contains("litek8s_test_addresses{node=\"a\",state=\"ready\"} 3"), "{text}");
        assert!(text.contains("litek8s_test_limit 7"), "{text}");
        gauges.set(vec![family("b")]);
        let text = metrics.encode().unwrap();
        assert!(!text.contains("node=\"a\"") && text.contains("node=\"b\""), "{text}");
    }
}
