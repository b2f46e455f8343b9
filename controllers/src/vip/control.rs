//! The one task that decides: on every change of a cache, and when a decision asked for it.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::Client;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::caches::Caches;
use super::decide::decide;
use super::execute::Executor;
use super::gather;
use super::memory::Memory;
use super::metrics::VipMetrics;
use super::recorder::Recorder;
use crate::options::Settings;

/// How long it must be quiet after a change.
const QUIET: Duration = Duration::from_millis(20);
/// How long a change waits at most.
const MOST: Duration = Duration::from_millis(100);
/// Between two decisions when nothing happens at all.
const RESYNC: Duration = Duration::from_secs(300);

/// The VIP controller, until `shutdown`.
pub(crate) async fn run(
    client: Client,
    settings: &Settings,
    metrics: &VipMetrics,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let (tasks, stop) = (TaskTracker::new(), shutdown.child_token());
    let caches = Caches::start(&client, &settings.agent_namespace, &tasks, &stop);
    let recorder = Recorder::start(client.clone(), &tasks, stop.clone());
    tasks.close();
    let mut executor = Executor::new(client, recorder, settings.manager.clone(), metrics.clone());
    let result = work(&caches, &mut executor, &shutdown).await;
    stop.cancel();
    tasks.wait().await;
    metrics.ended();
    result
}

async fn work(caches: &Caches, executor: &mut Executor, shutdown: &CancellationToken) -> anyhow::Result<()> {
    tokio::select! {
        () = shutdown.cancelled() => return Ok(()),
        synced = caches.synced() => synced?,
    }
    tracing::info!("the VIP controller knows all objects and decides from now on");
    let mut memory = Memory::default();
    loop {
        let now = Timestamp::now();
        let objects = caches.objects();
        let started = Instant::now();
        let decision = decide(&gather::facts(&objects, &executor.manager, now), &memory);
        executor.metrics.decided(&decision, started.elapsed());
        tracing::debug!("{decision}");
        memory.clone_from(&decision.memory);
        let retry = tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            retry = executor.execute(&decision, &objects, caches, now) => retry,
        };
        let wait = [decision.wake.map(until), retry].into_iter().flatten().fold(RESYNC, Duration::min);
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            () = tokio::time::sleep(wait) => {}
            () = quiet(caches) => {}
        }
    }
}

/// How long it is until a time.
fn until(time: Timestamp) -> Duration {
    Duration::try_from(time.duration_since(Timestamp::now())).unwrap_or(Duration::ZERO)
}

/// Returns when something changed and it has been quiet for a moment.
async fn quiet(caches: &Caches) {
    caches.changed().await;
    let calm = async { while tokio::time::timeout(QUIET, caches.changed()).await.is_ok() {} };
    tokio::select! {
        // However busy it is, a change does not wait longer.
        _ = tokio::time::timeout(MOST, calm) => {}
        () = caches.pressing() => {}
    }
}
