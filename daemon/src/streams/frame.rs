//! Several channels in one stream of bytes: a channel's number, a length and so many bytes, again and again.
//!
//! The channels are those of Kubernetes' `v5.channel.k8s.io`. No length is longer than [`MAX_FRAME`], so a reader never
//! has to hold more than that.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// What goes into a command.
pub const STDIN: u8 = 0;
/// What it writes.
pub const STDOUT: u8 = 1;
/// What it complains.
pub const STDERR: u8 = 2;
/// How it ended: a `Status` as JSON.
pub const ERROR: u8 = 3;
/// The size of its terminal: `{"Width": …, "Height": …}`.
pub const RESIZE: u8 = 4;
/// The end of the channel whose number is the one byte of data.
pub const CLOSE: u8 = 255;

/// The most data in one frame.
pub const MAX_FRAME: usize = 64 * 1024;

const HEAD: usize = 5;

/// Data of one channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The channel.
    pub channel: u8,
    /// Its data, up to [`MAX_FRAME`] bytes.
    pub data: Bytes,
}

impl Frame {
    /// The end of a channel.
    pub fn close(channel: u8) -> Self {
        Self { channel: CLOSE, data: Bytes::copy_from_slice(&[channel]) }
    }

    /// Data of any length, in as many frames as it takes.
    pub fn split(channel: u8, mut data: Bytes) -> impl Iterator<Item = Self> {
        std::iter::from_fn(move || {
            let part = data.split_to(data.len().min(MAX_FRAME));
            (!part.is_empty()).then_some(Self { channel, data: part })
        })
    }

    /// As it is sent.
    ///
    /// # Panics
    /// Never: data is shorter than `u32::MAX`; what is longer is cut.
    pub fn encode(&self) -> Bytes {
        let data = &self.data[..self.data.len().min(MAX_FRAME)];
        let mut out = BytesMut::with_capacity(HEAD + data.len());
        out.put_u8(self.channel);
        out.put_u32(u32::try_from(data.len()).unwrap_or_default());
        out.put_slice(data);
        out.freeze()
    }
}

/// A frame longer than any may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {0} bytes: at most {MAX_FRAME} are allowed")]
pub struct TooLong(pub u32);

/// Frames from bytes that arrive in pieces of any size.
#[derive(Debug, Default)]
pub struct Frames(BytesMut);

impl Frames {
    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next whole frame, if there is one.
    ///
    /// # Errors
    /// When the other side breaks the rules.
    pub fn take(&mut self) -> Result<Option<Frame>, TooLong> {
        let Some((mut head, _)) = self.0.split_at_checked(HEAD) else { return Ok(None) };
        let (channel, length) = (head.get_u8(), head.get_u32());
        let data = usize::try_from(length).ok().filter(|length| *length <= MAX_FRAME);
        let data = data.ok_or(TooLong(length))?;
        if self.0.len() < HEAD + data {
            return Ok(None);
        }
        self.0.advance(HEAD);
        Ok(Some(Frame { channel, data: self.0.split_to(data).freeze() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_any_cutting() {
        let long = Bytes::from(vec![7; MAX_FRAME + 1]);
        let mut sent: Vec<Frame> = Frame::split(STDOUT, long).collect();
        assert_eq!(sent.iter().map(|frame| frame.data.len()).collect::<Vec<_>>(), [MAX_FRAME, 1]);
        sent.push(Frame::close(STDIN));
        let bytes: Vec<u8> = sent.iter().flat_map(|frame| frame.encode().to_vec()).collect();
        for size in [1, 4, 1000, bytes.len()] {
            let mut frames = Frames::default();
            let mut got = Vec::new();
            for piece in bytes.chunks(size) {
                frames.push(piece);
                while let Some(frame) = frames.take().unwrap() {
                    got.push(frame);
                }
            }
            assert_eq!(got, sent);
        }
    }

    #[test]
    fn a_frame_that_promises_too_much_is_refused_at_once() {
        let mut frames = Frames::default();
        frames.push(&[STDIN, 0, 1, 0, 1]);
        assert_eq!(frames.take(), Err(TooLong(65_537)));
    }
}
