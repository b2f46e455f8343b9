//! Frames of SPDY/3.1 (§2.2): their heads, and reading them one after the other within bounds.

use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::headers::{Headers, Inflater};

/// The sender sends nothing more on the stream.
pub(super) const FIN: u8 = 1;
/// Why a stream is reset: no more streams are taken.
pub(super) const REFUSED: u32 = 3;
/// Why a stream is reset: it is not wanted any more.
pub(super) const CANCEL: u32 = 5;

const VERSION: u16 = 3;
const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
/// The longest control frame.
const MAX_CONTROL: usize = 64 * 1024;
/// How much of a data frame is handed on at a time.
const PIECE: usize = 32 * 1024;

/// What a client sent, as far as it matters here.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Incoming {
    /// It opens a stream.
    Open { id: u32, headers: Headers, last: bool },
    /// Data of a stream, and whether it was the last.
    Data { id: u32, bytes: Bytes, last: bool },
    /// It gives a stream up.
    Reset { id: u32 },
    /// It wants this number back.
    Ping { id: u32 },
}

/// Reads the frames of a connection.
pub(super) struct Reader<R> {
    io: R,
    inflater: Inflater,
    /// The data frame that is being read: its stream, what is left of it, whether it is the last.
    data: Option<(u32, usize, bool)>,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(super) fn new(io: R) -> Self {
        Self { io, inflater: Inflater::new(), data: None }
    }

    /// The next thing that matters. Not to be dropped half-way.
    ///
    /// # Errors
    /// `UnexpectedEof` when the client is gone, `InvalidData` when it speaks something else.
    pub(super) async fn next(&mut self) -> io::Result<Incoming> {
        loop {
            if let Some((id, left, last)) = self.data.take() {
                let piece = left.min(PIECE);
                let bytes = self.exactly(piece).await?;
                let more = left - piece;
                self.data = (more > 0).then_some((id, more, last));
                return Ok(Incoming::Data { id, bytes, last: last && more == 0 });
            }
            let mut head = self.exactly(8).await?;
            let (first, second) = (head.get_u32(), head.get_u32());
            let (flags, length) =
                (second.to_be_bytes()[0], usize::try_from(second & 0x00ff_ffff).unwrap_or(0));
            if first >> 31 == 0 {
                self.data = Some((first, length, flags & FIN != 0));
                continue;
            }
            if (first >> 16) & 0x7fff != u32::from(VERSION) || length > MAX_CONTROL {
                return Err(invalid("a frame that is not SPDY/3.1"));
            }
            let body = self.exactly(length).await?;
            if let Some(incoming) = self.control(first & 0xffff, flags, body)? {
                return Ok(incoming);
            }
        }
    }

    fn control(&mut self, kind: u32, flags: u8, mut body: Bytes) -> io::Result<Option<Incoming>> {
        let short = |_| invalid("a control frame that is too short");
        let kind = u16::try_from(kind).unwrap_or_default();
        Ok(match kind {
            SYN_STREAM => {
                let id = body.try_get_u32().map_err(short)? & 0x7fff_ffff;
                // The associated stream, priority and slot.
                body.try_get_u32().and_then(|_| body.try_get_u16()).map_err(short)?;
                let headers = self.inflater.read(&body).map_err(invalid)?;
                Some(Incoming::Open { id, headers, last: flags & FIN != 0 })
            }
            RST_STREAM => Some(Incoming::Reset { id: body.try_get_u32().map_err(short)? & 0x7fff_ffff }),
            PING => Some(Incoming::Ping { id: body.try_get_u32().map_err(short)? }),
            // Clients of Kubernetes send no HEADERS, whose block the inflater would have to see; a GOAWAY is followed by
            // the end of the connection, and settings and windows are not used by any of them.
            _ => None,
        })
    }

    async fn exactly(&mut self, length: usize) -> io::Result<Bytes> {
        let mut bytes = BytesMut::zeroed(length);
        self.io.read_exact(&mut bytes).await?;
        Ok(bytes.freeze())
    }
}

fn invalid(why: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_string())
}

fn control(kind: u16, body: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(8 + body.len());
    out.put_u16(0x8000 | VERSION);
    out.put_u16(kind);
    out.put_u32(u32::try_from(body.len()).unwrap_or_default());
    out.put_slice(body);
    out.freeze()
}

/// Accepts a stream.
pub(super) fn reply(id: u32, block: &[u8]) -> Bytes {
    control(SYN_REPLY, &[&id.to_be_bytes()[..], block].concat())
}

/// Gives a stream up.
pub(super) fn reset(id: u32, why: u32) -> Bytes {
    control(RST_STREAM, &[id.to_be_bytes(), why.to_be_bytes()].concat())
}

/// Gives a ping back.
pub(super) fn ping(id: u32) -> Bytes {
    control(PING, &id.to_be_bytes())
}

/// Data of a stream; longer than a frame may be it is cut, which callers prevent.
pub(super) fn data(id: u32, bytes: &[u8], last: bool) -> Bytes {
    let bytes = &bytes[..bytes.len().min(0x00ff_ffff)];
    let mut out = BytesMut::with_capacity(8 + bytes.len());
    out.put_u32(id);
    out.put_u32((u32::from(last) << 24) | u32::try_from(bytes.len()).unwrap_or_default());
    out.put_slice(bytes);
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn long_data_comes_in_pieces_and_ends_once() {
        let long = vec![9; PIECE + 1];
        let sent =
            [data(5, &long, true), ping(7), control(4, &[0; 8]), reset(5, 1), data(3, b"", true)].concat();
        let mut reader = Reader::new(sent.as_slice());
        let mut next = async || reader.next().await.unwrap();
        assert_eq!(next().await, Incoming::Data { id: 5, bytes: long[..PIECE].to_vec().into(), last: false });
        assert_eq!(next().await, Incoming::Data { id: 5, bytes: vec![9].into(), last: true });
        assert_eq!(next().await, Incoming::Ping { id: 7 });
        assert_eq!(next().await, Incoming::Reset { id: 5 });
        assert_eq!(next().await, Incoming::Data { id: 3, bytes: Bytes::new(), last: true });
        assert_eq!(reader.next().await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    proptest::proptest! {
        #[test]
        fn frames_of_any_bytes_end_and_hold_no_more_than_was_sent(
            whole in proptest::collection::vec(
                (0_u16..10, 0_u32..4, proptest::collection::vec(proptest::prelude::any::<u8>(), 0..40)), 0..6),
            cut in 0_usize..200,
            wound in proptest::option::of((0_usize..200, proptest::prelude::any::<u8>())),
        ) {
            let frames = whole.iter().map(|(kind, id, body)| match kind {
                0 => data(*id, body, false),
                1 => data(*id, body, true),
                kind => control(*kind, body),
            });
            let mut sent: Vec<u8> = frames.flatten().collect();
            sent.truncate(sent.len().max(cut) - cut);
            if let Some((at, byte)) = wound && let Some(place) = sent.get_mut(at) {
                *place = byte;
            }
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let mut reader = Reader::new(sent.as_slice());
                let mut received = 0;
                while let Ok(incoming) = reader.next().await {
                    if let Incoming::Data { bytes, .. } = incoming {
                        received += bytes.len();
                    }
                }
                assert!(received <= sent.len());
            });
        }
    }

    #[tokio::test]
    async fn a_control_frame_is_as_long_as_the_limit_and_no_longer() {
        let sent = [control(9, &vec![0; MAX_CONTROL]), ping(7)].concat();
        let ends = Reader::new(sent.as_slice()).next().await;
        assert_eq!(ends.unwrap(), Incoming::Ping { id: 7 });
        let error = Reader::new(control(9, &vec![0; MAX_CONTROL + 1]).as_ref()).next().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[tokio::test]
    async fn other_protocols_and_broken_frames_are_refused() {
        let cut = control(SYN_STREAM, &[0; 3]);
        let other = [0x80, 2, 0, 1, 0, 0, 0, 0];
        let long = [0x80, 3, 0, 1, 0, 2, 0, 0];
        for bytes in [cut.as_ref(), &other, &long] {
            let error = Reader::new(bytes).next().await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
        }
    }
}
