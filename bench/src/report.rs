//! Figures beside their targets, as Markdown for people and JSON for machines.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Serialize;

use crate::facts::Facts;

/// What a figure is held against.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) enum Target {
    /// The figure should not exceed this.
    AtMost(f64),
    /// The figure should be this many times better than the reference's.
    Times(f64),
    /// Nothing is promised; the figure is for orientation.
    None,
}

impl Target {
    fn text(self, unit: &str) -> String {
        match self {
            Self::AtMost(bound) => format!("≤ {} {unit}", number(bound)),
            Self::Times(bound) => format!("≥ {bound}×"),
            Self::None => "–".into(),
        }
    }

    /// What the table says: a ratio that could not be taken is neither met nor missed.
    fn met(self, value: f64, ratio: Option<f64>) -> &'static str {
        let met = match self {
            Self::AtMost(bound) => value <= bound,
            Self::Times(bound) => match ratio {
                Some(ratio) => ratio >= bound,
                None => return "",
            },
            Self::None => return "",
        };
        if met { "yes" } else { "no" }
    }
}

/// A figure of a kube-apiserver with etcd.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) enum Reference {
    /// Taken in the same run.
    Measured(f64),
    /// Taken once, on two cores like these.
    Recorded(f64),
}

/// One measured figure.
#[derive(Debug, Serialize)]
struct Figure {
    what: String,
    value: f64,
    unit: &'static str,
    target: Target,
    reference: Option<Reference>,
}

impl Figure {
    /// How many times better than the reference, whichever direction is better.
    fn ratio(&self) -> Option<f64> {
        let (Reference::Measured(reference) | Reference::Recorded(reference)) = self.reference?;
        Some(if rate(self.unit) { self.value / reference } else { reference / self.value })
    }

    fn reference_text(&self) -> String {
        match self.reference {
            Some(Reference::Measured(value)) => format!("{} {}", number(value), self.unit),
            Some(Reference::Recorded(value)) => format!("{} {}, recorded", number(value), self.unit),
            None => String::new(),
        }
    }
}

/// The figures of one part.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    part: &'static str,
    facts: Facts,
    figures: Vec<Figure>,
}

impl Report {
    /// An empty report of a part on the machine with these facts.
    pub(crate) fn new(part: &'static str, facts: Facts) -> Self {
        Self { part, facts, figures: Vec::new() }
    }

    /// Adds a figure and shows it as progress.
    pub(crate) fn add(
        &mut self,
        what: impl Into<String>,
        value: f64,
        unit: &'static str,
        target: Target,
        reference: Option<Reference>,
    ) {
        let what = what.into();
        eprintln!("  {what}: {} {unit}", number(value));
        self.figures.push(Figure { what, value, unit, target, reference });
    }

    /// The report as Markdown.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("# Measured figures: {}\n\n{}.\n", self.part, self.facts);
        let compared = self.figures.iter().any(|figure| figure.reference.is_some());
        let (heads, line) = if compared { (" reference | ratio |", " --- | --- |") } else { ("", "") };
        if compared {
            text.push_str(REFERENCE);
            text.push('\n');
        }
        // Writing to a string does not fail.
        let _ =
            writeln!(text, "\n| what | measured | target | met |{heads}\n| --- | --- | --- | --- |{line}");
        for figure in &self.figures {
            let ratio = figure.ratio();
            let _ = write!(
                text,
                "| {} | {} {} | {} | {} |",
                figure.what,
                number(figure.value),
                figure.unit,
                figure.target.text(figure.unit),
                figure.target.met(figure.value, ratio),
            );
            if compared {
                let ratio = ratio.map(|ratio| format!("{}×", number(ratio))).unwrap_or_default();
                let _ = write!(text, " {} | {ratio} |", figure.reference_text());
            }
            text.push('\n');
        }
        text
    }

    /// Writes `NAME.md` and `NAME.json` into a directory.
    ///
    /// # Errors
    /// When the directory or a file cannot be written.
    pub(crate) fn write(&self, directory: &Path, name: &str) -> anyhow::Result<PathBuf> {
        std::fs::create_dir_all(directory).with_context(|| format!("create {}", directory.display()))?;
        let markdown = directory.join(format!("{name}.md"));
        std::fs::write(&markdown, self.markdown())
            .with_context(|| format!("write {}", markdown.display()))?;
        let json = directory.join(format!("{name}.json"));
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        std::fs::write(&json, text).with_context(|| format!("write {}", json.display()))?;
        Ok(markdown)
    }
}

/// What the table's `reference` is.
const REFERENCE: &str = "Reference: kube-apiserver with etcd 3, measured in this run, or recorded once on two cores like \
                         these where it says so.";

/// Whether more is better.
fn rate(unit: &str) -> bool {
    unit.ends_with("/s")
}

fn number(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(value: f64, unit: &'static str, reference: f64) -> Figure {
        let reference = Some(Reference::Measured(reference));
        Figure { what: "it".into(), value, unit, target: Target::Times(5.0), reference }
    }

    #[test]
    fn a_ratio_says_how_much_better_in_both_directions() {
        assert_eq!(figure(1000.0, "/s", 100.0).ratio(), Some(10.0));
        assert_eq!(figure(20.0, "MiB", 100.0).ratio(), Some(5.0));
    }

    #[test]
    fn a_target_of_times_needs_a_reference() {
        let met = |ratio| Target::Times(5.0).met(1.0, ratio);
        assert_eq!([met(Some(5.0)), met(Some(4.9)), met(None)], ["yes", "no", ""]);
    }
}
