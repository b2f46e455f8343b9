//! `/portForward/NAMESPACE/POD?port=N`: a connection to a pod, its bytes in the two bodies of one request.

use bytes::Bytes;
use futures::StreamExt;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tokio_util::io::ReaderStream;
use tokio_util::task::AbortOnDropHandle;

use super::containers::{ByteStream, Connection};

/// How much is read from a pod at a time.
const PIECE: usize = 32 * 1024;

/// The answer's body; dropping it closes the connection.
pub(super) fn body(connection: Box<dyn Connection>, mut request: Incoming) -> ByteStream {
    let (read, mut write) = tokio::io::split(connection);
    let (sender, mut pieces) = mpsc::channel::<std::io::Result<Bytes>>(1);
    let inward = async move {
        loop {
            match request.frame().await {
                // The client is gone altogether.
                Some(Err(_)) => return,
                Some(Ok(frame)) => {
                    let Some(data) = frame.data_ref() else { continue };
                    if write.write_all(data).await.is_err() {
                        break;
                    }
                }
                None => break,
            }
        }
        // The pod may go on although it gets nothing more, or takes nothing more.
        let _ = write.shutdown().await;
        std::future::pending().await
    };
    let outward = async move {
        let mut read = ReaderStream::with_capacity(read, PIECE);
        while let Some(data) = read.next().await {
            if sender.send(data).await.is_err() {
                return;
            }
        }
    };
    // A task of its own: what the client sends goes on while it takes nothing.
    let both = AbortOnDropHandle::new(tokio::spawn(async {
        tokio::select! {
            () = inward => {}
            () = outward => {}
        }
    }));
    let bytes = futures::stream::poll_fn(move |cx| {
        let _both = &both;
        pieces.poll_recv(cx)
    });
    bytes.boxed()
}
