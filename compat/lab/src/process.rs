//! Processes of a cluster: started in a namespace, known by pid and start time, found again by their namespace.

use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result};
use litek8s_kernel::Netns;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

/// What a process does for the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The API server.
    Apiserver,
    /// A node's agent.
    Agent,
}

/// A process as the kernel tells it from every other, a later one with the same pid included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Running {
    /// Its pid.
    pub pid: u32,
    /// When it started, in clock ticks since the machine's boot.
    pub started: u64,
}

/// A process of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Process {
    /// What it does.
    pub role: Role,
    /// The member it runs in.
    pub member: String,
    /// The process itself.
    #[serde(flatten)]
    pub running: Running,
}

impl Running {
    /// Whether it still runs or holds its files. A zombie does neither, once its last thread is gone.
    pub fn alive(&self) -> bool {
        Stat::read(self.pid)
            .is_some_and(|stat| stat.started == self.started && (!stat.zombie || self.has_threads()))
    }

    /// Whether threads beside the first are left: a killed process keeps its sockets until they are gone.
    fn has_threads(&self) -> bool {
        fs::read_dir(format!("/proc/{}/task", self.pid)).is_ok_and(|tasks| tasks.count() > 1)
    }

    /// Sends it a signal; nothing happens when it is gone.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        if !self.alive() {
            return Ok(());
        }
        let Ok(pid) = i32::try_from(self.pid) else { return Ok(()) };
        match kill(Pid::from_raw(pid), signal) {
            Ok(()) | Err(Errno::ESRCH) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl Process {
    /// Whether it still runs.
    pub fn alive(&self) -> bool {
        self.running.alive()
    }
}

/// How a program is started.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) program: &'a Path,
    pub(crate) arguments: Vec<String>,
    pub(crate) log: PathBuf,
    /// A listening socket it inherits as systemd hands them over (`LISTEN_FDS`).
    pub(crate) listener: Option<TcpListener>,
}

/// Starts a program in a namespace, in a process group of its own, with its output in a log.
pub(crate) fn launch(namespace: &Netns, launch: Launch<'_>) -> Result<Running> {
    let open = || File::options().create(true).append(true).open(&launch.log);
    let log = open().with_context(|| format!("open {}", launch.log.display()))?;
    let errors = log.try_clone()?;
    let mut command = match launch.listener {
        None => {
            let mut command = namespace.command(launch.program)?;
            command.stdin(Stdio::null());
            command
        }
        Some(listener) => {
            // LISTEN_PID is the pid after fork, which only the child knows; the shell keeps it through its exec.
            let mut command = namespace.command("/bin/sh")?;
            let shim = r#"export LISTEN_FDS=1 LISTEN_PID=$$; exec "$@" 3<&0 </dev/null"#;
            command.args(["-c", shim, "sh"]).arg(launch.program);
            command.stdin(Stdio::from(OwnedFd::from(listener)));
            command
        }
    };
    command.args(&launch.arguments).stdout(log).stderr(errors).current_dir("/").process_group(0);
    let child = command.spawn().with_context(|| format!("start {}", launch.program.display()))?;
    let pid = child.id();
    // A process that ended already is noticed by whoever waits for what it should do.
    Ok(Running { pid, started: Stat::read(pid).map_or(0, |stat| stat.started) })
}

/// Every process whose main thread is in the namespace of that file, but not this one.
pub(crate) fn in_namespace(path: &Path) -> io::Result<Vec<Running>> {
    let inode = fs::metadata(path)?;
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        if pid == std::process::id() {
            continue;
        }
        let same = fs::metadata(entry.path().join("ns/net"))
            .is_ok_and(|meta| meta.ino() == inode.ino() && meta.dev() == inode.dev());
        if let Some(stat) = Stat::read(pid).filter(|stat| same && !stat.zombie) {
            found.push(Running { pid, started: stat.started });
        }
    }
    Ok(found)
}

/// What `/proc/PID/stat` says that we need.
#[derive(Debug)]
struct Stat {
    zombie: bool,
    started: u64,
}

/// Where the start time stands, counted from the state that follows the command's closing bracket (proc(5)).
const START_TIME_FIELD: usize = 19;

impl Stat {
    fn read(pid: u32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Option<Self> {
        // The command may hold brackets and spaces of its own: the last bracket ends it.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let zombie = matches!(*fields.first()?, "Z" | "X");
        Some(Self { zombie, started: fields.get(START_TIME_FIELD)?.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_with_brackets_does_not_move_the_fields() {
        let tail = "S 1 7 7 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0";
        let stat = Stat::parse(&format!("7 (a) b (c)) {tail}")).unwrap();
        assert_eq!((stat.zombie, stat.started), (false, 4711));
        assert!(Stat::parse("7 (x) Z 1").is_none());
    }

    #[test]
    fn a_reused_pid_is_not_the_process() {
        let own = Stat::read(std::process::id()).unwrap();
        let mut process = Running { pid: std::process::id(), started: own.started };
        assert!(process.alive());
        process.started += 1;
        assert!(!process.alive());
    }
}
