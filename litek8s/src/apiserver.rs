//! `litek8s apiserver`: the API, and on the leader the controllers in the same process.

use litek8s_apiserver::options::Options;
use litek8s_apiserver::run::Server;
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
pub(crate) async fn run(arguments: Box<Arguments>, shutdown: CancellationToken) -> anyhow::Result<()> {
    let server = Server::open(arguments.options).await?;
    server.run(None, shutdown).await
}
