//! Asks a cluster's API whether it is ready and which nodes are.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;

/// The suite's API group and version.
const GROUP_VERSION: &str = "netwrangler.dev/v1";
/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// A client for the cluster of that kubeconfig, for questions that are answered at once.
pub(crate) async fn client(kubeconfig: &Path) -> Result<Client> {
    let mut config = config(kubeconfig).await?;
    config.connect_timeout = Some(PATIENCE);
    config.read_timeout = Some(PATIENCE);
    Ok(Client::try_from(config)?)
}

/// How to reach the cluster of that kubeconfig.
pub(crate) async fn config(kubeconfig: &Path) -> Result<Config> {
    let file = Kubeconfig::read_from(kubeconfig)
        .with_context(|| format!("{} does not read", kubeconfig.display()))?;
    Ok(Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?)
}

/// Whether `/readyz` says so.
pub(crate) async fn is_ready(client: &Client) -> Result<()> {
    let request = http::Request::get("/readyz").body(Vec::new())?;
    // The client logs every "no" as an error; while it starts, "no" is the right answer.
    let asked = client.request_text(request).with_subscriber(NoSubscriber::default());
    tokio::time::timeout(PATIENCE, asked).await.context("no answer")??;
    Ok(())
}

/// Whether the suite's kinds are served: the controllers install them, a moment after the server is ready.
pub(crate) async fn serves_kinds(client: &Client) -> Result<()> {
    let asked = client.list_api_group_resources(GROUP_VERSION).with_subscriber(NoSubscriber::default());
    let served = tokio::time::timeout(PATIENCE, asked).await.context("no answer")??;
    for definition in litek8s_crds::definitions() {
        let plural = definition.spec.names.plural;
        if !served.resources.iter().any(|resource| resource.name == plural) {
            bail!("{plural} are not served yet");
        }
    }
    Ok(())
}

/// The names of the nodes whose condition Ready is True.
pub(crate) async fn ready_nodes(client: &Client) -> Result<BTreeSet<String>> {
    let nodes = Api::<Node>::all(client.clone());
    let list =
        tokio::time::timeout(PATIENCE, nodes.list(&ListParams::default())).await.context("no answer")??;
    let ready = list.items.into_iter().filter(is_node_ready).filter_map(|node| node.metadata.name);
    Ok(ready.collect())
}

fn is_node_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
