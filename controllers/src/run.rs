//! Starts the controllers, for whoever asks, and stops them in order.

use anyhow::{Context, ensure};
use kube::Client;
use litek8s_daemon::metrics::Metrics;
use litek8s_daemon::serve::{self, Readiness};
use tokio_util::sync::CancellationToken;

use crate::connect::{self, InProcess};
use crate::lease::Election;
use crate::metrics::ControllerMetrics;
use crate::options::{Options, Settings};
use crate::{gateway, install, vip};

/// `litek8s controllers`: works while it holds the Lease, until `shutdown`.
pub async fn run(options: Options, shutdown: CancellationToken) -> anyhow::Result<()> {
    let settings = options.settings();
    ensure!(settings.vips || settings.gateways, "--vips false and --gateways false leave nothing to do");
    let (registry, readiness) = (Metrics::default(), Readiness::new("the Lease was not read yet"));
    let metrics = ControllerMetrics::new(&registry);
    let client = connect::from_kubeconfig(options.kubeconfig.as_deref(), &metrics.requests).await?;
    if let Some(address) = options.listen {
        let listener = serve::listen(address).await?;
        tokio::spawn(serve::serve(listener, registry, readiness.clone(), shutdown.clone()));
    }
    let election = Election::new(client.clone(), &options.namespace, readiness);
    election
        .lead(shutdown, |term| {
            let (client, settings, metrics) = (client.clone(), settings.clone(), metrics.clone());
            async move { run_with_client(client, settings, metrics, term).await }
        })
        .await
}

/// The controllers beside the API server of this process: no Lease, the leader's term decides.
pub async fn run_in_process(
    access: InProcess,
    metrics: ControllerMetrics,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let client = connect::in_process(&access, &metrics.requests)?;
    run_with_client(client, Settings::default(), metrics, shutdown).await
}

/// The controllers with a client of the caller's, until `shutdown`. The caller sees to it that only one works.
pub async fn run_with_client(
    client: Client,
    settings: Settings,
    metrics: ControllerMetrics,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    metrics.leading.set(1);
    let result = work(client, &settings, &metrics, shutdown).await;
    metrics.leading.set(0);
    result
}

async fn work(
    client: Client,
    settings: &Settings,
    metrics: &ControllerMetrics,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    tokio::select! {
        () = shutdown.cancelled() => return Ok(()),
        installed = install::definitions(&client, settings) => installed?,
    }
    // One that fails takes the other along.
    let both = shutdown.child_token();
    let _end = both.clone().drop_guard();
    let vips = async {
        if settings.vips {
            let run = vip::run(client.clone(), settings, &metrics.vips, both.clone());
            run.await.context("the VIP controller")?;
        }
        anyhow::Ok(())
    };
    let gateways = async {
        if settings.gateways {
            let run = gateway::run(client.clone(), settings, &metrics.gateways, both.clone());
            run.await.context("the gateway controller")?;
        }
        Ok(())
    };
    tokio::try_join!(vips, gateways).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spawnable<T: Send + 'static>(_: impl FnOnce(InProcess, ControllerMetrics, CancellationToken) -> T) {}

    #[test]
    fn the_controllers_can_be_spawned() {
        spawnable(run_in_process);
    }
}
