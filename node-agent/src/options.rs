//! The flags of `litek8s agent`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
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
    /// The address other nodes reach this one by, or one of each family (ADDRESS,ADDRESS); the source of the default
    /// routes unless given
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub node_ip: Vec<IpAddr>,
    /// Where the certificate and the last known state are kept
    #[arg(long, value_name = "DIR", default_value = "/var/lib/litek8s/agent")]
    pub state_dir: PathBuf,
    /// Serve /healthz, /readyz and /metrics on this address, by plain HTTP to whoever reaches it
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = litek8s_daemon::serve::address)]
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

    /// The node's addresses: as given, or the sources the kernel would use to go out by either family.
    ///
    /// # Errors
    /// When none is given and there is no default route, or two of one family are given.
    pub(crate) fn node_ips(&self) -> anyhow::Result<Vec<IpAddr>> {
        if let [first, rest @ ..] = self.node_ip.as_slice() {
            let apart = rest.len() <= 1 && rest.iter().all(|other| other.is_ipv4() != first.is_ipv4());
            anyhow::ensure!(apart, "--node-ip takes at most one address of each family");
            return Ok(self.node_ip.clone());
        }
        // Addresses of documentation: any that a default route leads to would do.
        let four = source_towards(Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(192, 0, 2, 1).into());
        let six = source_towards(
            Ipv6Addr::UNSPECIFIED.into(),
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
        );
        let found: Vec<IpAddr> = four.into_iter().chain(six).collect();
        anyhow::ensure!(!found.is_empty(), "the node has no default route: give --node-ip");
        Ok(found)
    }
}

/// The address packets to `to` would come from. Connecting a datagram socket sends nothing; it only asks for the route.
fn source_towards(any: IpAddr, to: IpAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((to, 9)).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}
