//! Events sent to watchers. Counted without a lock: a thousand watchers of one resource count at the same moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::Registry;

use crate::registry::Served;

/// Upper bounds of the sizes in bytes: 1 KiB to 128 KiB.
const BOUNDS: [u32; 8] = [1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16, 1 << 17];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    group: String,
    version: String,
    resource: String,
    kind: String,
}

/// The metrics of all watches.
#[derive(Debug, Clone, Default)]
pub(super) struct Watches {
    events: Family<Labels, Counter>,
    sizes: Family<Labels, Sizes>,
}

impl Watches {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("apiserver_watch_events", "Events sent to watchers", self.events.clone());
        registry.register(
            "apiserver_watch_events_sizes",
            "Bytes of an event sent to a watcher",
            self.sizes.clone(),
        );
    }

    /// The counters of one resource, for a watch to keep.
    pub(super) fn of(&self, served: &Served) -> Sent {
        let resource = &served.resource;
        let labels = Labels {
            group: resource.group.to_string(),
            version: resource.version.to_string(),
            resource: resource.plural.to_string(),
            kind: resource.kind.to_string(),
        };
        Sent {
            events: self.events.get_or_create_owned(&labels),
            sizes: self.sizes.get_or_create_owned(&labels),
        }
    }
}

/// Counts the events of one resource.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    events: Counter,
    sizes: Sizes,
}

impl Sent {
    /// Counts an event of this many bytes.
    pub(crate) fn event(&self, bytes: usize) {
        self.events.inc();
        self.sizes.observe(bytes as u64);
    }
}

/// A histogram of atomics.
#[derive(Debug, Clone, Default)]
struct Sizes(Arc<(AtomicU64, [AtomicU64; BOUNDS.len() + 1])>);

impl Sizes {
    fn observe(&self, bytes: u64) {
        let at = BOUNDS.iter().position(|bound| bytes <= u64::from(*bound)).unwrap_or(BOUNDS.len());
        self.0.0.fetch_add(bytes, Ordering::Relaxed);
        self.0.1[at].fetch_add(1, Ordering::Relaxed);
    }
}

impl TypedMetric for Sizes {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Sizes {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        let counts = self.0.1.each_ref().map(|count| count.load(Ordering::Relaxed));
        let bounds = BOUNDS.iter().map(|bound| f64::from(*bound)).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        // Sums of bytes stay exact in a float up to eight petabytes.
        #[expect(clippy::cast_precision_loss, reason = "a sum is a figure for graphs")]
        let sum = self.0.0.load(Ordering::Relaxed) as f64;
        encoder.encode_histogram::<NoLabelSet>(sum, counts.iter().sum(), &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_counted_below_their_bounds() {
        let (mut registry, sizes) = (Registry::default(), Sizes::default());
        registry.register("sizes", "Sizes", sizes.clone());
        [10, 1024, 1025, 1 << 20].into_iter().for_each(|bytes| sizes.observe(bytes));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "sizes_sum 1050635.0",
            "sizes_count 4",
            "sizes_bucket{le=\"1024.0\"} 2",
            "sizes_bucket{le=\"2048.0\"} 3",
            "sizes_bucket{le=\"131072.0\"} 3",
            "sizes_bucket{le=\"+Inf\"} 4",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
