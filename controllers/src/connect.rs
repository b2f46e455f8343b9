//! Clients of the Kubernetes API.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::requests::Requests;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// Longer than the pause between two bookmarks of a watch: a connection that is silent for longer is dead.
const SILENCE: Duration = Duration::from_secs(90);

/// The API of the same process: where, whom to trust, and the token that is bound to the leader's term.
#[derive(Clone)]
pub struct InProcess {
    /// `https://address:port`.
    pub url: String,
    /// The certificate of the CA, PEM.
    pub ca_pem: String,
    /// The bearer token.
    pub token: String,
}

impl std::fmt::Debug for InProcess {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("InProcess").field("url", &self.url).finish_non_exhaustive()
    }
}

pub(crate) fn in_process(access: &InProcess, requests: &Requests) -> anyhow::Result<Client> {
    let mut config = Config::new(access.url.parse().context("the URL of the API")?);
    let der = litek8s_daemon::pki::der_of_pem(&access.ca_pem).context("the certificate of the API's CA")?;
    config.root_cert = Some(vec![der]);
    config.auth_info = token(&access.token)?;
    requests.client(timed(config)).context("a client of the API in this process")
}

fn token(token: &str) -> anyhow::Result<AuthInfo> {
    serde_json::from_value(serde_json::json!({ "token": token })).context("the token of the API")
}

/// By the file, or by what the environment has.
pub(crate) async fn from_kubeconfig(
    kubeconfig: Option<&Path>,
    requests: &Requests,
) -> anyhow::Result<Client> {
    let config = match kubeconfig {
        Some(file) => {
            let kubeconfig =
                Kubeconfig::read_from(file).with_context(|| format!("reading {}", file.display()))?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .with_context(|| format!("using {}", file.display()))?
        }
        None => Config::infer().await.context("no kubeconfig and no ServiceAccount")?,
    };
    requests.client(timed(config)).context("a client of the API")
}

/// A configuration with which a dead connection is given up.
fn timed(mut config: Config) -> Config {
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(SILENCE);
    config
}
