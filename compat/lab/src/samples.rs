//! What a process tells Prometheus, read back.

/// The samples of one look at `/metrics`, in OpenMetrics text.
#[derive(Debug, Clone)]
pub struct Samples(Vec<(String, f64)>);

impl Samples {
    /// Reads the text; what is no sample is passed over.
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let samples = lines.filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            Some((series.to_owned(), value.parse().ok()?))
        });
        Self(samples.collect())
    }

    /// The sum over all series of a metric that have these labels, each as `name="value"`.
    pub fn sum(&self, metric: &str, labels: &[&str]) -> f64 {
        let found = self.0.iter().filter(|(series, _)| {
            let (name, set) = series.split_once('{').unwrap_or((series, ""));
            let set: Vec<&str> = set.trim_end_matches('}').split(',').collect();
            name == metric && labels.iter().all(|label| set.contains(label))
        });
        found.map(|(_, value)| value).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_summed_by_name_and_labels() {
        let text = "# TYPE asked counter\nasked_total{verb=\"get\",resource=\"pods\"} 2\n\
            asked_total{verb=\"get\",resource=\"nodes\"} 3\nasked_total{verb=\"list\",resource=\"pods\"} 5\n\
            asked_totals 7\nplain 1.5\n# EOF\n";
        let samples = Samples::parse(text);
        assert_eq!(samples.sum("asked_total", &[]), 10.0);
        assert_eq!(samples.sum("asked_total", &["verb=\"get\""]), 5.0);
        assert_eq!(samples.sum("asked_total", &["verb=\"get\"", "resource=\"pods\""]), 2.0);
        assert_eq!(samples.sum("asked", &[]), 0.0);
        assert_eq!(samples.sum("plain", &[]), 1.5);
    }
}
