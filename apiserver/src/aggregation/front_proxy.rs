//! Who this server is to its backends: a client certificate of a CA of its own, which signs nothing else. Whoever
//! shows it is believed when it says for whom it asks.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use litek8s_daemon::pki::{Authority, Identity, Leaf, PkiError, Usage};
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::server::certified_key;

/// The common name, which backends are told to accept.
pub(crate) const NAME: &str = "front-proxy-client";
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// How often the certificate's age is looked at.
const RENEWAL_CHECK: Duration = Duration::from_secs(60 * 60);

/// The CA, and the certificate that connections begun from now on show.
pub(crate) struct FrontProxy {
    authority: Authority,
    directory: std::path::PathBuf,
    current: Arc<Current>,
}

#[derive(Debug, Default)]
struct Current(RwLock<Option<Arc<CertifiedKey>>>);

impl FrontProxy {
    /// Opens or makes `front-proxy-ca` and `front-proxy-client` in `directory`.
    pub(super) fn open(directory: &Path, now: SystemTime) -> Result<Self, PkiError> {
        let authority = Authority::open(directory, "front-proxy-ca", now)?;
        let front_proxy = Self { authority, directory: directory.to_owned(), current: Arc::default() };
        front_proxy.refresh(now)?;
        Ok(front_proxy)
    }

    /// The CA's certificate, PEM.
    pub(crate) fn ca(&self) -> &str {
        self.authority.pem()
    }

    /// What connections show.
    pub(super) fn certificate(&self) -> Arc<dyn ResolvesClientCert> {
        self.current.clone()
    }

    /// Renews the certificate when it is due.
    fn refresh(&self, now: SystemTime) -> Result<(), PkiError> {
        let leaf = Leaf {
            common_name: NAME.to_owned(),
            organizations: Vec::new(),
            hostnames: Vec::new(),
            addresses: Vec::new(),
            usage: Usage::Client,
            life: YEAR,
        };
        let (identity, new) = self.authority.identity(&self.directory, NAME, &leaf, now)?;
        if new {
            tracing::info!("the certificate for aggregated servers is made");
        }
        self.current.set(&identity);
        Ok(())
    }
}

impl Current {
    fn set(&self, identity: &Identity) {
        match certified_key(identity) {
            Ok(key) => *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(key)),
            Err(error) => tracing::error!(%error, "the certificate for aggregated servers cannot be used"),
        }
    }
}

impl ResolvesClientCert for Current {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// Renews the certificate while the server runs, until `stop`.
pub(crate) async fn renew(api: Arc<Api>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(RENEWAL_CHECK) => {}
        }
        if let Err(error) = api.aggregation.front_proxy().refresh(SystemTime::now()) {
            tracing::warn!(%error, "the certificate for aggregated servers cannot be renewed");
        }
    }
}
