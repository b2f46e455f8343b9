//! What the replica and the store say at each scrape.

use std::fmt;

use litek8s_raft::Replica;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Reads a replica when it is asked.
pub(super) struct StoreCollector(pub(super) Replica);

impl fmt::Debug for StoreCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreCollector")
    }
}

impl Collector for StoreCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let status = self.0.status();
        let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let whole = [
            ("litek8s_raft_term", "The term", count(status.leadership.term)),
            ("litek8s_raft_leader", "Whether this server leads", i64::from(status.leadership.leader)),
            ("litek8s_raft_voters", "Servers whose votes count", count(status.voters.len() as u64)),
            ("litek8s_raft_applied_index", "The last entry applied", count(status.applied.unwrap_or(0))),
            ("litek8s_store_revision", "The cluster's resourceVersion", count(status.revision)),
        ];
        for (name, help, value) in whole {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        let seconds = [
            (
                "litek8s_raft_sync_p50_seconds",
                "Time that half of the log's syncs did not exceed",
                status.sync_p50,
            ),
            ("litek8s_raft_sync_p99_seconds", "Time that 99 of 100 syncs did not exceed", status.sync_p99),
        ];
        for (name, help, value) in seconds {
            let gauge = ConstGauge::new(value.as_secs_f64());
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        let syncs = ConstCounter::new(status.syncs);
        syncs.encode(encoder.encode_descriptor(
            "litek8s_raft_syncs",
            "Syncs of the log",
            None,
            syncs.metric_type(),
        )?)?;
        let view = self.0.view();
        let mut objects = encoder.encode_descriptor(
            "apiserver_storage_objects",
            "Objects in the store by resource",
            None,
            prometheus_client::metrics::MetricType::Gauge,
        )?;
        for (resource, number) in view.resources() {
            let labels = [("resource", resource.to_string())];
            ConstGauge::new(count(number as u64)).encode(objects.encode_family(&labels)?)?;
        }
        let mut objects = encoder.encode_descriptor(
            "apiserver_resource_objects",
            "Objects in the store by group and resource",
            None,
            prometheus_client::metrics::MetricType::Gauge,
        )?;
        for (resource, number) in view.resources() {
            let labels = [("group", resource.group.to_string()), ("resource", resource.resource.to_string())];
            ConstGauge::new(count(number as u64)).encode(objects.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
