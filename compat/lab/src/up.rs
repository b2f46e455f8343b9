//! Brings a cluster up, or brings a running one to what was asked: what runs already is left alone.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use litek8s_kernel::Netns;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::process::{Launch, launch};
use crate::progress::Progress;
use crate::state::{Directory, Phase, State, write_private};
use crate::topology::{SERVER, node_address};
use crate::{Member, Process, Role, Topology, down, network, probe, ready};

/// How long the server may take until it is ready, and then all agents together.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// How much of a log a failure shows.
const LOG_LINES: usize = 12;
/// The API's port on the LAN.
const PORT: u16 = 6443;

/// What `dev up` was asked for.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) topology: Topology,
    pub(crate) nodes: u8,
    /// The `litek8s` binary.
    pub(crate) program: PathBuf,
    pub(crate) kubeconfig_copy: Option<PathBuf>,
    pub(crate) progress: Progress,
}

/// Brings it up. When told to stop half-way, removes what was made.
pub(crate) async fn up(wanted: &Wanted, stop: &CancellationToken) -> Result<State> {
    probe::check().await?;
    let directory = Directory::of(wanted.topology.name());
    directory.create()?;
    let _lock = directory.lock()?;
    let done = tokio::select! {
        done = bring_up(wanted, &directory) => done,
        () = stop.cancelled() => {
            wanted.progress.say("stopped; removing what was made");
            down::sweep(wanted.topology.name(), &directory)?;
            directory.remove()?;
            bail!("stopped before the cluster was up");
        }
    };
    done.with_context(|| {
        format!(
            "the cluster did not come up; logs in {}, and `litek8s dev down --name {}` removes what is there",
            directory.path().join("logs").display(),
            wanted.topology.name()
        )
    })
}

async fn bring_up(wanted: &Wanted, directory: &Directory) -> Result<State> {
    let build = build_of(&wanted.program)?;
    let mut state = match reusable(wanted, directory)? {
        Some(state) => state,
        None => fresh(wanted, directory).await?,
    };
    if state.build != build {
        if !state.build.is_empty() {
            wanted.progress.say("another build runs: restarting its processes");
            down::end_processes(&state.processes)?;
        }
        state.build = build;
        directory.save(&state)?;
    }
    if let Some(copy) = &wanted.kubeconfig_copy {
        state.kubeconfig_copy = Some(std::path::absolute(copy)?);
        directory.save(&state)?;
    }
    start_server(wanted, directory, &mut state).await?;
    start_agents(wanted, directory, &mut state).await?;
    state.phase = Phase::Up;
    directory.save(&state)?;
    Ok(state)
}

/// The state of a cluster that can be kept: it was up, and every namespace is there.
fn reusable(wanted: &Wanted, directory: &Directory) -> Result<Option<State>> {
    let name = wanted.topology.name();
    let Ok(Some(state)) = directory.load() else { return Ok(None) };
    if state.phase != Phase::Up {
        return Ok(None);
    }
    if state.nodes != wanted.nodes {
        bail!("cluster {name} runs with {} nodes: `litek8s dev down --name {name}` first", state.nodes);
    }
    let names: BTreeSet<String> = Netns::list()?.into_iter().collect();
    let whole =
        state.topology().members().iter().all(|member| names.contains(&state.topology().namespace(member)));
    Ok(whole.then_some(state))
}

/// Clears what an interrupted `up` left and builds the network.
async fn fresh(wanted: &Wanted, directory: &Directory) -> Result<State> {
    let name = wanted.topology.name();
    if down::sweep(name, directory)? > 0 {
        wanted.progress.say("removed what an interrupted start left");
    }
    directory.clear()?;
    directory.create()?;
    let state = State {
        name: name.clone(),
        nodes: wanted.nodes,
        phase: Phase::Starting,
        port: 0,
        kubeconfig_copy: None,
        processes: Vec::new(),
        build: String::new(),
    };
    // Before the first namespace, so that `down` knows of a cluster that got no further.
    directory.save(&state)?;
    network::build(&wanted.topology).await?;
    wanted.progress.say(format!(
        "network: {} namespaces, {} cables",
        wanted.topology.members().len(),
        wanted.topology.cables().len()
    ));
    Ok(state)
}

/// Starts the API server unless it runs, and waits until it is ready.
pub(crate) async fn start_server(wanted: &Wanted, directory: &Directory, state: &mut State) -> Result<()> {
    let member = Member::Server.to_string();
    if !state.process(Role::Apiserver, &member).is_some_and(Process::alive) {
        let listener = TcpListener::bind(("127.0.0.1", state.port)).context("listen on 127.0.0.1")?;
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
        ];
        let arguments = arguments.map(str::to_owned).to_vec();
        start(wanted, directory, state, Role::Apiserver, &Member::Server, arguments, Some(listener))?;
    }
    let members = [member];
    let ready = until(state, directory, Role::Apiserver, &members, async || {
        let client = ready::client(&directory.kubeconfig()).await?;
        ready::is_ready(&client).await?;
        ready::serves_kinds(&client).await
    });
    ready.await.context("the API server is not ready")?;
    copy_kubeconfig(directory, state)?;
    wanted.progress.say(format!("API server ready on https://127.0.0.1:{}", state.port));
    Ok(())
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
    let arguments = [
        "agent",
        "--join",
        &format!("https://{SERVER}:{PORT}"),
        "--token-file",
        &directory.server_data().join("agent-token").display().to_string(),
        "--node-name",
        &name,
        "--node-ip",
        &node_address(*number).to_string(),
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
    let (pid, started) = launch(&namespace, Launch { program: &wanted.program, arguments, log, listener })?;
    // A crash before this is written leaves a process that `down` finds by its namespace.
    state.remember(Process { role, member: member.to_string(), pid, started });
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

/// What tells one build of the binary from the next.
fn build_of(program: &Path) -> Result<String> {
    let meta = fs::metadata(program).with_context(|| format!("read {}", program.display()))?;
    Ok(format!("{} {} {}.{}", program.display(), meta.len(), meta.mtime(), meta.mtime_nsec()))
}

fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}
