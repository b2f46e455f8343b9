//! The bodies of answers: bytes at hand, a list joined while it is sent, or a stream; never buffered twice.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, SizeHint};

/// What ends a body early.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of an answer.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// How much of a list goes into one frame, in bytes.
const FRAME: usize = 64 * 1024;

/// A body of bytes that are at hand.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never: Infallible| match never {}).boxed_unsync()
}

/// A body without bytes.
pub(crate) fn empty() -> Body {
    full(Bytes::new())
}

/// A body whose frames come from a stream.
pub fn streamed<S>(frames: S) -> Body
where
    S: futures::Stream<Item = Result<Bytes, BoxError>> + Send + 'static,
{
    use futures::StreamExt;
    StreamBody::new(frames.map(|frame| frame.map(Frame::data))).boxed_unsync()
}

/// A list: a head, items joined by commas, a tail; items are copied into frames only as the connection takes them.
pub(crate) struct ListBody {
    head: Option<Bytes>,
    items: std::vec::IntoIter<Bytes>,
    first: bool,
    tail: Option<Bytes>,
    left: u64,
}

impl ListBody {
    /// A body of `head`, the comma-joined `items` and `tail`.
    pub(crate) fn new(head: Bytes, items: Vec<Bytes>, tail: Bytes) -> Self {
        let commas = items.len().saturating_sub(1);
        let length: usize = items.iter().map(Bytes::len).sum::<usize>() + head.len() + tail.len() + commas;
        Self {
            head: Some(head),
            items: items.into_iter(),
            first: true,
            tail: Some(tail),
            left: length as u64,
        }
    }
}

impl hyper::body::Body for ListBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        let mut frame =
            BytesMut::with_capacity(FRAME.min(usize::try_from(this.left).unwrap_or(FRAME)) + 1024);
        if let Some(head) = this.head.take() {
            frame.extend_from_slice(&head);
        }
        while frame.len() < FRAME {
            let Some(item) = this.items.next() else {
                if let Some(tail) = this.tail.take() {
                    frame.extend_from_slice(&tail);
                }
                break;
            };
            if !std::mem::take(&mut this.first) {
                frame.extend_from_slice(b",");
            }
            frame.extend_from_slice(&item);
        }
        if frame.is_empty() {
            return Poll::Ready(None);
        }
        this.left = this.left.saturating_sub(frame.len() as u64);
        Poll::Ready(Some(Ok(Frame::data(frame.freeze()))))
    }

    fn is_end_stream(&self) -> bool {
        self.tail.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_list_is_joined_by_commas_and_knows_its_length() {
        let item = Bytes::from(vec![b'x'; 40_000]);
        let body = ListBody::new(
            Bytes::from_static(b"["),
            vec![item.clone(), item.clone(), item],
            Bytes::from_static(b"]"),
        );
        let promised = hyper::body::Body::size_hint(&body).exact();
        let sent = body.collect().await.map(|b| b.to_bytes()).unwrap_or_default();
        assert_eq!(promised, Some(sent.len() as u64));
        assert_eq!(sent.len(), 120_004);
        assert_eq!(sent.iter().filter(|&&b| b == b',').count(), 2);
        assert_eq!((sent.first(), sent.last()), (Some(&b'['), Some(&b']')));
    }

    #[tokio::test]
    async fn an_empty_list_is_head_and_tail() {
        let body = ListBody::new(Bytes::from_static(b"["), Vec::new(), Bytes::from_static(b"]"));
        let sent = body.collect().await.map(|b| b.to_bytes()).unwrap_or_default();
        assert_eq!(&sent[..], b"[]");
    }
}
