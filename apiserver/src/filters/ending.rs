//! A watch's body that ends in order when the server drains, each at a time of its own, and is counted while it is open.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio_util::sync::CancellationToken;

use crate::audit::AtEnd;
use crate::metrics::Counted;
use crate::response::{Body, BoxError};

/// Over how long the ends are spread: all clients at once would fall upon the next server together.
const SPREAD: Duration = Duration::from_secs(1);

/// `body` until it ends, or until a moment after `end` is cancelled.
pub(super) fn until(body: Body, end: CancellationToken, counted: Counted, at_end: Option<AtEnd>) -> Body {
    let end = async move {
        end.cancelled().await;
        let share = f64::from(uuid::Uuid::new_v4().as_fields().0) / f64::from(u32::MAX);
        tokio::time::sleep(SPREAD.mul_f64(share)).await;
    };
    Ending { body, end: Box::pin(end), _counted: counted, _at_end: at_end }.boxed_unsync()
}

struct Ending {
    body: Body,
    end: Pin<Box<dyn Future<Output = ()> + Send>>,
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
