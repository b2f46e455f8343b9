//! What a handler leaves of a request's body is read before the answer goes out, within limits.
//!
//! An answer on HTTP/2 to a body that is still on its way ends the stream with a reset; curl then loses the answer with it.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::sync::oneshot;

use crate::endpoints::MAX_BODY;

/// What is read of a body that nobody wanted; a longer one is reset.
const MOST: usize = 256 << 10;
/// How long the answer waits for it.
const LONGEST: Duration = Duration::from_secs(1);

/// A request's body, which gives back what is left of it when it is dropped.
pub(crate) struct RequestBody {
    body: Option<Incoming>,
    copy: Option<Arc<Mutex<Vec<u8>>>>,
    back: Option<oneshot::Sender<Incoming>>,
}

/// What is left of a body, once its handler is done.
pub(super) struct Unread(oneshot::Receiver<Incoming>);

/// Watches over a body.
pub(super) fn watched(body: Incoming) -> (RequestBody, Unread) {
    let (back, unread) = oneshot::channel();
    (RequestBody { body: Some(body), copy: None, back: Some(back) }, Unread(unread))
}

impl RequestBody {
    /// Whatever is read from now on is copied there as well.
    pub(super) fn copy_to(&mut self, copy: Arc<Mutex<Vec<u8>>>) {
        self.copy = Some(copy);
    }
}

impl Unread {
    /// Reads it, if the handler has dropped it.
    pub(super) async fn read(mut self) {
        let Ok(mut body) = self.0.try_recv() else { return };
        let reading = async {
            let mut read = 0;
            while read < MOST
                && let Some(Ok(frame)) = body.frame().await
            {
                read += frame.data_ref().map_or(0, Bytes::len);
            }
        };
        // When time is up the stream is reset, as it is for a body that is too long.
        let _ = tokio::time::timeout(LONGEST, reading).await;
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = self.body.as_mut().map_or(Poll::Ready(None), |body| Pin::new(body).poll_frame(cx));
        if let Some(copy) = &self.copy
            && let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            let mut copy = copy.lock().unwrap_or_else(PoisonError::into_inner);
            if copy.len() + data.len() <= MAX_BODY {
                copy.extend_from_slice(data);
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let (Some(body), Some(back)) = (self.body.take(), self.back.take())
            && !body.is_end_stream()
        {
            // The request itself is gone when nobody waits for its body.
            let _ = back.send(body);
        }
    }
}
