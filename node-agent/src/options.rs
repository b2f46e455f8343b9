//! The flags of `litek8s agent`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use litek8s_crds::names;

/// How an agent finds its API server, who it is, and where it keeps what it must not lose.
#[derive(Debug, Clone, clap::Args)]
#[command(group(clap::ArgGroup::new("server").required(true).args(["join", "kubeconfig", "in_cluster", "cleanup"])))]
pub struct Options {
    /// The API server to join; the token says which CA it must have
    #[arg(long, value_name = "URL", requires = "token_file")]
    pub join: Option<String>,
    /// The file with the agent token (mode 0600)
    #[arg(long, value_name = "FILE", env = "LITEK8S_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
    /// Use this kubeconfig instead of joining
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Use the ServiceAccount of the pod this runs in. The Node and its Lease are its kubelet's then: they are only read
    #[arg(long)]
    pub in_cluster: bool,
    /// The namespace of the agents' own Leases; the controllers must be told the same
    #[arg(long, value_name = "NAMESPACE", default_value = names::AGENT_LEASE_NAMESPACE)]
    pub agent_namespace: String,
    /// The name of this node; the host's name unless given
    #[arg(long, value_name = "NAME")]
    pub node_name: Option<String>,
    /// The address other nodes reach this one by; the source of the default route unless given
    #[arg(long, value_name = "ADDRESS")]
    pub node_ip: Option<Ipv4Addr>,
    /// Where the certificate and the last known state are kept
    #[arg(long, value_name = "DIR", default_value = "/var/lib/litek8s/agent")]
    pub state_dir: PathBuf,
    /// Serve /healthz, /readyz and /metrics on this address, by plain HTTP to whoever reaches it
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// Remove everything the agent has put into the kernel, and end; with --listen stay, and be ready when it is removed
    #[arg(long)]
    pub cleanup: bool,
}

/// Flags of `litek8s vip diff`.
#[derive(Debug, Clone, clap::Args)]
#[command(group(clap::ArgGroup::new("server").required(true).args(["join", "kubeconfig"])))]
pub struct DiffOptions {
    /// The node, which is this machine
    pub node: String,
    /// The API server, with the credentials that the agent keeps in its state directory
    #[arg(long, value_name = "URL", requires = "token_file")]
    pub join: Option<String>,
    /// The file with the agent token (mode 0600)
    #[arg(long, value_name = "FILE", env = "LITEK8S_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
    /// Use this kubeconfig instead
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Where the agent keeps its certificate
    #[arg(long, value_name = "DIR", default_value = "/var/lib/litek8s/agent")]
    pub state_dir: PathBuf,
}

impl Options {
    /// The node's name: as given, or the host's in lower case.
    ///
    /// # Errors
    /// When neither is a name.
    pub(crate) fn node_name(&self) -> anyhow::Result<String> {
        let name = match &self.node_name {
            Some(name) => name.clone(),
            None => std::fs::read_to_string("/proc/sys/kernel/hostname")?.trim().to_lowercase(),
        };
        anyhow::ensure!(!name.is_empty(), "the host has no name: give --node-name");
        Ok(name)
    }

    /// The node's address: as given, or the source the kernel would use to go out.
    ///
    /// # Errors
    /// When none is given and there is no default route.
    pub(crate) fn node_ip(&self) -> anyhow::Result<Ipv4Addr> {
        if let Some(address) = self.node_ip {
            return Ok(address);
        }
        // Connecting a datagram socket sends nothing; it only asks for the route.
        let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        let told = socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).and_then(|()| socket.local_addr());
        match told.map(|address| address.ip()) {
            Ok(std::net::IpAddr::V4(address)) if !address.is_loopback() => Ok(address),
            Ok(_) | Err(_) => anyhow::bail!("the node has no default route: give --node-ip"),
        }
    }
}
