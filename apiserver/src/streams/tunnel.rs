//! The body of a request that is written while its answer is read.

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::response::{self, Body};

/// A sender, and the body that carries what is sent. It ends with its sender, and takes nothing ahead of the connection
/// but one piece.
pub(super) fn outgoing() -> (mpsc::Sender<Bytes>, Body) {
    let (sender, mut pieces) = mpsc::channel(1);
    let frames = futures::stream::poll_fn(move |cx| pieces.poll_recv(cx).map(|piece| piece.map(Ok)));
    (sender, response::streamed(frames))
}
