//! The client of the API: joined, by kubeconfig, or as a pod.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::credentials::Credentials;
use crate::{DiffOptions, Options};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// Longer than the pause between two bookmarks of a watch: a connection that is silent for longer is dead.
const SILENCE: Duration = Duration::from_secs(90);

/// Where clients come from.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// A certificate of our own.
    Joined(Credentials),
    /// Somebody else's file.
    Kubeconfig(PathBuf),
    /// The files of the pod's ServiceAccount. The token is read anew as the kubelet renews it.
    InCluster,
}

impl Source {
    pub(crate) fn new(options: &Options, node: &str) -> anyhow::Result<Self> {
        match (&options.join, &options.token_file, &options.kubeconfig) {
            (Some(server), Some(token), _) => {
                Ok(Self::Joined(Credentials::new(server, token, node, &options.state_dir)?))
            }
            (_, _, Some(file)) => Ok(Self::Kubeconfig(file.clone())),
            _ if options.in_cluster => Ok(Self::InCluster),
            _ => anyhow::bail!("give --join with --token-file, --kubeconfig, or --in-cluster"),
        }
    }

    /// As the agent that runs on this machine.
    pub(crate) fn of_agent(options: &DiffOptions) -> anyhow::Result<Self> {
        match (&options.join, &options.token_file, &options.kubeconfig) {
            (Some(server), Some(token), _) => {
                Ok(Self::Joined(Credentials::new(server, token, &options.node, &options.state_dir)?))
            }
            (_, _, Some(file)) => Ok(Self::Kubeconfig(file.clone())),
            _ => anyhow::bail!("give --join with --token-file, or --kubeconfig"),
        }
    }

    /// A client, and where its server is; joining first, and renewing the certificate, when that is due.
    pub(crate) async fn client(&self) -> anyhow::Result<(Client, BTreeSet<IpAddr>)> {
        let mut config = match self {
            Self::Joined(credentials) => credentials.config().await?,
            Self::Kubeconfig(path) => {
                let file = Kubeconfig::read_from(path)
                    .with_context(|| format!("{} does not read", path.display()))?;
                Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?
            }
            Self::InCluster => Config::incluster().context("--in-cluster: no ServiceAccount of a pod")?,
        };
        config.connect_timeout = Some(CONNECT);
        config.read_timeout = Some(SILENCE);
        let servers = addresses(&config.cluster_url).await;
        Ok((Client::try_from(config)?, servers))
    }

    /// Whether a new client is wanted because the certificate of the present one should be renewed.
    pub(crate) fn renewal_due(&self) -> bool {
        match self {
            Self::Joined(credentials) => credentials.renewal_due(),
            Self::Kubeconfig(_) | Self::InCluster => false,
        }
    }
}

/// The addresses of a server; none when its name is not found.
async fn addresses(url: &http::Uri) -> BTreeSet<IpAddr> {
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
    match tokio::net::lookup_host((host, url.port_u16().unwrap_or(443))).await {
        Ok(found) => found.map(|address| address.ip()).collect(),
        Err(error) => {
            tracing::debug!(host, %error, "the server's name is not found");
            BTreeSet::new()
        }
    }
}
