//! The flags of `litek8s apiserver`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use ipnet::IpNet;

/// How the API server runs.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Where the log, the keys and the tokens are kept.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/litek8s")]
    pub data_dir: PathBuf,
    /// Address and port to serve on; may be repeated. Sockets inherited by LISTEN_FDS are served as well.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:6443")]
    pub listen: Vec<SocketAddr>,
    /// The address that other machines reach this server at; the first listening address by default.
    #[arg(long, value_name = "ADDRESS")]
    pub advertise_address: Option<IpAddr>,
    /// The name of this server; the host's name by default.
    #[arg(long, value_name = "NAME")]
    pub node_name: Option<String>,
    /// Further host names or addresses for the server's certificate; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub tls_san: Vec<String>,
    /// Where to write the administrator's kubeconfig, mode 0600; DIR/admin.kubeconfig by default.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The server that the kubeconfig names; the first listening address by default.
    #[arg(long, value_name = "URL")]
    pub kubeconfig_server: Option<String>,
    /// The file of the token that servers join with, made when absent; DIR/server-token by default.
    #[arg(long, value_name = "FILE")]
    pub server_token_file: Option<PathBuf>,
    /// The file of the token that nodes join with, made when absent; DIR/agent-token by default.
    #[arg(long, value_name = "FILE")]
    pub agent_token_file: Option<PathBuf>,
    /// The range that Services get their addresses from; may be given once for each family.
    #[arg(long, value_name = "CIDR", default_value = "10.43.0.0/16", value_delimiter = ',')]
    pub service_cidr: Vec<IpNet>,
    /// The range that pods get their addresses from; may be given once for each family.
    #[arg(long, value_name = "CIDR", default_value = "10.42.0.0/16", value_delimiter = ',')]
    pub cluster_cidr: Vec<IpNet>,
    /// The largest object that is stored, in bytes of JSON; kube-apiserver has 1.5 MiB from etcd.
    #[arg(long, value_name = "BYTES", default_value_t = 1_572_864,
        value_parser = clap::value_parser!(u32).range(65_536..=67_108_864))]
    pub max_object_bytes: u32,
    /// How many reading requests are answered at a time; watches do not count.
    #[arg(long, value_name = "N", default_value_t = 400)]
    pub max_requests_inflight: usize,
    /// How many writing requests are answered at a time.
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub max_mutating_requests_inflight: usize,
    /// What is written to the audit log: a Policy of audit.k8s.io/v1; without one, everything's metadata.
    #[arg(long, value_name = "FILE", requires = "audit_log_path")]
    pub audit_policy_file: Option<PathBuf>,
    /// Where the audit log is written, one JSON object a line; without it there is none.
    #[arg(long, value_name = "FILE")]
    pub audit_log_path: Option<PathBuf>,
    /// MiB after which the audit log goes on in a new file.
    #[arg(long, value_name = "MIB", default_value_t = 100)]
    pub audit_log_maxsize: u64,
    /// How many full audit logs are kept.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub audit_log_maxbackup: usize,
    /// Seconds after which a request that is no watch is given up.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub request_timeout: u64,
    /// Seconds to go on serving after the readiness check has begun to fail, for load balancers to notice.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub shutdown_delay: u64,
    /// Seconds that requests get to end when the server stops.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub shutdown_grace: u64,
}

impl Options {
    /// This server's name.
    pub fn node_name(&self) -> String {
        self.node_name.clone().unwrap_or_else(|| {
            let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
            let name = name.trim().to_ascii_lowercase();
            if name.is_empty() { "localhost".to_owned() } else { name }
        })
    }

    /// The audit log, if there is to be one.
    pub fn audit(&self) -> Option<crate::audit::Settings> {
        Some(crate::audit::Settings {
            policy_file: self.audit_policy_file.clone(),
            path: self.audit_log_path.clone()?,
            max_bytes: self.audit_log_maxsize << 20,
            max_backups: self.audit_log_maxbackup,
        })
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig.clone().unwrap_or_else(|| self.data_dir.join("admin.kubeconfig"))
    }
}
