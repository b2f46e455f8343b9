//! A watch's body that ends in order when the server drains, and is counted while it is open.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::audit::AtEnd;
use crate::metrics::Counted;
use crate::response::{Body, BoxError};

/// `body` until it ends or `end` is cancelled.
pub(super) fn until(body: Body, end: CancellationToken, counted: Counted, at_end: Option<AtEnd>) -> Body {
    Ending { body, end: Box::pin(end.cancelled_owned()), _counted: counted, _at_end: at_end }.boxed_unsync()
}

struct Ending {
    body: Body,
    end: Pin<Box<WaitForCancellationFutureOwned>>,
    _counted: Counted,
    _at_end: Option<AtEnd>,
}

impl HttpBody for Ending {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.end.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
