//! What `/proc/self` says at each scrape: memory, processor time, descriptors, threads.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Clock ticks a second in `/proc/self/stat`: USER_HZ, 100 on every architecture Linux builds for today.
const TICKS_PER_SECOND: f64 = 100.0;

/// Reads `/proc/self` when it is asked.
#[derive(Debug)]
pub(super) struct ProcessCollector;

/// The figures; what cannot be read is left out.
#[derive(Debug, Default)]
struct Figures {
    resident_bytes: Option<i64>,
    threads: Option<i64>,
    cpu_seconds: Option<f64>,
    open_files: Option<i64>,
}

impl Figures {
    fn read() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let open = std::fs::read_dir("/proc/self/fd").ok().and_then(|d| i64::try_from(d.count()).ok());
        Self {
            resident_bytes: field(&status, "VmRSS:").map(|kib| kib * 1024),
            threads: field(&status, "Threads:"),
            cpu_seconds: cpu_seconds(&stat),
            // The listing itself holds one descriptor.
            open_files: open.map(|n| n - 1),
        }
    }
}

fn field(status: &str, name: &str) -> Option<i64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Fields 14 and 15; counting starts after the last parenthesis, because a command name may hold anything.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let figures = Figures::read();
        let gauges = [
            ("process_resident_memory_bytes", "Resident memory size in bytes", figures.resident_bytes),
            ("process_threads", "Threads of the process", figures.threads),
            ("process_open_fds", "Open file descriptors", figures.open_files),
        ];
        for (name, help, value) in gauges {
            let Some(value) = value else { continue };
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        if let Some(seconds) = figures.cpu_seconds {
            let counter = ConstCounter::new(seconds);
            let help = "User and system processor time in seconds";
            counter.encode(encoder.encode_descriptor(
                "process_cpu_seconds",
                help,
                None,
                counter.metric_type(),
            )?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_name_with_parentheses_does_not_shift_the_fields() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 250 150 0 0 20";
        assert_eq!(cpu_seconds(stat), Some(4.0));
    }
}
