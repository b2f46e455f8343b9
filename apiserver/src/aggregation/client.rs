//! HTTPS to one backend: trusted by its bundle, known to it by the front proxy's certificate, connections kept for the
//! next request. HTTP/1.1, so that a watch has a connection of its own and upgrades are possible.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;

use super::front_proxy::FrontProxy;
use super::trust::trust;
use crate::response::{Body, BoxError};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a connection waits for the next request, and how many do.
const IDLE: (Duration, usize) = (Duration::from_secs(30), 32);

/// The way to one backend.
pub(super) struct Client(legacy::Client<HttpsConnector<HttpConnector>, Body>);

impl Client {
    /// To a server that proves to be `host` by the certificates of `bundle` (PEM), or need not prove it.
    pub(super) fn new(
        host: &str,
        bundle: &[u8],
        insecure: bool,
        front_proxy: &FrontProxy,
    ) -> Result<Self, String> {
        let name = ServerName::try_from(host.to_owned()).map_err(|error| format!("{host:?}: {error}"))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = trust(bundle, insecure, &provider)?;
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(front_proxy.certificate());
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT));
        tcp.set_keepalive(Some(IDLE.0));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_only()
            .with_server_name_resolver(FixedServerNameResolver::new(name))
            .enable_http1()
            .wrap_connector(tcp);
        let client = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE.0)
            .pool_max_idle_per_host(IDLE.1)
            .build(connector);
        Ok(Self(client))
    }

    /// Sends a request to the endpoint that its URI names.
    pub(super) async fn send(
        &self,
        request: http::Request<Body>,
    ) -> Result<http::Response<Incoming>, String> {
        // The outermost says only that sending failed.
        self.0
            .request(request)
            .await
            .map_err(|error| error.source().map_or_else(|| error.to_string(), causes))
    }
}

/// A body as it comes from a backend, at most `most` bytes of it.
pub(super) async fn read(body: Incoming, most: usize) -> Result<bytes::Bytes, BoxError> {
    Ok(http_body_util::Limited::new(body, most).collect().await?.to_bytes())
}

/// An error with everything behind it.
pub(crate) fn causes(error: &(dyn Error + 'static)) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        // Wrappers repeat what they wrap.
        if texts.last().is_none_or(|last| !last.ends_with(&text)) {
            texts.push(text);
        }
        next = error.source();
    }
    texts.join(": ")
}
