//! One API server from its flags to its end: keys, store, listeners, what a leader does, and the order of stopping.

mod identities;
mod leader;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use litek8s_raft::{Config, Replica};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use leader::{Access, OnLeader};

use crate::admission::Admission;
use crate::aggregation::{self, Aggregation};
use crate::api::{Api, SystemClock};
use crate::audit::Audit;
use crate::authentication::InProcess;
use crate::authorization::Authorizer;
use crate::extensions;
use crate::filters::{InFlight, Stack};
use crate::flow_control::FlowControl;
use crate::health::Health;
use crate::join::{Join, open_token};
use crate::metrics::ApiMetrics;
use crate::options::Options;
use crate::registry::Registry;
use crate::server::{self, Drain, ServingCertificate, server_config};
use crate::service_account::open_issuer;
use crate::streams::Streams;
use identities::Identities;

/// Runs a server until `shutdown`, without anything beside it.
pub async fn run(options: Options, shutdown: CancellationToken) -> anyhow::Result<()> {
    Server::open(options).await?.run(None, shutdown).await
}

/// A server that listens but does not answer yet.
pub struct Server {
    options: Options,
    stack: Arc<Stack>,
    listeners: Vec<TcpListener>,
    tls: Arc<rustls::ServerConfig>,
    identities: Identities,
    serving: Arc<ServingCertificate>,
    advertised: SocketAddr,
}

impl Server {
    /// Makes or reads the keys, recovers the store and opens the listeners.
    pub async fn open(options: Options) -> anyhow::Result<Self> {
        let inherited = server::inherited().context("cannot use an inherited socket")?;
        Self::open_on(options, inherited).await
    }

    /// As `open`, listening on these sockets as well: whoever gives them keeps them open between two servers.
    pub async fn open_on(options: Options, inherited: Vec<TcpListener>) -> anyhow::Result<Self> {
        check(&options)?;
        litek8s_daemon::files::private_directory(&options.data_dir)
            .with_context(|| format!("cannot make {}", options.data_dir.display()))?;
        let listeners = listen(&options, inherited)?;
        // First of all that is written: the store's lock keeps a second server out of the directory.
        let replica = Replica::open(Config::new(&options.data_dir, options.node_name()))
            .await
            .with_context(|| format!("cannot open the store in {}", options.data_dir.display()))?;
        let addresses = local_addresses(&listeners)?;
        let advertised = advertised(&options, &addresses);
        let identities = Identities::open(&options, &addresses, advertised.ip())?;
        let authority = identities.authority();
        let (server, _) = identities.server(std::time::SystemTime::now())?;
        let serving = Arc::new(ServingCertificate::new(&server)?);
        let tls = Arc::new(server_config(&authority, serving.clone())?);
        identities.write_kubeconfig(std::time::SystemTime::now())?;
        let tokens = join_tokens(&options, &authority.fingerprint())?;
        let issuer = open_issuer(&identities.directory().join("service-account.key"))?;
        let metrics = ApiMetrics::default();
        metrics.observe(replica.clone());
        let audit = match options.audit() {
            Some(settings) => Audit::open(&settings, metrics.clone())?,
            None => Audit::default(),
        };
        let api = Arc::new(Api {
            replica,
            registry: Registry::new(),
            authorizer: Authorizer::default(),
            clock: Arc::new(SystemClock),
            issuer,
            ca: authority.pem().into(),
            service_cidrs: options.service_cidr.clone(),
            cluster_cidrs: options.cluster_cidr.clone(),
            max_object: options.max_object_bytes as usize,
            admission: Admission::default(),
            aggregation: Aggregation::open(identities.directory(), std::time::SystemTime::now())?,
            metrics,
            streams: Streams::default(),
            shutdown: CancellationToken::new(),
        });
        // A recovered store serves its custom resources from the first request on.
        extensions::load(&api);
        let flow_control = FlowControl::new(&api.replica);
        let stack = Stack {
            api,
            in_process: InProcess::default(),
            join: Join { authority, tokens },
            health: Arc::default(),
            audit,
            flow_control,
            in_flight: InFlight::new(options.max_requests_inflight, options.max_mutating_requests_inflight),
            request_timeout: Duration::from_secs(options.request_timeout),
        };
        Ok(Self { options, stack: Arc::new(stack), listeners, tls, identities, serving, advertised })
    }

    /// The addresses that are listened on, inherited sockets last.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// The server's parts.
    pub fn api(&self) -> &Arc<Api> {
        &self.stack.api
    }

    /// Serves until `shutdown`; `on_leader` runs whenever this server leads.
    pub async fn run(self, on_leader: Option<OnLeader>, shutdown: CancellationToken) -> anyhow::Result<()> {
        let Self { options, stack, listeners, tls, identities, serving, advertised } = self;
        let (drain, connections, background) = (Drain::default(), TaskTracker::new(), TaskTracker::new());
        for listener in listeners {
            if let Ok(address) = listener.local_addr() {
                tracing::info!(%address, "serving");
            }
            let serving =
                server::serve(listener, tls.clone(), stack.clone(), drain.clone(), connections.clone());
            background.spawn(serving);
        }
        let stop = CancellationToken::new();
        let lead = leader::Leader {
            api: stack.api.clone(),
            in_process: stack.in_process.clone(),
            authority: stack.join.authority.clone(),
            health: stack.health.clone(),
            advertised,
            access_url: identities.loopback_url().to_owned(),
            on_leader,
        };
        background.spawn(lead.run(stop.clone()));
        background.spawn(identities.renew(serving, stop.clone()));
        background.spawn(aggregation::renew(stack.api.clone(), stop.clone()));
        background.spawn(aggregation::learn(stack.api.clone(), stop.clone()));
        background.spawn(extensions::follow(stack.api.clone(), stop.clone()));
        shutdown.cancelled().await;
        stop_in_order(&options, &stack.health, &stack.api, &drain, &connections, &stop).await;
        background.close();
        background.wait().await;
        stack.audit.flush().await;
        stack.api.replica.stop().await;
        tracing::info!("stopped");
        Ok(())
    }
}

/// Readiness first, then new connections, watches, requests in progress, and last whatever does not end.
async fn stop_in_order(
    options: &Options,
    health: &Health,
    api: &Api,
    drain: &Drain,
    connections: &TaskTracker,
    stop: &CancellationToken,
) {
    health.set_draining();
    tokio::time::sleep(Duration::from_secs(options.shutdown_delay)).await;
    stop.cancel();
    drain.begin.cancel();
    api.shutdown.cancel();
    connections.close();
    let grace = Duration::from_secs(options.shutdown_grace);
    if tokio::time::timeout(grace, connections.wait()).await.is_err() {
        tracing::warn!(open = connections.len(), "requests did not end in time");
    }
    drain.end.cancel();
    connections.wait().await;
    api.streams.ended().await;
}

/// What the flags cannot express in their types.
fn check(options: &Options) -> anyhow::Result<()> {
    if options.listen.is_empty() {
        bail!("--listen needs at least one address");
    }
    for (flag, cidrs) in
        [("--service-cidr", &options.service_cidr), ("--cluster-cidr", &options.cluster_cidr)]
    {
        if let Some(cidr) = cidrs.iter().find(|cidr| cidr.trunc() != **cidr) {
            bail!("{flag}: {cidr} has host bits set, did you mean {}?", cidr.trunc());
        }
    }
    for service in &options.service_cidr {
        let overlaps =
            |cidr: &&ipnet::IpNet| cidr.contains(&service.addr()) || service.contains(&cidr.addr());
        if let Some(cluster) = options.cluster_cidr.iter().find(overlaps) {
            bail!("--service-cidr {service} and --cluster-cidr {cluster} overlap");
        }
    }
    Ok(())
}

fn listen(options: &Options, inherited: Vec<TcpListener>) -> anyhow::Result<Vec<TcpListener>> {
    let bind =
        |address: &SocketAddr| server::bind(*address).with_context(|| format!("cannot listen on {address}"));
    let mut listeners = options.listen.iter().map(bind).collect::<anyhow::Result<Vec<_>>>()?;
    listeners.extend(inherited);
    Ok(listeners)
}

fn local_addresses(listeners: &[TcpListener]) -> anyhow::Result<Vec<SocketAddr>> {
    listeners.iter().map(|listener| listener.local_addr().context("a socket has no address")).collect()
}

/// Where other machines find this server.
fn advertised(options: &Options, addresses: &[SocketAddr]) -> SocketAddr {
    let first = addresses.first().copied().unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0)));
    let own = options.advertise_address.unwrap_or_else(|| {
        if first.ip().is_unspecified() { outward_address(first.ip()) } else { first.ip() }
    });
    SocketAddr::new(own, first.port())
}

/// The address that packets to the outside would have; a UDP socket that is connected sends nothing.
fn outward_address(any: IpAddr) -> IpAddr {
    let (from, to, loopback) = match any {
        IpAddr::V4(_) => ("0.0.0.0:0", "192.0.2.1:9", IpAddr::from(Ipv4Addr::LOCALHOST)),
        IpAddr::V6(_) => ("[::]:0", "[2001:db8::1]:9", IpAddr::from(Ipv6Addr::LOCALHOST)),
    };
    let found = UdpSocket::bind(from).and_then(|socket| {
        socket.connect(to)?;
        socket.local_addr()
    });
    found.map_or(loopback, |address| address.ip())
}

fn join_tokens(
    options: &Options,
    ca_hash: &str,
) -> anyhow::Result<Vec<litek8s_daemon::join_token::JoinToken>> {
    let file = |given: &Option<std::path::PathBuf>, name: &str| {
        given.clone().unwrap_or_else(|| options.data_dir.join(name))
    };
    Ok(vec![
        open_token(&file(&options.server_token_file, "server-token"), "server", ca_hash)?,
        open_token(&file(&options.agent_token_file, "agent-token"), "node", ca_hash)?,
    ])
}
