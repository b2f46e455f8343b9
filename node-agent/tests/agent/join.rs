//! Joining with a token over TLS: the CA is the token's or nobody's, and the certificate is the node's own.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use litek8s_daemon::join_token::JoinToken;
use litek8s_daemon::pki::{Authority, Leaf, Usage, inspect_der};
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::api::{Api, Body, eventually};
use crate::node::{Place, api, is_ready};

/// A server that signs node certificates and lets nobody else in.
#[derive(Clone)]
struct Server {
    api: Api,
    authority: Arc<Authority>,
    token: JoinToken,
    signed: Arc<AtomicUsize>,
    life: Duration,
}

impl Server {
    fn new(place: &Place, api: Api, life: Duration) -> Self {
        let authority = Authority::open(&place.file("pki"), "ca", SystemTime::now()).unwrap();
        let token = JoinToken::generate(&authority.fingerprint(), "node").unwrap();
        Self { api, authority: Arc::new(authority), token, signed: Arc::default(), life }
    }

    async fn serve(&self) -> SocketAddr {
        let leaf = Leaf {
            common_name: "server".into(),
            organizations: Vec::new(),
            hostnames: Vec::new(),
            addresses: vec![Ipv4Addr::LOCALHOST.into()],
            usage: Usage::Server,
            life: Duration::from_secs(3600),
        };
        let identity = self.authority.issue(&leaf, SystemTime::now()).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from(self.authority.der().to_vec())).unwrap();
        let verifier =
            WebPkiClientVerifier::builder(Arc::new(roots)).allow_unauthenticated().build().unwrap();
        let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
        let config = rustls::ServerConfig::builder()
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (server, acceptor) = (server.clone(), acceptor.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let peer = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
                    let peer = peer.map(|certificate| inspect_der(certificate).unwrap().common_name);
                    let service = service_fn(move |request| {
                        let (server, peer) = (server.clone(), peer.clone());
                        async move { Ok::<_, Infallible>(server.answer(request, peer.as_deref()).await) }
                    });
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        address
    }

    async fn answer(&self, request: Request<Incoming>, peer: Option<&str>) -> Response<Body> {
        let reply = |text: String| Response::new(BodyExt::boxed(Full::new(Bytes::from(text))));
        match request.uri().path() {
            "/v1-litek8s/ca" => reply(self.authority.pem().to_owned()),
            "/v1-litek8s/node-certificate" => {
                assert_eq!(request.headers()["authorization"], format!("Bearer {}", self.token.reveal()));
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let body: Value = serde_json::from_slice(&body).unwrap();
                assert_eq!(body["nodeName"], "n1");
                let leaf = Leaf {
                    common_name: "system:node:n1".into(),
                    organizations: vec!["system:nodes".into()],
                    hostnames: Vec::new(),
                    addresses: Vec::new(),
                    usage: Usage::Client,
                    life: self.life,
                };
                let csr = body["csr"].as_str().unwrap();
                let certificate = self.authority.sign_request(csr, &leaf, SystemTime::now()).unwrap();
                self.signed.fetch_add(1, Ordering::Relaxed);
                reply(json!({"certificate": certificate, "ca": self.authority.pem()}).to_string())
            }
            _ => {
                assert_eq!(peer, Some("system:node:n1"), "{}", request.uri());
                self.api.answer(request).await
            }
        }
    }
}

#[test]
fn a_token_buys_a_certificate_once_and_the_node_is_served() {
    Place::run(|place| async move {
        let api = api();
        let server = Server::new(&place, api.clone(), Duration::from_secs(365 * 24 * 3600));
        let address = server.serve().await;
        let token = server.token.reveal();
        let agent = place.joining_agent(address, &token);
        eventually("the VIP is ready", || is_ready(&api, "web-1")).await;
        agent.stop().await;
        for file in ["ca.crt", "node.crt", "node.key", "last-known.json"] {
            let mode = std::fs::metadata(place.file("state").join(file)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{file}");
        }
        // The certificate is kept: a restart asks for no other.
        let before = api.writes("leases");
        let agent = place.joining_agent(address, &token);
        eventually("the Lease is renewed", || api.writes("leases") > before).await;
        assert_eq!(server.signed.load(Ordering::Relaxed), 1);
        agent.stop().await;

        // A certificate of another cluster does not help: the token says which CA it must be.
        std::fs::remove_dir_all(place.file("pki")).unwrap();
        let other = Server::new(&place, api.clone(), Duration::from_secs(3600));
        let before = api.writes("leases");
        let agent = place.joining_agent(other.serve().await, &other.token.reveal());
        eventually("the other cluster's Lease is renewed", || api.writes("leases") > before).await;
        assert_eq!(other.signed.load(Ordering::Relaxed), 1);
        agent.stop().await;
    });
}

#[test]
fn a_server_with_another_ca_than_the_tokens_gets_nothing() {
    Place::run(|place| async move {
        let api = api();
        let server = Server::new(&place, api.clone(), Duration::from_secs(3600));
        let wrong = JoinToken::generate(&"ab".repeat(32), "node").unwrap();
        let agent = place.joining_agent(server.serve().await, &wrong.reveal());
        tokio::time::sleep(Duration::from_millis(1500)).await;
        assert_eq!(server.signed.load(Ordering::Relaxed), 0);
        assert!(!place.file("state").join("node.key").exists());
        assert_eq!(api.writes("leases"), 0);
        agent.stop().await;
    });
}
