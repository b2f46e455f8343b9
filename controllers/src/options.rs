//! What a person may set.

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
    /// Do not apply the custom resource definitions; wait for them instead.
    #[arg(long)]
    pub no_definitions: bool,
}

impl Options {
    /// What the controllers need of it.
    pub fn settings(&self) -> Settings {
        Settings { manager: self.manager_name.clone(), definitions: !self.no_definitions }
    }
}

/// How the controllers work, whoever starts them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The name that marks what is ours, in the label `netwrangler.dev/managed-by`.
    pub manager: String,
    /// Whether to apply the custom resource definitions.
    pub definitions: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { manager: names::DEFAULT_MANAGER.to_owned(), definitions: true }
    }
}
