//! The last known state on disk: with it a restart keeps what is right while the API is away.

use std::path::{Path, PathBuf};

use litek8s_daemon::files;
use litek8s_plan::Facts;
use serde::{Deserialize, Serialize};

const FILE: &str = "last-known.json";
/// Of the format: a file of another version is passed over.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Stored {
    version: u32,
    facts: Facts,
}

/// The file, and what was written to it last.
#[derive(Debug)]
pub(crate) struct State {
    path: PathBuf,
    written: Option<Facts>,
}

impl State {
    pub(crate) fn new(directory: &Path) -> Self {
        Self { path: directory.join(FILE), written: None }
    }

    /// What an earlier run knew. A file that cannot be used is as none: then nothing is touched until the API answers.
    pub(crate) fn load(&mut self) -> Option<Facts> {
        let text = files::read_if_exists(&self.path).ok().flatten()?;
        match serde_json::from_str::<Stored>(&text) {
            Ok(stored) if stored.version == VERSION => {
                self.written = Some(stored.facts.clone());
                Some(stored.facts)
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
        let text = serde_json::to_vec(&Stored { version: VERSION, facts: facts.clone() })?;
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
        assert_eq!(State::new(directory.path()).load(), Some(facts));
        std::fs::write(directory.path().join(FILE), "{").unwrap();
        assert_eq!(State::new(directory.path()).load(), None);
        let mut state = State::new(directory.path());
        state.remove().unwrap();
        state.remove().unwrap();
        assert_eq!(state.load(), None);
    }
}
