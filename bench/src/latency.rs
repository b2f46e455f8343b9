//! Latencies of one scenario: kept whole, because a percentile of a sample is not a percentile.

use std::time::Duration;

/// Every latency of one scenario.
#[derive(Debug, Default)]
pub(crate) struct Latencies(Vec<Duration>);

impl Latencies {
    /// Adds one.
    pub(crate) fn record(&mut self, latency: Duration) {
        self.0.push(latency);
    }

    /// Adds all of another's.
    pub(crate) fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The latency that `part` (0 to 100) per cent of them do not exceed, in milliseconds; 0 when there are none.
    pub(crate) fn percentile(&mut self, part: usize) -> f64 {
        self.0.sort_unstable();
        let rank = (self.0.len() * part).div_ceil(100).max(1) - 1;
        self.0.get(rank).map_or(0.0, |latency| latency.as_secs_f64() * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_least_latency_that_covers_it() {
        let mut latencies = Latencies::default();
        (1..=100).for_each(|ms| latencies.record(Duration::from_millis(ms)));
        assert_eq!(latencies.percentile(50), 50.0);
        assert_eq!(latencies.percentile(99), 99.0);
        assert_eq!(latencies.percentile(100), 100.0);
    }

    #[test]
    fn no_latencies_have_the_percentile_zero() {
        assert_eq!(Latencies::default().percentile(99), 0.0);
    }
}
