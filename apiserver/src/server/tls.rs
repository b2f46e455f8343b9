//! TLS: the certificate that is served, replaced without a restart, and the clients' certificates.

use std::sync::{Arc, PoisonError, RwLock};

use litek8s_daemon::pki::{Authority, Identity};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The library refuses the key, the certificate or the CA.
    #[error("TLS: {0}")]
    Rustls(#[from] rustls::Error),
    /// The texts are not PEM.
    #[error("TLS: {0}")]
    Pem(#[from] rustls_pki_types::pem::Error),
    /// Clients' certificates cannot be checked.
    #[error("TLS: {0}")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
}

/// The certificate new connections get.
#[derive(Debug)]
pub struct ServingCertificate(RwLock<Arc<CertifiedKey>>);

impl ServingCertificate {
    /// Serves this certificate.
    pub fn new(identity: &Identity) -> Result<Self, TlsError> {
        Ok(Self(RwLock::new(Arc::new(certified_key(identity)?))))
    }

    /// Serves another one from the next connection on.
    pub fn replace(&self, identity: &Identity) -> Result<(), TlsError> {
        let key = Arc::new(certified_key(identity)?);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = key;
        Ok(())
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// Certificate and key as rustls wants them.
pub(crate) fn certified_key(identity: &Identity) -> Result<CertifiedKey, TlsError> {
    let chain =
        CertificateDer::pem_slice_iter(identity.certificate.as_bytes()).collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes())?;
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    Ok(CertifiedKey::from_der(chain, key, &provider)?)
}

/// TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1; certificates of clients are optional but must be the CA's.
pub fn server_config(
    authority: &Authority,
    serving: Arc<ServingCertificate>,
) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().to_vec().into())?;
    let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone())
        .allow_unauthenticated()
        .build()?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(clients)
        .with_cert_resolver(serving);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
