//! `litek8s apiserver`: the API, and on the leader the controllers in the same process.

use std::sync::Arc;

use litek8s_apiserver::options::Options;
use litek8s_apiserver::run::{Access, OnLeader, Server};
use litek8s_controllers::{ControllerMetrics, InProcess};
use tokio_util::sync::CancellationToken;

/// The flags of the subcommand.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) options: Options,
    /// Run the controllers in this process while it leads
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub(crate) controllers: bool,
}

/// Serves until `shutdown`.
pub(crate) async fn run(arguments: Arguments, shutdown: CancellationToken) -> anyhow::Result<()> {
    let server = Server::open(arguments.options).await?;
    // Their metrics are among the server's.
    let registry = server.api().metrics.registry.clone();
    let beside = arguments.controllers.then(|| controllers(ControllerMetrics::new(&registry)));
    server.run(beside, shutdown).await
}

/// The controllers, with a client whose writes are bound to the leader's term.
fn controllers(metrics: ControllerMetrics) -> OnLeader {
    Arc::new(move |access: Access, over| {
        let access = InProcess { url: access.url, ca_pem: access.ca_pem, token: access.token };
        Box::pin(litek8s_controllers::run_in_process(access, metrics.clone(), over))
    })
}
