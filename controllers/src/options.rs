//! What a person may set.

use std::net::SocketAddr;
use std::path::PathBuf;

use litek8s_crds::names;

/// Flags of `litek8s controllers`.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// The kubeconfig to use; KUBECONFIG, ~/.kube/config or the pod's ServiceAccount by default.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The namespace of the Lease that decides which of several controllers works.
    #[arg(long, value_name = "NAME", env = "POD_NAMESPACE", default_value = "kube-system")]
    pub namespace: String,
    /// The name that marks what is ours, in the label netwrangler.dev/managed-by.
    #[arg(long, value_name = "NAME", env = "NETWRANGLER_MANAGER_NAME", default_value = names::DEFAULT_MANAGER)]
    pub manager_name: String,
    /// The namespace of the agents' own Leases; the agents must be told the same.
    #[arg(long, value_name = "NAME", default_value = names::AGENT_LEASE_NAMESPACE)]
    pub agent_namespace: String,
    /// Place virtual IPs.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub vips: bool,
    /// Make the routes of VipGateways.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub gateways: bool,
    /// Serve /healthz, /readyz and /metrics on this address, by plain HTTP to whoever reaches it.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = litek8s_daemon::serve::address)]
    pub listen: Option<SocketAddr>,
    /// Do not apply the custom resource definitions; wait for them instead.
    #[arg(long)]
    pub no_definitions: bool,
}

impl Options {
    /// What the controllers need of it.
    pub fn settings(&self) -> Settings {
        Settings {
            manager: self.manager_name.clone(),
            definitions: !self.no_definitions,
            agent_namespace: self.agent_namespace.clone(),
            vips: self.vips,
            gateways: self.gateways,
        }
    }
}

/// How the controllers work, whoever starts them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The name that marks what is ours, in the label `netwrangler.dev/managed-by`.
    pub manager: String,
    /// Whether to apply the custom resource definitions.
    pub definitions: bool,
    /// Where the agents' own Leases are.
    pub agent_namespace: String,
    /// Whether to place virtual IPs.
    pub vips: bool,
    /// Whether to make the routes of VipGateways.
    pub gateways: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            manager: names::DEFAULT_MANAGER.to_owned(),
            definitions: true,
            agent_namespace: names::AGENT_LEASE_NAMESPACE.to_owned(),
            vips: true,
            gateways: true,
        }
    }
}
