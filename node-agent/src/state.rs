//! The last known state on disk: with it a restart keeps what is right while the API is away.

use std::path::{Path, PathBuf};

use litek8s_daemon::files;
use litek8s_plan::Facts;
use serde::{Deserialize, Serialize};

use crate::boot;

const FILE: &str = "last-known.json";
/// Of the format: a file of another version is passed over.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Stored {
    version: u32,
    /// The kernel's number of the boot it was written in; a file of an older agent has none.
    #[serde(default)]
    boot: String,
    facts: Facts,
}

/// What an earlier run knew.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Known {
    pub(crate) facts: Facts,
    /// Whether the machine was started anew since: then nothing of it is in the kernel, and others may have its VIPs.
    pub(crate) rebooted: bool,
}

/// The file, and what was written to it last.
#[derive(Debug)]
pub(crate) struct State {
    path: PathBuf,
    boot: String,
    written: Option<Facts>,
}

impl State {
    pub(crate) fn new(directory: &Path) -> Self {
        Self::of_boot(directory, boot::id())
    }

    fn of_boot(directory: &Path, boot: String) -> Self {
        Self { path: directory.join(FILE), boot, written: None }
    }

    /// What an earlier run knew. A file that cannot be used is as none: then nothing is touched until the API answers.
    pub(crate) fn load(&mut self) -> Option<Known> {
        let text = files::read_if_exists(&self.path).ok().flatten()?;
        match serde_json::from_str::<Stored>(&text) {
            Ok(stored) if stored.version == VERSION => {
                let rebooted = !boot::is_same(&stored.boot, &self.boot);
                if !rebooted {
                    self.written = Some(stored.facts.clone());
                }
                Some(Known { facts: stored.facts, rebooted })
            }
            Ok(_) | Err(_) => {
                tracing::warn!(path = %self.path.display(), "the last known state cannot be used");
                None
            }
        }
    }

    /// Writes what is known now, if it differs.
    pub(crate) fn save(&mut self, facts: &Facts) {
        let mut facts = facts.clone();
        facts.interfaces.clear();
        facts.excluded.clear();
        facts.closed.clear();
        facts.hops.clear();
        facts.in_company = false;
        facts.tunnels.clear();
        facts.allowed_ips.clear();
        if self.written.as_ref() == Some(&facts) {
            return;
        }
        if let Err(error) = self.write(&facts) {
            tracing::warn!(%error, path = %self.path.display(), "cannot keep the last known state");
        }
        self.written = Some(facts);
    }

    fn write(&self, facts: &Facts) -> anyhow::Result<()> {
        if let Some(directory) = self.path.parent() {
            files::private_directory(directory)?;
        }
        let text =
            serde_json::to_vec(&Stored { version: VERSION, boot: self.boot.clone(), facts: facts.clone() })?;
        Ok(files::write_private(&self.path, &text)?)
    }

    /// Forgets everything.
    pub(crate) fn remove(&mut self) -> std::io::Result<()> {
        self.written = None;
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_is_loaded_and_a_broken_file_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let facts = Facts { mask: 0x7f, node_addresses: vec![[192, 0, 2, 1].into()], ..Facts::default() };
        State::new(directory.path()).save(&facts);
        let known = |rebooted| Some(Known { facts: facts.clone(), rebooted });
        assert_eq!(State::new(directory.path()).load(), known(false));
        let mut other = State::of_boot(directory.path(), "another".into());
        assert_eq!(other.load(), known(true));
        other.save(&facts);
        assert_eq!(State::of_boot(directory.path(), "another".into()).load(), known(false));
        std::fs::write(directory.path().join(FILE), "{").unwrap();
        assert_eq!(State::new(directory.path()).load(), None);
        let mut state = State::new(directory.path());
        state.remove().unwrap();
        state.remove().unwrap();
        assert_eq!(state.load(), None);
    }
}
