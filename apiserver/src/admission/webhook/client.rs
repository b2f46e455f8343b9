//! HTTPS to one webhook, with connections that are kept for the next call.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The largest answer to a review of one object, in bytes.
pub(crate) const MAX_ANSWER: usize = 3 * 1024 * 1024;
/// How many connections wait for the next call.
const MAX_IDLE: usize = 8;
/// How long a connection waits: less than servers usually keep one.
const MAX_IDLE_TIME: Duration = Duration::from_secs(30);

/// A connection with where it leads and since when it waits.
struct Idle {
    address: String,
    since: Instant,
    sender: SendRequest<Full<Bytes>>,
}

/// The way to one webhook.
pub(crate) struct Client {
    tls: TlsConnector,
    server: ServerName<'static>,
    idle: Mutex<Vec<Idle>>,
}

impl Client {
    /// To a server that proves to be `host` by the certificates of `bundle` (PEM).
    pub(crate) fn new(host: &str, bundle: &[u8]) -> Result<Self, String> {
        let server = ServerName::try_from(host.to_owned()).map_err(|error| format!("{host:?}: {error}"))?;
        let mut roots = RootCertStore::empty();
        let bundle = if bundle.is_empty() { system_bundle() } else { bundle.to_vec() };
        for certificate in CertificateDer::pem_slice_iter(&bundle) {
            let certificate = certificate.map_err(|error| format!("caBundle: {error}"))?;
            roots.add(certificate).map_err(|error| format!("caBundle: {error}"))?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { tls: TlsConnector::from(Arc::new(config)), server, idle: Mutex::default() })
    }

    /// Posts JSON to `url` at `address`; the answer's code and body, of which at most `limit` bytes are read.
    pub(crate) async fn post(
        &self,
        address: &str,
        url: &str,
        body: Vec<u8>,
        limit: usize,
    ) -> Result<(u16, Bytes), String> {
        let body = Bytes::from(body);
        let answer = match self.take(address) {
            Some(mut sender) => {
                let answer = exchange(&mut sender, url, body.clone(), limit).await;
                answer.ok().map(|answer| (sender, answer))
            }
            None => None,
        };
        let (sender, answer) = match answer {
            Some(answered) => answered,
            // A connection that waited may have been closed meanwhile: a new one says what is wrong.
            None => {
                let mut sender = self.connect(address).await?;
                let answer = exchange(&mut sender, url, body, limit).await?;
                (sender, answer)
            }
        };
        self.keep(address, sender);
        Ok(answer)
    }

    async fn connect(&self, address: &str) -> Result<SendRequest<Full<Bytes>>, String> {
        let stream = TcpStream::connect(address).await;
        let stream = stream.map_err(|error| format!("dial tcp {address}: connect: {}", plain(&error)))?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let stream = self.tls.connect(self.server.clone(), stream).await;
        let stream = stream.map_err(|error| format!("tls: {error}"))?;
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        // Ends with the sender, or when the server closes.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to a webhook ended");
            }
        });
        Ok(sender)
    }

    fn take(&self, address: &str) -> Option<SendRequest<Full<Bytes>>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|connection| {
            connection.since.elapsed() < MAX_IDLE_TIME && !connection.sender.is_closed()
        });
        let at = idle.iter().position(|connection| connection.address == address)?;
        Some(idle.swap_remove(at).sender)
    }

    fn keep(&self, address: &str, sender: SendRequest<Full<Bytes>>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if !sender.is_closed() && idle.len() < MAX_IDLE {
            idle.push(Idle { address: address.to_owned(), since: Instant::now(), sender });
        }
    }
}

/// One request and its answer.
async fn exchange(
    sender: &mut SendRequest<Full<Bytes>>,
    url: &str,
    body: Bytes,
    limit: usize,
) -> Result<(u16, Bytes), String> {
    let uri: http::Uri = url.parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let host = uri.authority().map_or("", |authority| authority.as_str());
    let request = Request::post(path)
        .header(header::HOST, host)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, */*")
        .header(header::USER_AGENT, "kube-apiserver-admission")
        .body(Full::new(body))
        .map_err(|error| error.to_string())?;
    sender.ready().await.map_err(|error| error.to_string())?;
    let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
    let code = response.status().as_u16();
    let body = Limited::new(response.into_body(), limit).collect().await;
    Ok((code, body.map_err(|error| error.to_string())?.to_bytes()))
}

/// The certificates this machine trusts; none when it has no such file.
pub(crate) fn system_bundle() -> Vec<u8> {
    const FILES: [&str; 3] =
        ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];
    FILES.iter().find_map(|file| std::fs::read(file).ok()).unwrap_or_default()
}

/// The error without the number of the operating system.
fn plain(error: &std::io::Error) -> String {
    use std::io::ErrorKind;
    let known = [
        (ErrorKind::ConnectionRefused, "connection refused"),
        (ErrorKind::HostUnreachable, "no route to host"),
        (ErrorKind::NetworkUnreachable, "network is unreachable"),
    ];
    let found = known.iter().find(|(kind, _)| *kind == error.kind());
    found.map_or_else(|| error.to_string(), |(_, text)| (*text).to_owned())
}
