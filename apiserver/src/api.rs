//! What every request handler shares; built once by `run`, never changed afterwards.

use std::sync::Arc;

use ipnet::IpNet;
use litek8s_raft::Replica;
use tokio_util::sync::CancellationToken;

use crate::admission::Admission;
use crate::aggregation::Aggregation;
use crate::authorization::Authorizer;
use crate::metrics::ApiMetrics;
use crate::registry::Registry;
use crate::service_account::Issuer;
use crate::streams::Streams;

/// The time of day; tests bring their own.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> jiff::Timestamp;
}

/// The system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }
}

/// The server's parts.
pub struct Api {
    /// The store.
    pub replica: Replica,
    /// Which resources are served.
    pub registry: Registry,
    /// Who may do what.
    pub authorizer: Authorizer,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// ServiceAccount tokens.
    pub issuer: Arc<Issuer>,
    /// The cluster's CA certificate, PEM.
    pub ca: Arc<str>,
    /// Where Services get their addresses from, the preferred family first.
    pub service_cidrs: Vec<IpNet>,
    /// Where pods get their addresses from, the preferred family first.
    pub cluster_cidrs: Vec<IpNet>,
    /// The largest object that is stored, in bytes of JSON.
    pub max_object: usize,
    /// Compiled policies and connections to webhooks.
    pub admission: Admission,
    /// API groups that others serve.
    pub aggregation: Aggregation,
    /// What is counted.
    pub metrics: ApiMetrics,
    /// Connections of nodes, and the streams of pods.
    pub streams: Streams,
    /// Cancelled when the server drains: watches end.
    pub shutdown: CancellationToken,
}
