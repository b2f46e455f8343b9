//! What every daemon shares: logs, shutdown, metrics, health, files and PKI; never anything of Kubernetes.

pub mod backoff;
pub mod files;
pub mod health;
pub mod join_token;
pub mod logging;
pub mod metrics;
pub mod pki;
pub mod serve;
pub mod shutdown;
pub mod streams;
