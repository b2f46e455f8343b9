//! What the agent added to the WireGuard interfaces of others, on disk: written before it is added, and good for one boot.
//! What is not in there is never taken away.

use std::io;
use std::path::{Path, PathBuf};

use litek8s_daemon::files;
use litek8s_plan::{Claims, Desired, Observed, Op};
use serde::{Deserialize, Serialize};

use crate::boot;

const FILE: &str = "allowed-ips.json";
/// Of the format: a file of another version is passed over.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Stored {
    version: u32,
    boot: String,
    claims: Claims,
}

/// The file, and what is in it.
#[derive(Debug)]
pub(crate) struct Ledger {
    path: PathBuf,
    boot: String,
    claims: Claims,
}

impl Ledger {
    /// What earlier agents added since this machine booted. The interfaces of an earlier boot are gone, and what they had.
    pub(crate) fn open(directory: &Path) -> Self {
        Self::of_boot(directory, &boot::id())
    }

    fn of_boot(directory: &Path, boot: &str) -> Self {
        let path = directory.join(FILE);
        let mut ledger = Self { path, boot: boot.to_owned(), claims: Claims::default() };
        match files::read_if_exists(&ledger.path).map(|text| text.map(|text| serde_json::from_str(&text))) {
            Ok(None) => {}
            Ok(Some(Ok(Stored { version: VERSION, boot, claims }))) => {
                if boot::is_same(&boot, &ledger.boot) {
                    ledger.claims = claims;
                }
            }
            Ok(Some(_)) | Err(_) => {
                let path = ledger.path.display();
                tracing::warn!(%path, "what was added to WireGuard interfaces cannot be read: it stays there");
            }
        }
        ledger
    }

    /// Tells ours from theirs.
    pub(crate) fn sort_out(&self, observed: &mut Observed) {
        self.claims.sort_out(observed);
    }

    /// Notes what these changes will add, before they are made.
    ///
    /// # Errors
    /// When it cannot be written: then nothing may be added.
    pub(crate) fn before(&mut self, observed: &Observed, ops: &[Op]) -> io::Result<()> {
        self.keep(Claims::before(observed, ops))
    }

    /// Notes what is left after all changes were made but for the refused ones.
    ///
    /// # Errors
    /// When it cannot be written: then more is noted than is there, which the next note mends.
    pub(crate) fn after<'a>(
        &mut self,
        desired: &'a Desired,
        observed: &Observed,
        refused: impl Iterator<Item = &'a Op>,
    ) -> io::Result<()> {
        self.keep(Claims::after(desired, observed, refused))
    }

    fn keep(&mut self, claims: Claims) -> io::Result<()> {
        if claims == self.claims {
            return Ok(());
        }
        if let Some(directory) = self.path.parent() {
            files::private_directory(directory)?;
        }
        let stored = Stored { version: VERSION, boot: self.boot.clone(), claims: claims.clone() };
        files::write_private(&self.path, &serde_json::to_vec(&stored)?)?;
        self.claims = claims;
        Ok(())
    }

    /// Forgets everything.
    pub(crate) fn remove(&mut self) -> io::Result<()> {
        self.claims = Claims::default();
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use litek8s_plan::{AllowedIp, PeerKey, Tunnel};

    use super::*;

    #[test]
    fn what_was_added_is_known_to_the_next_agent_of_the_same_boot() {
        let directory = tempfile::tempdir().unwrap();
        let open = |boot| Ledger::of_boot(directory.path(), boot);
        let tunnels = [("wg0".to_owned(), Tunnel { index: 7, ..Tunnel::default() })].into();
        let observed = Observed { tunnels, ..Observed::default() };
        let key = AllowedIp { interface: "wg0".into(), network: "172.30.0.0/16".parse().unwrap() };
        open("one").before(&observed, &[Op::AddAllowedIp(key, PeerKey([2; 32]))]).unwrap();
        let known = open("one").claims;
        assert_ne!(known, Claims::default());
        assert_eq!(open("two").claims, Claims::default(), "its interfaces are others");
        let text = std::fs::read_to_string(directory.path().join(FILE)).unwrap();
        assert!(text.contains(r#""peer":"AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=""#), "{text}");

        std::fs::write(directory.path().join(FILE), "{").unwrap();
        assert_eq!(open("one").claims, Claims::default());
        let mut ledger = open("one");
        ledger.remove().unwrap();
        ledger.remove().unwrap();
    }
}
