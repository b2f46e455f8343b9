//! One TLS connection to an API server: a request at a time, as little client cost as hyper allows.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde::Deserialize;

/// Where a server is and who asks.
#[derive(Clone)]
pub(crate) struct Target {
    host: String,
    port: u16,
    tls: Arc<rustls::ClientConfig>,
    token: Option<String>,
}

#[derive(Deserialize)]
struct Kubeconfig {
    clusters: Vec<NamedCluster>,
    users: Vec<NamedUser>,
}

#[derive(Deserialize)]
struct NamedCluster {
    cluster: Cluster,
}

#[derive(Deserialize)]
struct Cluster {
    server: String,
    #[serde(rename = "certificate-authority-data")]
    ca: String,
}

#[derive(Deserialize)]
struct NamedUser {
    user: User,
}

#[derive(Deserialize)]
struct User {
    #[serde(rename = "client-certificate-data")]
    certificate: Option<String>,
    #[serde(rename = "client-key-data")]
    key: Option<String>,
    token: Option<String>,
}

impl Target {
    /// Reads the first cluster and the first user of a kubeconfig with embedded certificates.
    ///
    /// # Errors
    /// When the file is not such a kubeconfig.
    pub(crate) fn from_kubeconfig(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        let config: Kubeconfig =
            serde_saphyr::from_str(&text).with_context(|| format!("parse {}", path.display()))?;
        let cluster = &config.clusters.first().context("the kubeconfig has no cluster")?.cluster;
        let user = &config.users.first().context("the kubeconfig has no user")?.user;
        let builder = trusting(&decode(&cluster.ca)?)?;
        let tls = match (&user.certificate, &user.key) {
            (Some(certificate), Some(key)) => builder.with_client_auth_cert(
                CertificateDer::pem_slice_iter(&decode(certificate)?).collect::<Result<_, _>>()?,
                PrivateKeyDer::from_pem_slice(&decode(key)?)?,
            )?,
            _ => builder.with_no_client_auth(),
        };
        Self::new(&cluster.server, tls, user.token.clone())
    }

    /// A server by its URL, the file of its CA's certificates and the file of a bearer token.
    ///
    /// # Errors
    /// When a file cannot be read or the URL names no host.
    pub(crate) fn from_url(url: &str, ca: &Path, token: &Path) -> anyhow::Result<Self> {
        let read = |path: &Path| std::fs::read(path).with_context(|| format!("read {}", path.display()));
        let tls = trusting(&read(ca)?)?.with_no_client_auth();
        let token = String::from_utf8(read(token)?).context("the token is no text")?;
        Self::new(url, tls, Some(token.trim().to_owned()))
    }

    fn new(url: &str, tls: rustls::ClientConfig, token: Option<String>) -> anyhow::Result<Self> {
        let uri: http::Uri = url.parse().with_context(|| format!("{url} is no URL"))?;
        Ok(Self {
            host: uri.host().with_context(|| format!("{url} names no host"))?.to_owned(),
            port: uri.port_u16().unwrap_or(443),
            tls: Arc::new(tls),
            token,
        })
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// When the server cannot be reached or its certificate is not trusted.
    pub(crate) async fn connect(&self) -> anyhow::Result<Connection> {
        let stream = tokio::net::TcpStream::connect((self.host.as_str(), self.port)).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from(self.host.clone())?;
        let stream = tokio_rustls::TlsConnector::from(self.tls.clone()).connect(name, stream).await?;
        let (sender, connection) =
            hyper::client::conn::http1::handshake(hyper_util::rt::TokioIo::new(stream)).await?;
        let driver = tokio::spawn(async move {
            // A broken connection shows as the error of the request on it.
            let _ = connection.await;
        });
        Ok(Connection { sender, driver, target: self.clone() })
    }
}

type Unauthenticated = rustls::ConfigBuilder<rustls::ClientConfig, rustls::client::WantsClientCert>;

fn trusting(ca: &[u8]) -> anyhow::Result<Unauthenticated> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca) {
        roots.add(certificate?)?;
    }
    Ok(rustls::ClientConfig::builder().with_root_certificates(roots))
}

fn decode(text: &str) -> anyhow::Result<Vec<u8>> {
    use base64::Engine as _;
    Ok(base64::engine::general_purpose::STANDARD.decode(text.trim())?)
}

/// One open connection.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: tokio::task::JoinHandle<()>,
    target: Target,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Connection {
    /// Sends a request and returns the answer before its body is read.
    ///
    /// # Errors
    /// When the connection breaks.
    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> anyhow::Result<http::Response<Incoming>> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, format!("{}:{}", self.target.host, self.target.port))
            .header(header::ACCEPT, "application/json")
            .header(header::USER_AGENT, "litek8s-bench");
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        if let Some(token) = &self.target.token {
            let mut value = HeaderValue::try_from(format!("Bearer {token}"))?;
            value.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, value);
        }
        self.sender.ready().await?;
        Ok(self.sender.send_request(request.body(Full::new(body))?).await?)
    }

    /// Sends a request and reads the whole answer; anything but success is an error that quotes it.
    ///
    /// # Errors
    /// When the connection breaks or the server refuses.
    pub(crate) async fn call(
        &mut self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> anyhow::Result<Bytes> {
        let (status, answer) = self.answer(method.clone(), path, content_type, body).await?;
        if !status.is_success() {
            bail!("{method} {path}: {status}: {}", String::from_utf8_lossy(&answer));
        }
        Ok(answer)
    }

    /// Sends a request and reads the whole answer, whatever its status.
    ///
    /// # Errors
    /// When the connection breaks.
    pub(crate) async fn answer(
        &mut self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let response = self.send(method, path, content_type, body).await?;
        let status = response.status();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    }

    /// Reads one path.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub(crate) async fn get(&mut self, path: &str) -> anyhow::Result<Bytes> {
        self.call(Method::GET, path, "", Bytes::new()).await
    }
}
