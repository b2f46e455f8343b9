//! A dev cluster under test, with its kubectl.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use anyhow::{Context, Result, bail};
use litek8s_lab::{Lab, LabOptions, Member, Role};
use serde_json::Value;

use crate::{Background, Kubectl, litek8s};

/// Milliseconds that an answer may take. An ICMP error that arrives while `connect` still has the socket is only noted;
/// the second SYN, after a second, brings it again.
const ANSWER_MS: &str = "1500";
/// The client behind the router, on no network of the nodes.
const FAR_CLIENT: &str = "198.51.100.1";
const FAR_CLIENT_V6: &str = "2001:db8:51::1";

/// A running cluster; gone when dropped.
#[derive(Debug)]
pub struct Cluster {
    /// Its network and processes.
    pub lab: Lab,
    /// Its administrator's kubectl.
    pub kubectl: Kubectl,
    program: PathBuf,
}

impl Cluster {
    /// Starts a cluster. Without nodes it is an API server alone.
    ///
    /// # Errors
    /// When it does not come up, or `make tools` was not run.
    pub async fn up(name: &str, nodes: u8) -> Result<Self> {
        Self::start_lab(name, nodes, true).await
    }

    /// Starts an API server and so many machines, with neither controllers nor agents: somebody else's cluster.
    ///
    /// # Errors
    /// As [`Cluster::up`].
    pub async fn without_suite(name: &str, machines: u8) -> Result<Self> {
        Self::start_lab(name, machines, false).await
    }

    async fn start_lab(name: &str, nodes: u8, suite: bool) -> Result<Self> {
        // Another test of this process may have been first.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let program = litek8s()?;
        let lab =
            Lab::up(LabOptions { name: name.to_owned(), nodes, program: program.clone(), suite }).await?;
        let kubectl = Kubectl::new(&lab.kubeconfig())?;
        Ok(Self { lab, kubectl, program })
    }

    /// Runs a program in a member to its end; gives what it printed.
    ///
    /// # Errors
    /// When it fails.
    pub fn run(&self, member: &Member, line: &[&str]) -> Result<String> {
        let (program, arguments) = line.split_first().context("no program")?;
        let output = self.lab.command(member, program)?.args(arguments).output()?;
        printed(&output).with_context(|| format!("{} in {member}", line.join(" ")))
    }

    /// Starts a program in a member; it is killed when the handle is dropped.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(&self, member: &Member, line: &[&str]) -> Result<Background> {
        let (program, arguments) = line.split_first().context("no program")?;
        let mut command = self.lab.command(member, program)?;
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        Background::start(command)
    }

    /// Starts the tiny responder in a member and waits until it answers there.
    ///
    /// # Errors
    /// When it does not.
    pub fn responder(&self, member: &Member, port: u16) -> Result<Background> {
        let program = self.program.display().to_string();
        let name = member.to_string();
        let line = [&program, "dev", "respond", "--name", &name, "--port", &port.to_string()];
        let running = self.start(member, &line)?;
        crate::eventually("the responder", || self.ask(member, &format!("http://127.0.0.1:{port}/"), None))?;
        Ok(running)
    }

    /// One HTTP request from a member; gives the answer's text.
    ///
    /// # Errors
    /// When there is no answer within [`ANSWER_MS`].
    pub fn ask(&self, from: &Member, url: &str, source: Option<&str>) -> Result<String> {
        let program = self.program.display().to_string();
        let mut line = vec![program.as_str(), "dev", "request", "--timeout", ANSWER_MS, url];
        line.extend(source.into_iter().flat_map(|source| ["--source", source]));
        Ok(self.run(from, &line)?.trim().to_owned())
    }

    /// The `litek8s` binary under test.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// One HTTP request from the client behind the router.
    ///
    /// # Errors
    /// When there is no answer within [`ANSWER_MS`].
    pub fn ask_from_outside(&self, url: &str) -> Result<String> {
        let client = if url.contains("//[") { FAR_CLIENT_V6 } else { FAR_CLIENT };
        self.ask(&Member::Outside, url, Some(client))
    }

    /// Every VipAddress: address without prefix, node, and whether it is Ready.
    ///
    /// # Errors
    /// When the API does not answer.
    pub fn vips(&self) -> Result<Vec<(String, String, bool)>> {
        let list = self.kubectl.json(&["get", "vipaddresses", "-A"])?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        Ok(items.iter().map(vip).collect())
    }

    /// Which node holds an address, once it is Ready there.
    ///
    /// # Errors
    /// When it is nowhere, or not yet.
    pub fn holder(&self, address: &str) -> Result<String> {
        let vips = self.vips()?;
        let held = vips.iter().find(|(vip, _, ready)| vip == address && *ready);
        held.map(|(_, node, _)| node.clone()).with_context(|| format!("{address} is not ready in {vips:?}"))
    }

    /// The ends of every log: what a failed test prints.
    pub fn logs(&self) -> String {
        let mut text = String::new();
        let members = self.lab.topology().members();
        let agents =
            members.iter().filter(|member| matches!(member, Member::Node(_))).map(|m| (Role::Agent, m));
        for (role, member) in [(Role::Apiserver, &Member::Server)].into_iter().chain(agents) {
            let log = std::fs::read_to_string(self.lab.log(role, member)).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let end = lines[lines.len().saturating_sub(40)..].join("\n");
            let _ = writeln!(text, "--- {role:?} in {member}\n{end}");
        }
        text
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
    }
}

fn vip(item: &Value) -> (String, String, bool) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let cidr = text(&item["spec"]["virtualCIDR"]);
    let address = cidr.split('/').next().unwrap_or_default().to_owned();
    let conditions = item["status"]["conditions"].as_array();
    let ready =
        conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"));
    (address, text(&item["spec"]["node"]), ready)
}

pub(crate) fn printed(output: &Output) -> Result<String> {
    if !output.status.success() {
        bail!("{}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
