//! The one task that decides: on every change of a cache.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::caches::Caches;
use super::decide::decide;
use super::execute::Executor;
use super::gather;
use super::metrics::GatewayMetrics;
use crate::options::Settings;
use crate::vip::Recorder;

/// How long it must be quiet after a change, and how long a change waits at most.
const QUIET: Duration = Duration::from_millis(20);
const MOST: Duration = Duration::from_millis(100);
/// The first and the longest pause after something failed.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// Between two decisions when nothing happens at all.
const RESYNC: Duration = Duration::from_secs(300);

/// The gateway controller, until `shutdown`.
pub(crate) async fn run(
    client: Client,
    settings: &Settings,
    metrics: &GatewayMetrics,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let (tasks, stop) = (TaskTracker::new(), shutdown.child_token());
    let caches = Caches::start(&client, &settings.agent_namespace, &tasks, &stop);
    let recorder = Recorder::start(client.clone(), &tasks, stop.clone());
    tasks.close();
    let executor = Executor::new(client, recorder, settings.manager.clone());
    let result = work(&caches, &executor, metrics, &shutdown).await;
    stop.cancel();
    tasks.wait().await;
    metrics.ended();
    result
}

async fn work(
    caches: &Caches,
    executor: &Executor,
    metrics: &GatewayMetrics,
    shutdown: &CancellationToken,
) -> anyhow::Result<()> {
    tokio::select! {
        () = shutdown.cancelled() => return Ok(()),
        synced = caches.synced() => synced?,
    }
    let mut said = BTreeMap::new();
    let mut pause = PAUSE.0;
    loop {
        let objects = caches.objects();
        let decision = decide(&gather::facts(&objects, &executor.manager), &said);
        metrics.decided(&decision);
        tracing::debug!("{decision}");
        said.clone_from(&decision.said);
        let failed = tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            failed = executor.execute(&decision, &objects, Timestamp::now()) => failed,
        };
        metrics.failed(failed);
        let wait = if failed > 0 { pause } else { RESYNC };
        pause = if failed > 0 { (pause * 2).min(PAUSE.1) } else { PAUSE.0 };
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            () = tokio::time::sleep(wait) => {}
            () = quiet(caches) => {}
        }
    }
}

/// Returns when something changed and it has been quiet for a moment.
async fn quiet(caches: &Caches) {
    caches.changed().await;
    let calm = async { while tokio::time::timeout(QUIET, caches.changed()).await.is_ok() {} };
    // However busy it is, a change does not wait longer.
    let _ = tokio::time::timeout(MOST, calm).await;
}
