//! A running server, and a client that shows what came over the wire.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use litek8s_apiserver::options::Options;
use litek8s_apiserver::run::{OnLeader, Server};
use litek8s_daemon::join_token::JoinToken;
use litek8s_daemon::pki::{Identity, der_of_pem, key_and_request};
use rustls_pki_types::pem::PemObject;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

#[derive(Debug, clap::Parser)]
struct Flags {
    #[command(flatten)]
    options: Options,
}

/// A server of its own.
pub(crate) struct Running {
    directory: Arc<tempfile::TempDir>,
    address: SocketAddr,
    shutdown: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Running {
    /// Starts one in a fresh directory and waits until it is ready.
    pub(crate) async fn start() -> Self {
        Self::start_with(None).await
    }

    /// As `start`, with something that runs while the server leads.
    pub(crate) async fn start_with(on_leader: Option<OnLeader>) -> Self {
        let directory = Arc::new(tempfile::tempdir().unwrap());
        Self::start_in(directory, "127.0.0.1:0".parse().unwrap(), on_leader, &[]).await
    }

    /// As `start`, over this directory and with further flags.
    pub(crate) async fn start_over(directory: tempfile::TempDir, flags: &[&str]) -> Self {
        Self::start_in(Arc::new(directory), "127.0.0.1:0".parse().unwrap(), None, flags).await
    }

    /// As `start`, with further flags.
    pub(crate) async fn start_with_flags(flags: &[&str]) -> Self {
        Self::start_over(tempfile::tempdir().unwrap(), flags).await
    }

    /// As `start`, on a socket that outlives the server, over its own or an earlier server's directory.
    pub(crate) async fn start_on(
        listener: &std::net::TcpListener,
        directory: Option<Arc<tempfile::TempDir>>,
    ) -> Self {
        let directory = directory.unwrap_or_else(|| Arc::new(tempfile::tempdir().unwrap()));
        let inherited = listener.try_clone().unwrap();
        inherited.set_nonblocking(true).unwrap();
        let inherited = vec![tokio::net::TcpListener::from_std(inherited).unwrap()];
        let options = Self::options(&directory, "127.0.0.1:0", &[]);
        Self::ready(directory, Server::open_on(options, inherited).await.unwrap(), None).await
    }

    async fn start_in(
        directory: Arc<tempfile::TempDir>,
        listen: SocketAddr,
        on_leader: Option<OnLeader>,
        further: &[&str],
    ) -> Self {
        let options = Self::options(&directory, &listen.to_string(), further);
        Self::ready(directory, Server::open(options).await.unwrap(), on_leader).await
    }

    fn options(directory: &tempfile::TempDir, listen: &str, further: &[&str]) -> Options {
        let data = directory.path().join("data");
        let flags =
            ["litek8s", "--data-dir", data.to_str().unwrap(), "--listen", listen, "--node-name", "server"];
        let flags = flags.iter().chain(further);
        let Flags { options } = clap::Parser::try_parse_from(flags).unwrap();
        options
    }

    async fn ready(directory: Arc<tempfile::TempDir>, server: Server, on_leader: Option<OnLeader>) -> Self {
        let address = server.addresses()[0];
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(server.run(on_leader, shutdown.clone()));
        let running = Self { directory, address, shutdown, task };
        for _ in 0..200 {
            if running.anonymous().await.get("/readyz").await.code == StatusCode::OK {
                return running;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("not ready: {}", running.anonymous().await.get("/readyz").await.text());
    }

    /// Stops it and waits for the end.
    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.unwrap().unwrap();
    }

    /// Tells it to stop, without waiting for the end.
    pub(crate) fn begin_stop(&self) {
        self.shutdown.cancel();
    }

    /// Stops it and starts another one over its directory and port.
    pub(crate) async fn restart(self) -> Self {
        let (directory, address) = (self.directory.clone(), self.address);
        self.stop().await;
        Self::start_in(directory, address, None, &[]).await
    }

    /// The directory, which lives as long as anybody holds it.
    pub(crate) fn directory(&self) -> Arc<tempfile::TempDir> {
        self.directory.clone()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("data").join(name)
    }

    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// The administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> String {
        self.file("admin.kubeconfig")
    }

    /// The file of the administrator's kubeconfig.
    pub(crate) fn kubeconfig_file(&self) -> PathBuf {
        self.path("admin.kubeconfig")
    }

    /// The file of the token that nodes join with.
    pub(crate) fn agent_token_file(&self) -> PathBuf {
        self.path("agent-token")
    }

    /// Where it is.
    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The token that nodes join with.
    pub(crate) fn agent_token(&self) -> JoinToken {
        self.file("agent-token").parse().unwrap()
    }

    /// The cluster's CA.
    pub(crate) fn ca(&self) -> String {
        self.file("pki/ca.crt")
    }

    /// The administrator's certificate.
    pub(crate) fn admin_identity(&self) -> Identity {
        Identity { certificate: self.file("pki/admin.crt"), key: self.file("pki/admin.key") }
    }

    /// Joins as a node.
    pub(crate) async fn node_identity(&self, name: &str) -> Identity {
        let joining = key_and_request(name).unwrap();
        let body = json!({"nodeName": name, "csr": joining.request});
        let client = self.anonymous().await.with_token(&self.agent_token().reveal());
        let joined = client.post("/v1-litek8s/node-certificate", &body).await.json();
        Identity { certificate: joined["certificate"].as_str().unwrap().to_owned(), key: joining.key }
    }

    /// A client without credentials.
    pub(crate) async fn anonymous(&self) -> Client {
        self.client(None, false).await
    }

    /// A client with the administrator's certificate.
    pub(crate) async fn admin(&self, http2: bool) -> Client {
        let admin = self.admin_identity();
        self.client(Some((&admin.certificate, &admin.key)), http2).await
    }

    /// A client with a certificate and key.
    pub(crate) async fn client(&self, identity: Option<(&str, &str)>, http2: bool) -> Client {
        self.try_client(identity, http2).await.unwrap()
    }

    /// As `client`, when TLS may fail.
    pub(crate) async fn try_client(
        &self,
        identity: Option<(&str, &str)>,
        http2: bool,
    ) -> std::io::Result<Client> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(der_of_pem(&self.ca()).unwrap().into()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let key = rustls_pki_types::PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![der_of_pem(certificate).unwrap().into()], key).unwrap()
            }
        };
        config.alpn_protocols = vec![if http2 { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
        let stream = tokio::net::TcpStream::connect(self.address).await?;
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        // Any of the names in the certificate will do.
        let stream = connector.connect("kubernetes.default.svc".try_into().unwrap(), stream).await?;
        let negotiated = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let io = TokioIo::new(stream);
        let sender = if http2 {
            let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io)
                .await
                .map_err(std::io::Error::other)?;
            tokio::spawn(connection);
            Sender::Two(sender)
        } else {
            let (sender, connection) =
                hyper::client::conn::http1::handshake(io).await.map_err(std::io::Error::other)?;
            tokio::spawn(connection.with_upgrades());
            Sender::One(sender)
        };
        Ok(Client { sender: Arc::new(Mutex::new(sender)), http2: negotiated, headers: HeaderMap::new() })
    }
}

enum Sender {
    One(hyper::client::conn::http1::SendRequest<Full<Bytes>>),
    Two(hyper::client::conn::http2::SendRequest<Full<Bytes>>),
}

/// One connection, with headers that go along with every request.
#[derive(Clone)]
pub(crate) struct Client {
    sender: Arc<Mutex<Sender>>,
    http2: bool,
    headers: HeaderMap,
}

/// What came back.
pub(crate) struct Answer {
    pub(crate) code: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.body
    }

    pub(crate) fn json(&self) -> Value {
        json_of(&self.body)
    }
}

/// Parses, or shows what could not be parsed.
pub(crate) fn json_of(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(bytes)))
}

/// The whole body.
pub(crate) async fn read(response: Response<Incoming>) -> Vec<u8> {
    response.into_body().collect().await.map(|body| body.to_bytes().to_vec()).unwrap_or_default()
}

impl Client {
    pub(crate) fn is_http2(&self) -> bool {
        self.http2
    }

    pub(crate) fn with_header(&self, name: &'static str, value: &str) -> Self {
        let mut client = self.clone();
        client.headers.append(name, value.parse().unwrap());
        client
    }

    pub(crate) fn with_token(&self, token: &str) -> Self {
        self.with_header("authorization", &format!("Bearer {token}"))
    }

    /// Sends bodies as this media type.
    pub(crate) fn with_content(&self, media: &str) -> Self {
        self.with_header("content-type", media)
    }

    /// Asks until the answer is as it should be; the answer.
    pub(crate) async fn until(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        for _ in 0..600 {
            last = self.get(path).await.json();
            if wanted(&last) {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{path} stays as it is: {last}")
    }

    /// Asks until the text is as it should be; the text.
    pub(crate) async fn until_text(&self, path: &str, wanted: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        for _ in 0..600 {
            last = self.get(path).await.text();
            if wanted(&last) {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{path} stays as it is: {last}")
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, Some(body)).await
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Answer {
        self.try_send(method, path, body).await.unwrap()
    }

    /// As `send`; `None` when the connection broke.
    pub(crate) async fn try_send(&self, method: Method, path: &str, body: Option<&Value>) -> Option<Answer> {
        let response = self.raw(method, path, body).await?;
        let (code, headers) = (response.status(), response.headers().clone());
        Some(Answer { code, headers, body: read(response).await })
    }

    /// A GET whose body is left to the caller.
    pub(crate) async fn open(&self, path: &str) -> Response<Incoming> {
        self.raw(Method::GET, path, None).await.unwrap()
    }

    async fn raw(&self, method: Method, path: &str, body: Option<&Value>) -> Option<Response<Incoming>> {
        let uri = if self.http2 { format!("https://kubernetes.default.svc{path}") } else { path.to_owned() };
        let mut request = Request::builder().method(method).uri(uri).header("host", "kubernetes.default.svc");
        request.headers_mut().unwrap().extend(self.headers.clone());
        let body = body.map(|value| value.to_string()).unwrap_or_default();
        let headers = request.headers_mut().unwrap();
        headers.entry("content-type").or_insert_with(|| "application/json".parse().unwrap());
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        let mut sender = self.sender.lock().await;
        match &mut *sender {
            Sender::One(sender) => {
                sender.ready().await.ok()?;
                sender.send_request(request).await.ok()
            }
            Sender::Two(sender) => {
                sender.ready().await.ok()?;
                sender.send_request(request).await.ok()
            }
        }
    }
}
