//! Joining: a token buys a certificate for this node, which is kept and renewed.
//!
//! The CA is fetched without trust and believed only when its hash is the one in the token. The key never leaves the
//! node; key, certificate and CA are files of mode 0600.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, ensure};
use kube::config::AuthInfo;
use kube::{Client, Config};
use litek8s_daemon::files;
use litek8s_daemon::join_token::JoinToken;
use litek8s_daemon::pki;
use serde::Deserialize;

const CA_PATH: &str = "/v1-litek8s/ca";
const NODE_PATH: &str = "/v1-litek8s/node-certificate";

/// How long a server may take while joining; then it is tried again.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where a joined node's identity is.
#[derive(Debug, Clone)]
pub(crate) struct Credentials {
    server: http::Uri,
    token_file: PathBuf,
    node: String,
    directory: PathBuf,
}

#[derive(Deserialize)]
struct Signed {
    certificate: String,
    ca: String,
}

impl Credentials {
    pub(crate) fn new(server: &str, token_file: &Path, node: &str, state_dir: &Path) -> anyhow::Result<Self> {
        let server = server.parse().with_context(|| format!("{server} is no URL"))?;
        Ok(Self {
            server,
            token_file: token_file.to_owned(),
            node: node.to_owned(),
            directory: state_dir.to_owned(),
        })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The configuration of a client that is this node: with the certificate that is there, or a new one.
    pub(crate) async fn config(&self) -> anyhow::Result<Config> {
        if self.renewal_due() {
            self.obtain().await?;
        }
        self.stored()
    }

    /// Whether there is no certificate for this node and server, or it has lived two thirds of its life.
    pub(crate) fn renewal_due(&self) -> bool {
        let read = |name| files::read_if_exists(&self.file(name)).ok().flatten();
        let Some(info) = read("node.crt").and_then(|text| pki::inspect(&text).ok()) else { return true };
        let complete = read("node.key").is_some() && read("ca.crt").is_some();
        let mine = info.common_name == format!("system:node:{}", self.node);
        !complete || !mine || !self.ca_is_the_tokens() || pki::renewal_due(&info, SystemTime::now())
    }

    /// A state directory may be left over from another cluster. Without a readable token nobody can tell.
    fn ca_is_the_tokens(&self) -> bool {
        let Ok(token) = self.token() else { return true };
        let ca = files::read_if_exists(&self.file("ca.crt")).ok().flatten();
        ca.and_then(|pem| pki::der_of_pem(&pem).ok())
            .is_some_and(|der| pki::sha256_fingerprint(&der) == token.ca_hash())
    }

    fn token(&self) -> anyhow::Result<JoinToken> {
        let text = std::fs::read_to_string(&self.token_file)
            .with_context(|| format!("read {}", self.token_file.display()))?;
        text.parse().with_context(|| format!("{} holds no token", self.token_file.display()))
    }

    /// Gets a certificate with the token and writes it with its key.
    async fn obtain(&self) -> anyhow::Result<()> {
        let token = self.token()?;
        let ca = self.fetch_ca(&token).await?;
        let pki::KeyAndRequest { key, request } =
            pki::key_and_request(&format!("system:node:{}", self.node))?;
        let mut config = self.joining_config();
        config.root_cert = Some(vec![pki::der_of_pem(&ca)?]);
        let body = serde_json::to_vec(&serde_json::json!({"nodeName": self.node, "csr": request}))?;
        let request = http::Request::post(NODE_PATH)
            .header(http::header::AUTHORIZATION, format!("Bearer {}", token.reveal()))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body)?;
        let answer =
            Client::try_from(config)?.request_text(request).await.context("get a node certificate")?;
        let signed: Signed =
            serde_json::from_str(&answer).context("the server's answer is no certificate")?;
        pki::inspect(&signed.certificate)?;
        ensure!(
            pki::der_of_pem(&signed.ca)? == pki::der_of_pem(&ca)?,
            "the server signs with another CA than it shows"
        );
        files::private_directory(&self.directory)?;
        files::write_private(&self.file("ca.crt"), ca.as_bytes())?;
        files::write_private(&self.file("node.key"), key.as_bytes())?;
        files::write_private(&self.file("node.crt"), signed.certificate.as_bytes())?;
        tracing::info!(node = self.node, "joined");
        Ok(())
    }

    /// Believes whoever answers, as far as the hash in the token allows.
    async fn fetch_ca(&self, token: &JoinToken) -> anyhow::Result<String> {
        tracing::info!(server = %self.server, "reading the server's CA, to compare it with the token");
        let mut config = self.joining_config();
        config.accept_invalid_certs = true;
        let request = http::Request::get(CA_PATH).body(Vec::new())?;
        let ca = Client::try_from(config)?.request_text(request).await.context("get the server's CA")?;
        let fingerprint = pki::sha256_fingerprint(&pki::der_of_pem(&ca)?);
        ensure!(fingerprint == token.ca_hash(), "the server's CA is not the one in the token");
        Ok(ca)
    }

    fn joining_config(&self) -> Config {
        let mut config = Config::new(self.server.clone());
        config.connect_timeout = Some(PATIENCE);
        config.read_timeout = Some(PATIENCE);
        config
    }

    fn stored(&self) -> anyhow::Result<Config> {
        let ca = std::fs::read_to_string(self.file("ca.crt"))?;
        let path = |name| self.file(name).display().to_string();
        let mut config = Config::new(self.server.clone());
        config.root_cert = Some(vec![pki::der_of_pem(&ca)?]);
        config.auth_info = AuthInfo {
            client_certificate: Some(path("node.crt")),
            client_key: Some(path("node.key")),
            ..AuthInfo::default()
        };
        Ok(config)
    }
}
