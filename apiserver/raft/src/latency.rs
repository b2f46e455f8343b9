//! A histogram of durations that many threads may read while one writes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Four buckets to the power of two, from 1 µs to an hour.
const BUCKETS: usize = 128;

/// How long something took, how often.
pub(crate) struct Latency {
    buckets: [AtomicU64; BUCKETS],
    count: AtomicU64,
}

impl Default for Latency {
    fn default() -> Self {
        Self { buckets: [const { AtomicU64::new(0) }; BUCKETS], count: AtomicU64::new(0) }
    }
}

impl Latency {
    pub(crate) fn record(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.buckets[bucket(micros)].fetch_add(1, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The duration that this many per cent did not exceed, to a fifth of its value.
    pub(crate) fn percentile(&self, percent: u64) -> Duration {
        let total = self.count();
        let mut left = total.saturating_mul(percent).div_ceil(100);
        for (number, count) in self.buckets.iter().enumerate() {
            left = left.saturating_sub(count.load(Ordering::Relaxed));
            if left == 0 {
                return if total == 0 { Duration::ZERO } else { Duration::from_micros(upper(number)) };
            }
        }
        Duration::from_micros(upper(BUCKETS - 1))
    }
}

fn bucket(micros: u64) -> usize {
    let micros = micros.max(1);
    let power = micros.ilog2();
    let quarter = if power >= 2 { (micros >> (power - 2)) & 3 } else { (micros << (2 - power)) & 3 };
    (power as usize * 4 + usize::from(quarter.to_le_bytes()[0])).min(BUCKETS - 1)
}

fn upper(bucket: usize) -> u64 {
    let power = bucket / 4;
    ((4 + bucket as u64 % 4 + 1) << power) / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_near_the_truth() {
        let latency = Latency::default();
        for micros in 1..=1000 {
            latency.record(Duration::from_micros(micros));
        }
        let p50 = latency.percentile(50).as_micros();
        let p99 = latency.percentile(99).as_micros();
        assert!((500..=640).contains(&p50), "{p50}");
        assert!((990..=1280).contains(&p99), "{p99}");
    }

    #[test]
    fn nothing_recorded_is_zero() {
        assert_eq!(Latency::default().percentile(99), Duration::ZERO);
    }
}
