//! A server of our own on loopback with a throw-away data directory; ended when dropped.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::client::Target;

/// How long anything may take before the run is called hung.
const HANG: Duration = Duration::from_secs(60);

/// A running server.
pub(crate) struct Server {
    process: Child,
    directory: tempfile::TempDir,
    port: u16,
}

impl Server {
    /// Starts one and waits until it is ready; returns it and the time from the start of the process to ready.
    ///
    /// # Errors
    /// When the process does not start or does not become ready.
    pub(crate) async fn start(binary: &Path) -> anyhow::Result<(Self, Duration)> {
        let directory = tempfile::tempdir()?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let begin = Instant::now();
        let process = Self::spawn(binary, directory.path(), port)?;
        let mut server = Self { process, directory, port };
        server.ready().await?;
        Ok((server, begin.elapsed()))
    }

    /// Ends the process as a power failure would and starts it again on the same data.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub(crate) async fn crash_and_start(&mut self, binary: &Path) -> anyhow::Result<Duration> {
        self.process.kill()?;
        self.process.wait()?;
        let begin = Instant::now();
        self.process = Self::spawn(binary, self.directory.path(), self.port)?;
        self.ready().await?;
        Ok(begin.elapsed())
    }

    /// Who to ask for everything.
    ///
    /// # Errors
    /// When the kubeconfig is not there.
    pub(crate) fn target(&self) -> anyhow::Result<Target> {
        Target::from_kubeconfig(&self.kubeconfig())
    }

    /// The administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    /// The number of its process.
    pub(crate) fn process(&self) -> u32 {
        self.process.id()
    }

    fn spawn(binary: &Path, directory: &Path, port: u16) -> anyhow::Result<Child> {
        let log = std::fs::File::create(directory.join("log"))?;
        Command::new(binary)
            .arg("apiserver")
            .args(["--listen", &format!("127.0.0.1:{port}")])
            .args(["--advertise-address", "127.0.0.1"])
            .arg("--data-dir")
            .arg(directory.join("data"))
            .arg("--kubeconfig")
            .arg(directory.join("kubeconfig"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .with_context(|| format!("start {}", binary.display()))
    }

    async fn ready(&mut self) -> anyhow::Result<()> {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait()? {
                let log = std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
                bail!("the server ended with {status}:\n{log}");
            }
            if let Ok(target) = self.target()
                && let Ok(mut connection) = target.connect().await
                && connection.get("/readyz").await.is_ok()
            {
                return Ok(());
            }
            if begin.elapsed() > HANG {
                bail!("the server was not ready after {HANG:?}");
            }
            // The process offers nothing to wait on before it listens; the step bounds the figure's error.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// Resident memory of some processes together, in MiB.
///
/// # Errors
/// When one of them has ended.
pub(crate) fn resident_mib(processes: &[u32]) -> anyhow::Result<f64> {
    let mut sum = 0.0;
    for process in processes {
        let path = format!("/proc/{process}/status");
        let status = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
        let kib: f64 = line.split_whitespace().nth(1).context("no VmRSS value")?.parse()?;
        sum += kib / 1024.0;
    }
    Ok(sum)
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already; what it left is in a temporary directory.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
