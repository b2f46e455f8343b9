//! Starts the processes of a cluster that do not run, and waits until they do their work.

use std::fs;
use std::net::{IpAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::time::Instant;

use crate::process::{Launch, launch};
use crate::state::{Directory, State, write_private};
use crate::topology::{SERVER, node_addresses};
use crate::up::Wanted;
use crate::{Member, Process, Role, network, ready};

/// How long the server may take until it is ready, and then all agents together.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// How much of a log a failure shows.
const LOG_LINES: usize = 12;
/// The API's port on the host is one of these.
const FIRST_HOST_PORT: u16 = 26443;
const LAST_HOST_PORT: u16 = 26999;
/// The API's port on the LAN.
const PORT: u16 = 6443;

/// Starts the API server unless it runs, and waits until it is ready.
pub(crate) async fn start_server(wanted: &Wanted, directory: &Directory, state: &mut State) -> Result<()> {
    let member = Member::Server.to_string();
    if !state.process(Role::Apiserver, &member).is_some_and(Process::alive) {
        let listener = listen(state.port)?;
        state.port = listener.local_addr()?.port();
        directory.save(state)?;
        let text = |path: PathBuf| path.display().to_string();
        let arguments = [
            "apiserver",
            "--data-dir",
            &text(directory.server_data()),
            "--listen",
            &format!("{SERVER}:{PORT}"),
            "--advertise-address",
            &SERVER.to_string(),
            "--node-name",
            &member,
            "--kubeconfig",
            &text(directory.kubeconfig()),
            "--kubeconfig-server",
            &format!("https://127.0.0.1:{}", state.port),
            "--service-cidr",
            "10.43.0.0/16,fd43::/112",
            "--cluster-cidr",
            "10.42.0.0/16,fd42::/56",
            "--controllers",
            &wanted.suite.to_string(),
        ];
        let arguments = arguments.map(str::to_owned).to_vec();
        start(wanted, directory, state, Role::Apiserver, &Member::Server, arguments, Some(listener))?;
    }
    let members = [member];
    let ready = until(state, directory, Role::Apiserver, &members, async || {
        let client = ready::client(&directory.kubeconfig()).await?;
        ready::is_ready(&client).await?;
        if wanted.suite { ready::serves_kinds(&client).await } else { Ok(()) }
    });
    ready.await.context("the API server is not ready")?;
    copy_kubeconfig(directory, state)?;
    wanted.progress.say(format!("API server ready on https://127.0.0.1:{}", state.port));
    Ok(())
}

/// The socket the host reaches the API by: on the port it had, or on the first free one. All are below those that the
/// kernel gives to clients, so that none of them takes it while the server is away.
fn listen(port: u16) -> Result<TcpListener> {
    let ports = if port == 0 { FIRST_HOST_PORT..=LAST_HOST_PORT } else { port..=port };
    let mut failed = None;
    for port in ports {
        match TcpListener::bind(("127.0.0.1", port)) {
            Ok(listener) => return Ok(listener),
            Err(error) => {
                failed = Some(anyhow::Error::from(error).context(format!("listen on 127.0.0.1:{port}")))
            }
        }
    }
    Err(failed.unwrap_or_else(|| anyhow::anyhow!("no port to listen on")))
}

/// Starts the agents that do not run, and waits until every node is ready.
pub(crate) async fn start_agents(wanted: &Wanted, directory: &Directory, state: &mut State) -> Result<()> {
    for node in wanted.topology.nodes() {
        start_agent(wanted, directory, state, &node)?;
    }
    let names: Vec<String> = wanted.topology.nodes().map(|node| node.to_string()).collect();
    let client = ready::client(&directory.kubeconfig()).await?;
    let ready = until(state, directory, Role::Agent, &names, async || {
        let ready = ready::ready_nodes(&client).await?;
        match names.iter().find(|name| !ready.contains(*name)) {
            Some(name) => bail!("{name} is not"),
            None => Ok(()),
        }
    });
    ready.await.context("not every node is ready")?;
    wanted.progress.say(format!("{} agents ready", names.len()));
    Ok(())
}

/// Starts one agent unless it runs; does not wait for it.
pub(crate) fn start_agent(
    wanted: &Wanted,
    directory: &Directory,
    state: &mut State,
    node: &Member,
) -> Result<()> {
    let Member::Node(number) = node else { bail!("{node} is no node") };
    let name = node.to_string();
    if state.process(Role::Agent, &name).is_some_and(Process::alive) {
        return Ok(());
    }
    let addresses: Vec<String> = node_addresses(*number)
        .iter()
        .filter(|address| network::has_ipv6() || address.is_ipv4())
        .map(IpAddr::to_string)
        .collect();
    let addresses = addresses.join(",");
    let arguments = [
        "agent",
        "--join",
        &format!("https://{SERVER}:{PORT}"),
        "--token-file",
        &directory.server_data().join("agent-token").display().to_string(),
        "--node-name",
        &name,
        "--node-ip",
        &addresses,
        "--state-dir",
        &directory.node_data(&name).display().to_string(),
    ];
    let arguments = arguments.map(str::to_owned).to_vec();
    start(wanted, directory, state, Role::Agent, node, arguments, None)
}

fn start(
    wanted: &Wanted,
    directory: &Directory,
    state: &mut State,
    role: Role,
    member: &Member,
    arguments: Vec<String>,
    listener: Option<TcpListener>,
) -> Result<()> {
    let namespace = network::open(&wanted.topology, member)?;
    let log = directory.log(role, &member.to_string());
    let running = launch(&namespace, Launch { program: &wanted.program, arguments, log, listener })?;
    // A crash before this is written leaves a process that `down` finds by its namespace.
    state.remember(Process { role, member: member.to_string(), running });
    directory.save(state)
}

/// Looks until `condition` holds. Ends early when one of the processes it hangs on has died.
async fn until(
    state: &State,
    directory: &Directory,
    role: Role,
    members: &[String],
    condition: impl AsyncFn() -> Result<()>,
) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let failed = match condition().await {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let dead = members.iter().find(|member| !state.process(role, member).is_some_and(Process::alive));
        if let Some(member) = dead {
            let log = directory.log(role, member);
            bail!("its process in {member} ended; the end of {}:\n{}", log.display(), tail(&log));
        }
        if Instant::now() > deadline {
            return Err(failed.context(format!("waited {} s", PATIENCE.as_secs())));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The copy of the kubeconfig that `--kubeconfig` asked for.
fn copy_kubeconfig(directory: &Directory, state: &State) -> Result<()> {
    let Some(copy) = &state.kubeconfig_copy else { return Ok(()) };
    let path = directory.kubeconfig();
    let text = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
    write_private(copy, &text)
}

fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}
