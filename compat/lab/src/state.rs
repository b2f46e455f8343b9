//! What is known about a cluster on this machine: one directory, written before each step, so that `down` cleans
//! after an `up` that was killed anywhere.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::{ClusterName, Process, Role, Running, Topology};

/// Holds every cluster's directory. Gone with the machine's next start, as namespaces are.
const ROOT: &str = "/run/litek8s/dev";
/// How long a second command waits for a first one on the same cluster.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);

/// The file that is locked while a command works on a cluster.
const LOCK: &str = "lock";

/// How far `up` came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Phase {
    /// Anything may be there or not.
    Starting,
    /// Everything was there once.
    Up,
}

/// A cluster, as its directory remembers it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct State {
    pub(crate) name: ClusterName,
    pub(crate) nodes: u8,
    pub(crate) phase: Phase,
    /// The port on the host's 127.0.0.1; 0 until it is bound.
    pub(crate) port: u16,
    /// Where `--kubeconfig` asked for a copy.
    pub(crate) kubeconfig_copy: Option<PathBuf>,
    pub(crate) processes: Vec<Process>,
    /// The build that runs, so that another one replaces it.
    pub(crate) build: String,
}

impl State {
    pub(crate) fn topology(&self) -> Topology {
        Topology::new(self.name.clone(), self.nodes)
    }

    /// The process of a role in a member, dead or alive.
    pub(crate) fn process(&self, role: Role, member: &str) -> Option<&Process> {
        self.processes.iter().find(|process| process.role == role && process.member == member)
    }

    /// Every process, without what it does.
    pub(crate) fn running(&self) -> Vec<Running> {
        self.processes.iter().map(|process| process.running).collect()
    }

    /// Remembers a process in place of the one that had its role there.
    pub(crate) fn remember(&mut self, process: Process) {
        self.processes.retain(|old| (old.role, &old.member) != (process.role, &process.member));
        self.processes.push(process);
    }
}

/// A cluster's directory.
#[derive(Debug, Clone)]
pub(crate) struct Directory {
    path: PathBuf,
}

impl Directory {
    pub(crate) fn of(name: &ClusterName) -> Self {
        Self { path: Path::new(ROOT).join(name.as_str()) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.path.join("kubeconfig")
    }

    pub(crate) fn server_data(&self) -> PathBuf {
        self.path.join("server")
    }

    pub(crate) fn node_data(&self, member: &str) -> PathBuf {
        self.path.join("nodes").join(member)
    }

    pub(crate) fn log(&self, role: Role, member: &str) -> PathBuf {
        let file = match role {
            Role::Apiserver => "apiserver.log".to_owned(),
            Role::Agent => format!("agent-{member}.log"),
        };
        self.path.join("logs").join(file)
    }

    /// Makes the directory and its parts, readable by root alone: keys and tokens lie in it.
    pub(crate) fn create(&self) -> Result<()> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        for part in ["logs", "nodes", "server"] {
            let path = self.path.join(part);
            builder.create(&path).with_context(|| format!("make {}", path.display()))?;
        }
        Ok(())
    }

    /// Keeps other `up` and `down` commands away from this cluster while the lock lives.
    pub(crate) fn lock(&self) -> Result<Flock<File>> {
        let path = self.path.join(LOCK);
        let started = Instant::now();
        let open = || File::options().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let mut file = open().with_context(|| format!("open {}", path.display()))?;
        loop {
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => return Ok(lock),
                Err((_, errno)) if started.elapsed() > LOCK_PATIENCE => {
                    bail!("{}: another command works on this cluster ({errno})", path.display())
                }
                Err((back, _)) => file = back,
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The state, `None` when there is no cluster of that name.
    pub(crate) fn load(&self) -> Result<Option<State>> {
        let path = self.path.join("state.json");
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("read {}", path.display())),
        };
        serde_json::from_slice(&text).map(Some).with_context(|| format!("{} does not read", path.display()))
    }

    /// Replaces the state; a crash leaves the old one or the new one, never half of it.
    pub(crate) fn save(&self, state: &State) -> Result<()> {
        let text = serde_json::to_vec_pretty(state)?;
        write_private(&self.path.join("state.json"), &text)
    }

    /// Removes what a cluster left in its directory, but not the lock that is held.
    pub(crate) fn clear(&self) -> Result<()> {
        for entry in fs::read_dir(&self.path)?.flatten() {
            let path = entry.path();
            if path.is_dir() {
                fs::remove_dir_all(&path).with_context(|| format!("remove {}", path.display()))?;
            } else if entry.file_name() != LOCK {
                fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
            }
        }
        Ok(())
    }

    /// Removes the directory, and the ones above it when no other cluster is in them.
    pub(crate) fn remove(&self) -> std::io::Result<()> {
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // Not empty, or not there: both are fine.
        let _ = fs::remove_dir(ROOT);
        if let Some(parent) = Path::new(ROOT).parent() {
            let _ = fs::remove_dir(parent);
        }
        Ok(())
    }
}

/// Writes a file for root alone, in one step.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let temporary = PathBuf::from(name);
    let write = || -> std::io::Result<()> {
        let mut file =
            File::options().create(true).truncate(true).write(true).mode(0o600).open(&temporary)?;
        file.write_all(content)?;
        fs::rename(&temporary, path)
    };
    write().with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        State {
            name: "demo".parse().unwrap(),
            nodes: 3,
            phase: Phase::Starting,
            port: 0,
            kubeconfig_copy: None,
            processes: Vec::new(),
            build: String::new(),
        }
    }

    #[test]
    fn a_saved_state_reads_back_and_a_missing_one_is_none() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = Directory { path: temporary.path().join("demo") };
        assert_eq!(directory.load().unwrap(), None);
        directory.create().unwrap();
        let mut state = state();
        state.remember(Process {
            role: Role::Agent,
            member: "node-1".to_owned(),
            running: Running { pid: 7, started: 8 },
        });
        directory.save(&state).unwrap();
        assert_eq!(directory.load().unwrap(), Some(state));
    }

    #[test]
    fn a_restarted_process_replaces_the_old_one() {
        let mut state = state();
        for pid in [7, 9] {
            state.remember(Process {
                role: Role::Agent,
                member: "node-1".to_owned(),
                running: Running { pid, started: 1 },
            });
        }
        assert_eq!(state.processes.len(), 1);
        assert_eq!(state.process(Role::Agent, "node-1").unwrap().running.pid, 9);
    }
}
