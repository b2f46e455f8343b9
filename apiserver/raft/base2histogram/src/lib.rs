//! Stands in for the crate of this name, as far as openraft names it: counts samples and forgets their values.
//!
//! openraft fills histograms of its own doings whether or not anybody asks for them, and the crate it does that with
//! builds the tables of all sixteen precisions, 24 MiB, when it needs the smallest. Nothing here reads those
//! statistics: the server's metrics have histograms of their own.

use std::fmt;
use std::marker::PhantomData;

/// Counts samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram<T = ()> {
    samples: u64,
    slots: PhantomData<T>,
}

impl<T> Default for Histogram<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Histogram<T> {
    /// A histogram of nothing.
    pub fn new() -> Self {
        Self { samples: 0, slots: PhantomData }
    }

    /// Counts one sample.
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Counts samples of one value.
    pub fn record_n(&mut self, _value: u64, count: u64) {
        self.samples = self.samples.saturating_add(count);
    }

    /// How many samples there were; every percentile is zero.
    pub fn percentile_stats(&self) -> PercentileStats {
        PercentileStats { samples: self.samples, ..PercentileStats::default() }
    }
}

/// What a histogram says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is the percentile of its name")]
pub struct PercentileStats {
    pub samples: u64,
    pub p0_1: u64,
    pub p1: u64,
    pub p5: u64,
    pub p10: u64,
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub p99_9: u64,
}

impl fmt::Display for PercentileStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[samples: {}]", self.samples)
    }
}

/// A chart of nothing.
#[derive(Debug, Clone, Default)]
pub struct AsciiChart;

impl AsciiChart {
    /// An empty chart.
    pub fn new() -> Self {
        Self
    }

    /// Leaves the histogram out.
    #[must_use]
    pub fn add<T>(self, _name: &str, _histogram: Histogram<T>) -> Self {
        self
    }
}

impl fmt::Display for AsciiChart {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}
