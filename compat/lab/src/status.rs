//! What of a cluster is there: members, addresses, processes, the API.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use litek8s_kernel::{Links, Netns};
use serde::Serialize;

use crate::state::{Directory, Phase};
use crate::{ClusterName, Member, Role, Topology, ready};

/// A cluster as it is now.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    name: ClusterName,
    /// Whether `up` finished once.
    up: bool,
    api_ready: bool,
    server: String,
    kubeconfig: String,
    members: Vec<MemberStatus>,
}

/// One member as it is now.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MemberStatus {
    name: String,
    namespace: String,
    present: bool,
    /// Every address, as `device address/prefix`.
    addresses: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<ProcessStatus>,
}

/// A member's process as it is now.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProcessStatus {
    role: Role,
    pid: u32,
    alive: bool,
    log: String,
}

/// Looks at the cluster of that name.
pub(crate) async fn status(name: &ClusterName) -> Result<Status> {
    let directory = Directory::of(name);
    let state = directory
        .load()?
        .with_context(|| format!("there is no dev cluster {name}: litek8s dev up --name {name}"))?;
    let topology = state.topology();
    let mut members = Vec::new();
    for member in topology.members() {
        let text = member.to_string();
        let role = if member == Member::Server { Role::Apiserver } else { Role::Agent };
        let process = state.process(role, &text).map(|process| ProcessStatus {
            role,
            pid: process.running.pid,
            alive: process.alive(),
            log: directory.log(role, &text).display().to_string(),
        });
        let addresses = addresses(&topology, &member).await;
        members.push(MemberStatus {
            name: text,
            namespace: topology.namespace(&member),
            present: addresses.is_some(),
            addresses: addresses.unwrap_or_default(),
            process,
        });
    }
    let api_ready = match ready::client(&directory.kubeconfig()).await {
        Ok(client) => ready::is_ready(&client).await.is_ok(),
        Err(_) => false,
    };
    Ok(Status {
        name: name.clone(),
        up: state.phase == Phase::Up,
        api_ready,
        server: format!("https://127.0.0.1:{}", state.port),
        kubeconfig: directory.kubeconfig().display().to_string(),
        members,
    })
}

/// `None` when the namespace is not there.
async fn addresses(topology: &Topology, member: &Member) -> Option<Vec<String>> {
    let namespace = Netns::open(&topology.namespace(member)).ok()?;
    let links = Links::open(&namespace).ok()?;
    let mut found = Vec::new();
    for link in links.list().await.ok()? {
        for address in links.addresses(&link.name).await.ok()? {
            if !address.addr().is_loopback() {
                found.push(format!("{} {address}", link.name));
            }
        }
    }
    Some(found)
}

/// The status as a table.
pub(crate) fn table(status: &Status) -> String {
    let api = if status.api_ready { "ready" } else { "not ready" };
    let mut rows = vec![["MEMBER", "PROCESS", "PID", "STATE", "ADDRESSES"].map(str::to_owned).to_vec()];
    for member in &status.members {
        let (role, pid, state) = match &member.process {
            _ if !member.present => ("-", "-".to_owned(), "no namespace"),
            None => ("-", "-".to_owned(), "-"),
            Some(process) => {
                let role = match process.role {
                    Role::Apiserver => "apiserver",
                    Role::Agent => "agent",
                };
                (role, process.pid.to_string(), if process.alive { "running" } else { "dead" })
            }
        };
        let addresses = member.addresses.join(", ");
        rows.push(vec![member.name.clone(), role.to_owned(), pid, state.to_owned(), addresses]);
    }
    let mut text = format!(
        "cluster {}: API {api} on {}, kubeconfig {}\n",
        status.name, status.server, status.kubeconfig
    );
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    for row in &rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        let _ = writeln!(text, "{}", cells.join("  ").trim_end());
    }
    text
}
