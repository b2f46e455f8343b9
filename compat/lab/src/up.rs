//! Brings a cluster up, or brings a running one to what was asked: what runs already is left alone.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use litek8s_kernel::Netns;
use tokio_util::sync::CancellationToken;

use crate::progress::Progress;
use crate::state::{Directory, Phase, State};
use crate::{Topology, down, network, probe, start};

/// What `dev up` was asked for.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) topology: Topology,
    pub(crate) nodes: u8,
    /// The `litek8s` binary.
    pub(crate) program: PathBuf,
    pub(crate) kubeconfig_copy: Option<PathBuf>,
    /// Whether controllers and agents run.
    pub(crate) suite: bool,
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
            down::end_processes(&state.running())?;
        }
        state.build = build;
        directory.save(&state)?;
    }
    if let Some(copy) = &wanted.kubeconfig_copy {
        state.kubeconfig_copy = Some(std::path::absolute(copy)?);
        directory.save(&state)?;
    }
    start::start_server(wanted, directory, &mut state).await?;
    if wanted.suite {
        start::start_agents(wanted, directory, &mut state).await?;
    }
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

/// What tells one build of the binary from the next.
fn build_of(program: &Path) -> Result<String> {
    let meta = fs::metadata(program).with_context(|| format!("read {}", program.display()))?;
    Ok(format!("{} {} {}.{}", program.display(), meta.len(), meta.mtime(), meta.mtime_nsec()))
}
