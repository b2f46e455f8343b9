//! The streams of this node's pods: the agent dials the API server and then answers its requests on that connection.
//!
//! A node may be behind NAT; nothing ever has to reach it. What runs containers is behind the trait [`Containers`].

mod containers;
mod dial;
mod forward;
mod log;
mod serve;
mod session;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use http::header::{CONNECTION, UPGRADE};
use http::{Request, StatusCode};
use kube::Client;
use kube::client::Body;
use litek8s_daemon::metrics::Metrics;
use litek8s_daemon::serve::Readiness;
use litek8s_daemon::streams;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use containers::{
    ByteStream, CommandIo, Connection, ContainerName, Containers, Exit, LogOptions, LogStream, NoContainers,
    Refusal, Running, TerminalSize,
};

use crate::Options;
use crate::connection::Source;

/// Between two attempts to connect: at first, and at most.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// A connection that lasted this long was a good one.
const GOOD: Duration = Duration::from_secs(30);

/// What a node answers the server with.
#[derive(Clone)]
pub(crate) struct Services {
    pub(crate) containers: Arc<dyn Containers>,
    /// What `nodes/NAME/proxy` shows of the agent itself.
    pub(crate) metrics: Metrics,
    pub(crate) ready: Readiness,
}

/// Serves the streams of a node and nothing else, until `shutdown`: for a node whose pods another program runs.
///
/// # Errors
/// When the flags make no sense. A server that is away is no error.
pub async fn run(
    options: &Options,
    containers: Arc<dyn Containers>,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let node = options.node_name()?;
    let source = Source::new(options, &node)?;
    let ready = Readiness::new("the server was not reached yet");
    let services = Services { containers, metrics: Metrics::default(), ready };
    loop {
        let client = tokio::select! {
            client = source.client() => client,
            () = shutdown.cancelled() => return Ok(()),
        };
        let serving = async {
            match client {
                Ok((client, _)) => {
                    services.ready.ready();
                    keep(client, node.clone(), services.clone()).await;
                }
                Err(error) => tracing::warn!(error = format!("{error:#}"), "cannot join yet"),
            }
            tokio::time::sleep(RETRY.0).await;
        };
        tokio::select! {
            () = serving => {}
            () = shutdown.cancelled() => return Ok(()),
        }
    }
}

/// Connects, serves, and connects again; never returns.
pub(crate) async fn keep(client: Client, node: String, services: Services) {
    let mut pause = RETRY.0;
    let mut failing = false;
    loop {
        let begun = Instant::now();
        match connect(&client, &node).await {
            Ok(upgraded) => {
                tracing::info!(node, "connected for streams");
                failing = false;
                serve::connection(upgraded, services.clone()).await;
                if begun.elapsed() >= GOOD {
                    pause = RETRY.0;
                }
            }
            Err(error) => {
                if !failing {
                    tracing::warn!(error = format!("{error:#}"), "no connection for streams; will try again");
                }
                failing = true;
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RETRY.1);
    }
}

/// Dials and turns the connection round.
async fn connect(client: &Client, node: &str) -> anyhow::Result<hyper::upgrade::Upgraded> {
    let request = Request::get(streams::path(node))
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, streams::PROTOCOL)
        .body(Body::empty())?;
    let response = client.send(request).await.context("dial the API server")?;
    let code = response.status();
    ensure!(code == StatusCode::SWITCHING_PROTOCOLS, "the API server answered {code}");
    hyper::upgrade::on(response).await.context("turn the connection round")
}
