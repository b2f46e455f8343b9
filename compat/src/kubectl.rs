//! The pinned kubectl against one cluster, with caches of its own.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::binary::workspace;

/// A kubectl that talks to one cluster.
#[derive(Debug, Clone)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
}

/// How a kubectl ended.
#[derive(Debug, Clone)]
pub struct Finished {
    /// Its exit code.
    pub code: i32,
    /// What it printed.
    pub stdout: String,
    /// What it complained.
    pub stderr: String,
}

impl Kubectl {
    /// The kubectl in `.tools/bin`, for the cluster of that kubeconfig.
    ///
    /// # Errors
    /// When `make tools` has not brought it.
    pub fn new(kubeconfig: &Path) -> Result<Self> {
        Ok(Self { program: tool("bin/kubectl")?, kubeconfig: kubeconfig.to_owned() })
    }

    /// Another client of the same cluster: a path below `.tools`, or a program of the machine.
    ///
    /// # Errors
    /// When a path below `.tools` is missing.
    pub fn with_client(&self, program: &str) -> Result<Self> {
        let program = if program.contains('/') { tool(program)? } else { program.into() };
        Ok(Self { program, kubeconfig: self.kubeconfig.clone() })
    }

    /// A kubectl command, not yet started. Its caches lie beside the kubeconfig.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        let home = self.kubeconfig.parent().unwrap_or(Path::new("/"));
        command.args(arguments).env("KUBECONFIG", &self.kubeconfig).env("HOME", home);
        command.env("KUBECACHEDIR", home.join("kubectl-cache"));
        command
    }

    /// Runs it to its end, whatever that is.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run(&self, arguments: &[&str], stdin: &str) -> Result<Finished> {
        Self::finish(self.command(arguments), stdin)
    }

    /// Runs a command to its end, whatever that is.
    pub(crate) fn finish(mut command: Command, stdin: &str) -> Result<Finished> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("start kubectl")?;
        feed(&mut child, stdin)?;
        Ok(Finished::of(&child.wait_with_output()?))
    }

    /// Runs it and gives what it printed.
    ///
    /// # Errors
    /// When it fails.
    pub fn ok(&self, arguments: &[&str]) -> Result<String> {
        self.run(arguments, "")?.success(arguments)
    }

    /// Applies a manifest.
    ///
    /// # Errors
    /// When it is refused.
    pub fn apply(&self, manifest: &str) -> Result<String> {
        let arguments = ["apply", "-f", "-"];
        self.run(&arguments, manifest)?.success(&arguments)
    }

    /// Applies a manifest that must be refused; gives the complaint.
    ///
    /// # Errors
    /// When it is accepted.
    pub fn refused(&self, manifest: &str) -> Result<String> {
        let finished = self.run(&["apply", "-f", "-"], manifest)?;
        if finished.code == 0 {
            bail!("accepted, and should not be: {manifest}\n{}", finished.stdout);
        }
        Ok(finished.stderr)
    }

    /// Gets something as JSON.
    ///
    /// # Errors
    /// When it is not there.
    pub fn json(&self, arguments: &[&str]) -> Result<Value> {
        let arguments: Vec<&str> = arguments.iter().copied().chain(["-o", "json"]).collect();
        Ok(serde_json::from_str(&self.ok(&arguments)?)?)
    }
}

impl Finished {
    fn of(output: &Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// What it printed, if it went well.
    ///
    /// # Errors
    /// With its complaint, if not.
    pub fn success(self, arguments: &[&str]) -> Result<String> {
        if self.code != 0 {
            bail!("{}: exit {}\n{}{}", arguments.join(" "), self.code, self.stdout, self.stderr);
        }
        Ok(self.stdout)
    }
}

/// A path below `.tools`.
///
/// # Errors
/// When nothing is there.
pub fn tool(path: &str) -> Result<PathBuf> {
    let path = workspace().join(".tools").join(path);
    if !path.exists() {
        bail!("{} is missing: run `scripts/tools.sh test`", path.display());
    }
    Ok(path)
}

fn feed(child: &mut Child, text: &str) -> Result<()> {
    if let Some(mut stdin) = child.stdin.take() {
        match stdin.write_all(text.as_bytes()) {
            // It ended without reading all: its exit code tells why.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            other => other?,
        }
    }
    Ok(())
}
