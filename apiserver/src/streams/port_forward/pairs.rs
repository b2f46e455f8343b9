//! Port-forward over SPDY: for each connection the client opens a stream for errors and one for data.

use std::collections::BTreeMap;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

use super::super::spdy::{self, Output as Half, Stream};
use super::{Output, Target, forward};

/// Streams that wait for their other half.
const MAX_WAITING: usize = 64;

/// Serves a connection until the client is gone.
pub(super) async fn serve<R, W>(read: R, write: W, target: Target)
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (mut streams, serving) = spdy::serve(read, write, spdy::STALLED);
    let mut waiting: BTreeMap<String, Stream> = BTreeMap::new();
    let mut connections = JoinSet::new();
    let pairing = async {
        loop {
            let stream = tokio::select! {
                stream = streams.recv() => stream,
                Some(_) = connections.join_next() => continue,
            };
            let Some(stream) = stream else { return };
            let id = stream.headers.get("requestid").to_owned();
            let kind = stream.headers.get("streamtype").to_owned();
            match waiting.remove(&id) {
                Some(other) if other.headers.get("streamtype") != kind => {
                    let (error, data) = if kind == "error" { (stream, other) } else { (other, stream) };
                    connections.spawn(connection(target.clone(), error, data));
                }
                // Whoever leaves streams alone loses the oldest of them.
                _ => {
                    if waiting.len() >= MAX_WAITING {
                        waiting.pop_first();
                    }
                    waiting.insert(id, stream);
                }
            }
        }
    };
    tokio::select! {
        () = serving => {}
        () = pairing => {}
    }
}

async fn connection(target: Target, error: Stream, data: Stream) {
    let mut pair = Pair { error: error.output, data: data.output };
    match data.headers.get("port").parse() {
        Ok(port) => {
            // Given up by the client: whatever waits for it waits in vain.
            let gone = pair.data.given_up();
            tokio::select! {
                () = forward(&target, port, data.input, &mut pair) => {}
                () = gone.cancelled() => {}
            }
        }
        Err(_) => pair.fail(&format!("{:?} is not a port", data.headers.get("port"))).await,
    }
}

struct Pair {
    error: Half,
    data: Half,
}

impl Output for Pair {
    async fn send(&mut self, data: Bytes) -> std::io::Result<()> {
        self.data.send(&data).await
    }

    async fn finish(&mut self) {
        self.data.finish().await;
        self.error.finish().await;
    }

    async fn fail(&mut self, why: &str) {
        // A client that is gone needs no explanation.
        let _ = self.error.send(why.as_bytes()).await;
        self.finish().await;
    }
}
