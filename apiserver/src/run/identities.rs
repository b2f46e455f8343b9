//! The server's certificates and the administrator's kubeconfig: made at the start, renewed while serving.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use litek8s_daemon::files;
use litek8s_daemon::pki::{Authority, Identity, Leaf, Usage};
use tokio_util::sync::CancellationToken;

use crate::bootstrap::api_service_address;
use crate::kubeconfig;
use crate::options::Options;
use crate::request::MASTERS;
use crate::server::ServingCertificate;

const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// How often the certificates' ages are looked at.
const RENEWAL_CHECK: Duration = Duration::from_secs(60 * 60);
/// The names of the API inside a cluster.
const SERVICE_NAMES: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// The CA and what it signs for this server.
pub(super) struct Identities {
    authority: Arc<Authority>,
    directory: PathBuf,
    server: Leaf,
    kubeconfig: PathBuf,
    kubeconfig_server: String,
    loopback_url: String,
}

impl Identities {
    /// Opens or makes the CA.
    pub(super) fn open(
        options: &Options,
        addresses: &[SocketAddr],
        advertised: IpAddr,
    ) -> anyhow::Result<Self> {
        let directory = options.data_dir.join("pki");
        files::private_directory(&directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        let authority = Arc::new(Authority::open(&directory, "ca", SystemTime::now())?);
        let loopback_url = addresses.first().map(reachable).unwrap_or_default();
        Ok(Self {
            authority,
            directory,
            server: server_leaf(options, addresses, advertised),
            kubeconfig: options.kubeconfig(),
            kubeconfig_server: options.kubeconfig_server.clone().unwrap_or_else(|| loopback_url.clone()),
            loopback_url,
        })
    }

    pub(super) fn authority(&self) -> Arc<Authority> {
        self.authority.clone()
    }

    /// Where keys and certificates are.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// How this process reaches itself.
    pub(super) fn loopback_url(&self) -> &str {
        &self.loopback_url
    }

    /// The certificate to serve, and whether it is new.
    pub(super) fn server(&self, now: SystemTime) -> anyhow::Result<(Identity, bool)> {
        Ok(self.authority.identity(&self.directory, "server", &self.server, now)?)
    }

    /// Writes the administrator's kubeconfig unless it is there as it should be.
    pub(super) fn write_kubeconfig(&self, now: SystemTime) -> anyhow::Result<()> {
        let leaf = Leaf {
            common_name: "system:admin".to_owned(),
            organizations: vec![MASTERS.to_owned()],
            hostnames: Vec::new(),
            addresses: Vec::new(),
            usage: Usage::Client,
            life: YEAR,
        };
        let (admin, _) = self.authority.identity(&self.directory, "admin", &leaf, now)?;
        let text = kubeconfig::render(&self.kubeconfig_server, self.authority.pem(), &admin);
        let path = &self.kubeconfig;
        if files::read_if_exists(path).ok().flatten().as_deref() == Some(text.as_str()) {
            return Ok(());
        }
        files::write_private(path, text.as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Renews what has two thirds of its life behind it, until `stop`.
    pub(super) async fn renew(self, serving: Arc<ServingCertificate>, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(RENEWAL_CHECK) => {}
            }
            let now = SystemTime::now();
            let renewed = self.server(now).and_then(|(server, new)| {
                if new {
                    serving.replace(&server)?;
                    tracing::info!("the server's certificate is renewed");
                }
                self.write_kubeconfig(now)
            });
            if let Err(error) = renewed {
                tracing::warn!(error = format!("{error:#}"), "certificates cannot be renewed");
            }
        }
    }
}

fn server_leaf(options: &Options, addresses: &[SocketAddr], advertised: IpAddr) -> Leaf {
    let mut ips: Vec<IpAddr> = vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into(), advertised];
    ips.extend(addresses.iter().map(SocketAddr::ip).filter(|ip| !ip.is_unspecified()));
    ips.extend(options.service_cidr.iter().filter_map(api_service_address));
    let mut hostnames: Vec<String> = SERVICE_NAMES.iter().map(|name| (*name).to_owned()).collect();
    hostnames.push(options.node_name());
    for san in &options.tls_san {
        match san.parse() {
            Ok(ip) => ips.push(ip),
            Err(_) => hostnames.push(san.clone()),
        }
    }
    Leaf {
        common_name: "litek8s-apiserver".to_owned(),
        organizations: Vec::new(),
        hostnames: unique(hostnames),
        addresses: unique(ips),
        usage: Usage::Server,
        life: YEAR,
    }
}

/// Each once, the first first.
fn unique<T: PartialEq>(items: Vec<T>) -> Vec<T> {
    items.into_iter().fold(Vec::new(), |mut kept, item| {
        if !kept.contains(&item) {
            kept.push(item);
        }
        kept
    })
}

/// The URL of a listening address, from this machine.
fn reachable(address: &SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) => IpAddr::V4(if ip.is_unspecified() { Ipv4Addr::LOCALHOST } else { ip }),
        IpAddr::V6(ip) => IpAddr::V6(if ip.is_unspecified() { Ipv6Addr::LOCALHOST } else { ip }),
    };
    format!("https://{}", SocketAddr::new(ip, address.port()))
}
