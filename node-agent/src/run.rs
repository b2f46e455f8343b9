//! Starting and ending: the owner runs from the first moment, the API session whenever there is one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use litek8s_daemon::metrics::Metrics;
use litek8s_daemon::serve::{self, Readiness};
use litek8s_kernel::{Kernel, Netns, Prober};
use litek8s_plan::{Desired, diff};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::Options;
use crate::connection::Source;
use crate::fitness::Says;
use crate::index::Index;
use crate::ledger::Ledger;
use crate::metrics::AgentMetrics;
use crate::owner::{Event, Memory, Owner};
use crate::session::{self, Identity};
use crate::state::State;
use crate::streams::{NoContainers, Services};
use crate::{company, detect};

/// The pause between two attempts to reach the API.
const RETRY: Duration = Duration::from_secs(1);
/// How often it is asked whether the certificate is to be renewed.
const RENEWAL: Duration = Duration::from_secs(60 * 60);
/// What is wrong when the sockets cannot be had.
const NEEDS: &str = "the kernel cannot be used (CAP_NET_ADMIN and CAP_NET_RAW are needed)";
/// Events and patches that may wait. A full channel makes watches wait; a patch that finds no room is found again.
const EVENTS: usize = 256;
const OUTGOING: usize = 1024;
/// Questions for addresses that may wait: each is for all that came at once.
const QUESTIONS: usize = 64;
/// How often a cleanup may be undone by somebody else.
const CLEANUP_ATTEMPTS: usize = 5;

/// Keeps this node as its objects say, until `shutdown`. Traffic goes on after that.
///
/// # Errors
/// When the flags make no sense or the kernel cannot be used at all. An API that is away is no error.
pub async fn run(options: Options, shutdown: CancellationToken) -> anyhow::Result<()> {
    if options.cleanup {
        return cleanup_and_stay(&options, shutdown).await;
    }
    let name = options.node_name()?;
    let source = Source::new(&options, &name)?;
    let identity = Identity {
        addresses: options.node_ips()?,
        name,
        agent_namespace: options.agent_namespace.clone(),
        registers: !options.in_cluster,
    };
    let all = Metrics::default();
    let metrics = AgentMetrics::new(&all);
    let ready = Readiness::new("no pass has succeeded yet");
    let services =
        Services { containers: Arc::new(NoContainers), metrics: all.clone(), ready: ready.clone() };
    let server = serve(options.listen, all, &ready, &shutdown).await?;

    let kernel = Kernel::open(Netns::current()?).context(NEEDS)?;
    let monitor = kernel.monitor()?;
    let prober = Arc::new(Prober::open(&Netns::current()?)?);
    let mut state = State::new(&options.state_dir);
    let known = state.load();
    let mut index = Index::new(&identity.name, &identity.addresses);
    if let Some(known) = &known {
        index.remember(&known.facts);
    }
    let last = known.filter(|known| !known.rebooted).map(|known| known.facts);
    let (events, heard) = mpsc::channel(EVENTS);
    let (said, mut outgoing) = mpsc::channel(OUTGOING);
    let synced = shutdown.child_token();
    let looking = match &last {
        Some(last) => {
            let prober = Prober::open(&Netns::current()?)?;
            Some(tokio::spawn(company::look(prober, last.clone(), events.clone(), synced.clone())))
        }
        None => None,
    };
    let (says, lease) = watch::channel(Says::new());
    let (questions, asked) = mpsc::channel(QUESTIONS);
    let (ours, listened) = watch::channel(detect::Ours::new());
    let detecting = detect::run(kernel.prober()?, asked, listened, events.clone());
    let detecting = tokio::spawn(detecting);
    let anew = Arc::new(Notify::new());
    let owner = Owner {
        kernel,
        index,
        state,
        ledger: Ledger::open(&options.state_dir),
        metrics: metrics.clone(),
        ready,
        synced,
        outgoing: said,
        says,
        questions,
        ours,
        anew: anew.clone(),
        last,
        memory: Memory::default(),
    };
    let owner = tokio::spawn(owner.run(monitor, heard, shutdown.clone()));

    let mut failing = false;
    while !shutdown.is_cancelled() {
        let client = tokio::select! {
            client = source.client() => client,
            () = shutdown.cancelled() => break,
        };
        match client {
            Ok((client, servers)) => {
                failing = false;
                if events.send(Event::ApiServers(servers)).await.is_err() {
                    break;
                }
                let until = shutdown.child_token();
                let renewal = tokio::spawn(end_for_renewal(source.clone(), until.clone()));
                let said = session::Said { outgoing: &mut outgoing, lease: &lease, anew: &anew };
                let means = session::Means { prober: &prober, services: &services };
                session::run(client, &identity, &events, said, &metrics, means, until).await;
                renewal.abort();
            }
            Err(error) => {
                if !failing {
                    tracing::warn!(error = format!("{error:#}"), "cannot join yet");
                }
                failing = true;
                tokio::select! {
                    () = tokio::time::sleep(RETRY) => {}
                    () = shutdown.cancelled() => {}
                }
            }
        }
        if owner.is_finished() {
            break;
        }
    }
    // The drop of the sender is not what ends the owner: its pass is finished first.
    let ended = owner.await;
    for task in server.into_iter().chain(looking).chain([detecting]) {
        task.abort();
    }
    match ended {
        Ok(()) if shutdown.is_cancelled() => Ok(()),
        Ok(()) => bail!("the owner of the node's state ended"),
        Err(error) => Err(error).context("the owner of the node's state died"),
    }
}

/// Ends the session when the certificate has lived two thirds of its life; the next one begins with a new one.
async fn end_for_renewal(source: Source, session: CancellationToken) {
    loop {
        tokio::time::sleep(RENEWAL).await;
        if source.renewal_due() {
            session.cancel();
            return;
        }
    }
}

/// Serves metrics and health, where that is asked for.
async fn serve(
    address: Option<SocketAddr>,
    metrics: Metrics,
    ready: &Readiness,
    shutdown: &CancellationToken,
) -> anyhow::Result<Option<JoinHandle<()>>> {
    let Some(address) = address else { return Ok(None) };
    let listener = serve::listen(address).await?;
    Ok(Some(tokio::spawn(serve::serve(listener, metrics, ready.clone(), shutdown.clone()))))
}

/// Cleans up, and with `--listen` stays until `shutdown`: a DaemonSet is rolled out when every node is clean.
async fn cleanup_and_stay(options: &Options, shutdown: CancellationToken) -> anyhow::Result<()> {
    let ready = Readiness::new("not everything is removed yet");
    let server = serve(options.listen, Metrics::default(), &ready, &shutdown).await?;
    cleanup(options).await?;
    ready.ready();
    if let Some(server) = server {
        tracing::info!("everything of the agent's is removed; staying until told to end");
        server.await?;
    }
    Ok(())
}

/// Removes everything the agent has put into the kernel, and what it remembers of it. What others put there stays.
///
/// # Errors
/// When something could not be removed. An agent that still runs puts it back: stop it first.
pub async fn cleanup(options: &Options) -> anyhow::Result<()> {
    let kernel = Kernel::open(Netns::current()?).context(NEEDS)?;
    let mut ledger = Ledger::open(&options.state_dir);
    for _ in 0..CLEANUP_ATTEMPTS {
        let mut observed = kernel.observe().await?;
        ledger.sort_out(&mut observed);
        if observed.is_empty() {
            State::new(&options.state_dir).remove()?;
            ledger.remove()?;
            return Ok(());
        }
        let ops = diff(&Desired::default(), &observed);
        for op in &ops {
            tracing::info!("{op}");
        }
        let applied = kernel.apply(&ops).await;
        for (op, error) in applied.warnings {
            tracing::warn!(%op, %error, "done without");
        }
        if let Some((op, error)) = applied.failed {
            tracing::warn!(%op, %error, "refused");
        }
    }
    bail!("something of the agent's is still there")
}
