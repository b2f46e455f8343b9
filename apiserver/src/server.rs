//! Connections: listeners, TLS, HTTP/1.1 and HTTP/2, and how they end; never what a request means.

mod connection;
mod listeners;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use listeners::{bind, inherited};
pub(crate) use tls::certified_key;
pub use tls::{ServingCertificate, server_config};

use crate::authentication::PeerCertificate;
use crate::response::Response;

/// Connections open at a time; more wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 16_384;
/// Answers requests.
pub trait Handler: Send + Sync + 'static {
    /// Answers one request of a connection.
    fn handle(
        self: Arc<Self>,
        peer: Option<Arc<PeerCertificate>>,
        request: http::Request<Incoming>,
    ) -> impl Future<Output = Response> + Send;
}

/// The two steps of stopping.
#[derive(Debug, Clone, Default)]
pub struct Drain {
    /// No new connections; the open ones end with the requests they are answering.
    pub begin: CancellationToken,
    /// Whatever is left ends now.
    pub end: CancellationToken,
}

/// Serves a listener until `drain` begins; the connections' tasks are in `tasks`.
pub async fn serve<H: Handler>(
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    handler: Arc<H>,
    drain: Drain,
    tasks: TaskTracker,
) {
    let acceptor = TlsAcceptor::from(tls);
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let permit = tokio::select! {
            () = drain.begin.cancelled() => return,
            permit = room.clone().acquire_owned() => permit,
        };
        let Ok(permit) = permit else { return };
        let accepted = tokio::select! {
            () = drain.begin.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, from)) => {
                let (acceptor, handler, drain) = (acceptor.clone(), handler.clone(), drain.clone());
                tasks.spawn(async move {
                    let _permit = permit;
                    let end = drain.end.clone();
                    tokio::select! {
                        () = end.cancelled() => {}
                        () = connection::connection(stream, from, acceptor, handler, drain) => {}
                    }
                });
            }
            Err(error) => {
                // Out of descriptors, mostly: wait for some to be closed.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}
