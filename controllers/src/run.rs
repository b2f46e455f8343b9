//! Starts the controllers, for whoever asks, and stops them in order.

use anyhow::Context;
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::connect::{self, InProcess};
use crate::lease::Election;
use crate::options::{Options, Settings};
use crate::{gateway, install, vip};

/// `litek8s controllers`: works while it holds the Lease, until `shutdown`.
pub async fn run(options: Options, shutdown: CancellationToken) -> anyhow::Result<()> {
    let client = connect::from_options(&options).await?;
    let settings = options.settings();
    let election = Election::new(client.clone(), &options.namespace);
    election
        .lead(shutdown, |term| {
            let (client, settings) = (client.clone(), settings.clone());
            async move { run_with_client(client, settings, term).await }
        })
        .await
}

/// The controllers beside the API server of this process: no Lease, the leader's term decides.
pub async fn run_in_process(access: InProcess, shutdown: CancellationToken) -> anyhow::Result<()> {
    let client = connect::in_process(&access)?;
    run_with_client(client, Settings::default(), shutdown).await
}

/// The controllers with a client of the caller's, until `shutdown`. The caller sees to it that only one works.
pub async fn run_with_client(
    client: Client,
    settings: Settings,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    tokio::select! {
        () = shutdown.cancelled() => return Ok(()),
        installed = install::definitions(&client, &settings) => installed?,
    }
    // One that fails takes the other along.
    let both = shutdown.child_token();
    let _end = both.clone().drop_guard();
    let vips = vip::run(client.clone(), &settings, both.clone());
    let gateways = gateway::run(client, &settings, both.clone());
    tokio::try_join!(async { vips.await.context("the VIP controller") }, async {
        gateways.await.context("the gateway controller")
    },)
    .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spawnable<T: Send + 'static>(_: impl FnOnce(InProcess, CancellationToken) -> T) {}

    #[test]
    fn the_controllers_can_be_spawned() {
        spawnable(run_in_process);
    }
}
