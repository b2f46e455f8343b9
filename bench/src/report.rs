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
    /// The figure should reach this.
    AtLeast(f64),
    /// Nothing is promised; the figure is for orientation.
    None,
}

impl Target {
    fn text(self, unit: &str) -> String {
        match self {
            Self::AtMost(bound) => format!("≤ {} {unit}", number(bound)),
            Self::AtLeast(bound) => format!("≥ {} {unit}", number(bound)),
            Self::None => "–".into(),
        }
    }

    fn met(self, value: f64) -> &'static str {
        match self {
            Self::AtMost(bound) if value > bound => "no",
            Self::AtLeast(bound) if value < bound => "no",
            Self::AtMost(_) | Self::AtLeast(_) => "yes",
            Self::None => "",
        }
    }
}

/// One measured figure.
#[derive(Debug, Serialize)]
struct Figure {
    what: String,
    value: f64,
    unit: &'static str,
    target: Target,
    /// The same figure of a kube-apiserver with etcd.
    reference: Option<f64>,
}

/// All figures of one run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    facts: Facts,
    /// Where the reference figures come from.
    reference: &'static str,
    figures: Vec<Figure>,
}

impl Report {
    /// An empty report of the machine with these facts.
    pub(crate) fn new(facts: Facts) -> Self {
        Self { facts, reference: RECORDED_REFERENCE, figures: Vec::new() }
    }

    /// Says that the reference figures were measured in this run.
    pub(crate) fn reference_measured(&mut self) {
        self.reference = "a kube-apiserver measured in the same run";
    }

    /// Adds a figure and shows it as progress.
    pub(crate) fn add(
        &mut self,
        what: impl Into<String>,
        value: f64,
        unit: &'static str,
        target: Target,
        reference: Option<f64>,
    ) {
        let what = what.into();
        eprintln!("  {what}: {} {unit}", number(value));
        self.figures.push(Figure { what, value, unit, target, reference });
    }

    /// The report as Markdown.
    pub(crate) fn markdown(&self) -> String {
        let facts = &self.facts;
        let mut text = format!(
            "# Measured figures\n\n{} × {}, {} MiB, kernel {}, load {}, fdatasync of 4 KiB {} µs.\nReference: {}.\n\n",
            facts.cores,
            facts.cpu,
            facts.memory_mib,
            facts.kernel,
            facts.load,
            facts.fdatasync_us,
            self.reference
        );
        text.push_str(
            "| what | measured | target | met | reference | ratio |\n| --- | --- | --- | --- | --- | --- |\n",
        );
        for figure in &self.figures {
            let (reference, ratio) = figure.reference.map_or_else(Default::default, |reference| {
                let ratio =
                    if rate(figure.unit) { figure.value / reference } else { reference / figure.value };
                (format!("{} {}", number(reference), figure.unit), format!("{}×", number(ratio)))
            });
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "| {} | {} {} | {} | {} | {} | {} |",
                figure.what,
                number(figure.value),
                figure.unit,
                figure.target.text(figure.unit),
                figure.target.met(figure.value),
                reference,
                ratio
            );
        }
        text
    }

    /// Writes `latest.md` and `latest.json` into a directory.
    ///
    /// # Errors
    /// When the directory or a file cannot be written.
    pub(crate) fn write(&self, directory: &Path) -> anyhow::Result<PathBuf> {
        std::fs::create_dir_all(directory).with_context(|| format!("create {}", directory.display()))?;
        let markdown = directory.join("latest.md");
        std::fs::write(&markdown, self.markdown())
            .with_context(|| format!("write {}", markdown.display()))?;
        let json = directory.join("latest.json");
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        std::fs::write(&json, text).with_context(|| format!("write {}", json.display()))?;
        Ok(markdown)
    }
}

const RECORDED_REFERENCE: &str =
    "kube-apiserver 1.36 with etcd 3.6, recorded on two cores like these and not measured in this run";

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
