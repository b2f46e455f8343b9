//! Cases as they lie on disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Where the cases are.
const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus");

/// What a case speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Requests of the API.
    Api,
    /// Lines of kubectl.
    Clients,
}

impl Tier {
    const ALL: [Self; 2] = [Self::Api, Self::Clients];

    fn folder(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Clients => "clients",
        }
    }
}

/// One case.
#[derive(Debug)]
pub struct Case {
    /// `api/NAME` or `clients/NAME`.
    pub name: String,
    /// What it speaks.
    pub tier: Tier,
    /// Its folder.
    pub folder: PathBuf,
    /// Its steps, in order.
    pub steps: Vec<Step>,
}

/// One step; exactly one of `run` and `request` is there.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Step {
    /// A line of kubectl, without its name: words in the manner of a shell, without expansion.
    pub run: Option<String>,
    /// What it reads.
    #[serde(default)]
    pub stdin: String,
    /// Its exit code.
    #[serde(default)]
    pub exit: i32,
    /// What it prints; `…` stands for anything in a line, and in a line of its own for any lines.
    pub stdout: Option<String>,
    /// What it complains.
    pub stderr: Option<String>,
    /// Method and path of a request.
    pub request: Option<String>,
    /// Its headers.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Its body: a text is sent as it is, all else as JSON.
    #[serde(default)]
    pub body: Value,
    /// The status code of the answer.
    pub status: Option<u16>,
    /// What the answer holds: fields may be missing here, `…` in texts stands for anything, and `null` for a field that is
    /// not there.
    pub answer: Option<Value>,
    /// The same for each line of a watch.
    pub events: Option<Vec<Value>>,
    /// Tried again until it is as expected, for what controllers do.
    #[serde(default)]
    pub eventually: bool,
    /// What of the answer later steps may write as `$NAME`: a JSON pointer by name.
    #[serde(default)]
    pub keep: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// What the case shows.
    #[expect(dead_code, reason = "for people")]
    about: String,
    steps: Vec<Step>,
}

/// A case whose expectations this project does not meet, on purpose.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// The case.
    pub case: String,
    /// The number of the step that ends otherwise; the first is 1.
    pub step: usize,
    /// Why.
    pub reason: String,
}

/// All cases, by tier and name.
///
/// # Errors
/// When one cannot be read.
pub fn cases() -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for tier in Tier::ALL {
        let folder = Path::new(CORPUS).join(tier.folder());
        for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let folder = entry?.path();
            let name =
                format!("{}/{}", tier.folder(), folder.file_name().unwrap_or_default().to_string_lossy());
            let File { steps, .. } = read(&folder.join("case.yaml"))?;
            for (at, step) in steps.iter().enumerate() {
                let one = step.run.is_some() != step.request.is_some();
                ensure!(one, "{name}: step {} is not one of `run` and `request`", at + 1);
            }
            cases.push(Case { name, tier, folder, steps });
        }
    }
    cases.sort_by(|a, b| (a.tier, &a.name).cmp(&(b.tier, &b.name)));
    Ok(cases)
}

/// What differs on purpose.
///
/// # Errors
/// When it cannot be read.
pub fn differences() -> Result<Vec<Difference>> {
    read(&Path::new(CORPUS).join("differences.yaml"))
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_saphyr::from_str(&text).with_context(|| path.display().to_string())
}
