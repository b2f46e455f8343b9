//! Netlink messages and attributes as bytes, and a blocking socket for them.

use std::io;
use std::ops::Range;

use netlink_sys::{Socket, SocketAddr};
use nix::sys::socket::{setsockopt, sockopt};

use crate::{KernelError, Netns};

/// Of an attribute's type: it holds attributes.
const NESTED: u16 = 0x8000;
const TYPE_MASK: u16 = 0x3fff;
/// `struct nlmsghdr` and `struct nfgenmsg`.
pub(crate) const HEADER: usize = 16;
pub(crate) const NETFILTER_HEADER: usize = HEADER + 4;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
pub(crate) const NLM_F_REQUEST: u16 = 0x1;
pub(crate) const NLM_F_ACK: u16 = 0x4;
const NLM_F_DUMP_INTR: u16 = 0x10;
pub(crate) const NLM_F_DUMP: u16 = 0x300;
pub(crate) const NLM_F_EXCL: u16 = 0x200;
pub(crate) const NLM_F_CREATE: u16 = 0x400;
pub(crate) const NLM_F_APPEND: u16 = 0x800;
/// Of an error: attributes with text and offset follow.
const NLM_F_ACK_TLVS: u16 = 0x200;

/// Netlink's bytes in the order of messages; lengths are filled in when a message or nest is closed.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    pub(crate) bytes: Vec<u8>,
}

impl Writer {
    /// One netfilter message: `kind` is subsystem and type, `resource` the `res_id`.
    pub(crate) fn message(
        &mut self,
        kind: u16,
        flags: u16,
        sequence: u32,
        header: (u8, u16),
        body: impl FnOnce(&mut Self),
    ) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(&flags.to_ne_bytes());
        self.bytes.extend_from_slice(&sequence.to_ne_bytes());
        self.bytes.extend_from_slice(&[0; 4]);
        let (family, resource) = header;
        self.bytes.extend_from_slice(&[family, 0]);
        self.bytes.extend_from_slice(&resource.to_be_bytes());
        body(self);
        let length = u32::try_from(self.bytes.len() - start).unwrap_or(u32::MAX);
        self.bytes[start..start + 4].copy_from_slice(&length.to_ne_bytes());
    }

    /// An attribute with a value.
    pub(crate) fn put(&mut self, kind: u16, value: &[u8]) {
        self.attribute(kind, |writer| writer.bytes.extend_from_slice(value));
    }

    /// A string, with the zero the kernel wants.
    pub(crate) fn string(&mut self, kind: u16, value: &str) {
        self.attribute(kind, |writer| {
            writer.bytes.extend_from_slice(value.as_bytes());
            writer.bytes.push(0);
        });
    }

    /// A number in network order, as nf_tables has them.
    pub(crate) fn be32(&mut self, kind: u16, value: u32) {
        self.put(kind, &value.to_be_bytes());
    }

    /// An attribute that holds attributes.
    pub(crate) fn nest(&mut self, kind: u16, body: impl FnOnce(&mut Self)) {
        self.attribute(kind | NESTED, body);
    }

    /// Attributes are shorter than 64 KiB: the length has 16 bits, and what is longer is split by the caller.
    fn attribute(&mut self, kind: u16, body: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 2]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        body(self);
        let length = u16::try_from(self.bytes.len() - start).unwrap_or(u16::MAX);
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        while !self.bytes.len().is_multiple_of(4) {
            self.bytes.push(0);
        }
    }
}

/// The attributes in some bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attributes<'a>(pub(crate) &'a [u8]);

impl<'a> Attributes<'a> {
    /// The value of the first attribute of that type.
    pub(crate) fn get(self, kind: u16) -> Option<&'a [u8]> {
        self.into_iter().find(|(found, _)| *found == kind).map(|(_, value)| value)
    }

    /// The attributes inside one.
    pub(crate) fn nest(self, kind: u16) -> Option<Attributes<'a>> {
        self.get(kind).map(Attributes)
    }

    pub(crate) fn be32(self, kind: u16) -> Option<u32> {
        self.get(kind)?.try_into().ok().map(u32::from_be_bytes)
    }

    pub(crate) fn string(self, kind: u16) -> Option<&'a str> {
        let bytes = self.get(kind)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        std::str::from_utf8(&bytes[..end]).ok()
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from(u16::from_ne_bytes(self.0.get(0..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(self.0.get(2..4)?.try_into().ok()?) & TYPE_MASK;
        let value = self.0.get(4..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    }
}

/// One received message.
pub(crate) struct Received<'a> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    /// All of it, header included.
    pub(crate) bytes: &'a [u8],
}

impl<'a> Received<'a> {
    /// The attributes behind a netfilter header.
    pub(crate) fn attributes(&self) -> Attributes<'a> {
        Attributes(self.bytes.get(NETFILTER_HEADER..).unwrap_or_default())
    }
}

/// The messages in a datagram.
pub(crate) fn messages(datagram: &[u8]) -> impl Iterator<Item = Received<'_>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let word = |range: Range<usize>| rest.get(range).and_then(|bytes| bytes.try_into().ok());
        let length = usize::try_from(u32::from_ne_bytes(word(0..4)?)).ok()?;
        let half = |range: Range<usize>| rest.get(range).and_then(|bytes| bytes.try_into().ok());
        let received = Received {
            kind: u16::from_ne_bytes(half(4..6)?),
            flags: u16::from_ne_bytes(half(6..8)?),
            sequence: u32::from_ne_bytes(word(8..12)?),
            bytes: rest.get(..length).filter(|bytes| bytes.len() >= HEADER)?,
        };
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(received)
    })
}

/// An error or acknowledgement.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) sequence: u32,
    /// Zero: done as asked.
    pub(crate) errno: i32,
    /// The kernel's words, when it has some.
    pub(crate) text: Option<String>,
    /// Where in the refused message the fault is.
    pub(crate) offset: Option<usize>,
}

impl Answer {
    pub(crate) fn of(message: &Received<'_>) -> Option<Self> {
        if message.kind != NLMSG_ERROR {
            return None;
        }
        let errno = -i32::from_ne_bytes(message.bytes.get(16..20)?.try_into().ok()?);
        let told = message.flags & NLM_F_ACK_TLVS != 0;
        // With NETLINK_CAP_ACK the refused message is echoed as its header alone.
        let extended = told.then(|| Attributes(message.bytes.get(36..).unwrap_or_default()));
        let offset = extended.and_then(|attributes| attributes.get(2)?.try_into().ok());
        Some(Self {
            sequence: message.sequence,
            errno,
            text: extended.and_then(|attributes| attributes.string(1)).map(str::to_owned),
            offset: offset.and_then(|bytes| usize::try_from(u32::from_ne_bytes(bytes)).ok()),
        })
    }

    /// The error in the kernel's own words where it has them.
    pub(crate) fn error(&self) -> io::Error {
        let error = io::Error::from_raw_os_error(self.errno);
        match &self.text {
            Some(text) => io::Error::new(error.kind(), format!("{error}: {text}")),
            None => error,
        }
    }
}

/// A blocking netfilter netlink socket, bound to the namespace it was opened in.
pub(crate) struct NetfilterSocket {
    socket: Socket,
    buffer: Vec<u8>,
}

impl NetfilterSocket {
    pub(crate) fn open(namespace: &Netns) -> Result<Self, KernelError> {
        namespace.run(Self::open_here)?.map_err(KernelError::Socket)
    }

    fn open_here() -> io::Result<Self> {
        let mut socket = Socket::new(netlink_sys::protocols::NETLINK_NETFILTER)?;
        socket.bind_auto()?;
        socket.set_ext_ack(true)?;
        socket.set_cap_ack(true)?;
        setsockopt(&socket, sockopt::RcvBufForce, &(4 << 20))?;
        Ok(Self { socket, buffer: Vec::with_capacity(1 << 17) })
    }

    /// Sends; a transaction of any size goes as one datagram.
    pub(crate) fn send(&self, bytes: &[u8]) -> Result<(), KernelError> {
        if bytes.len() > 64 << 10 {
            let size = bytes.len().saturating_mul(2);
            setsockopt(&self.socket, sockopt::SndBufForce, &size)
                .map_err(|errno| KernelError::Socket(errno.into()))?;
        }
        let kernel = SocketAddr::new(0, 0);
        self.socket.send_to(bytes, &kernel, 0).map(drop).map_err(KernelError::Socket)
    }

    /// The next datagram; `None` when nothing is there and `wait` is off.
    pub(crate) fn receive(&mut self, wait: bool) -> Result<Option<&[u8]>, KernelError> {
        self.buffer.clear();
        let flags = if wait { 0 } else { libc::MSG_DONTWAIT };
        match self.socket.recv(&mut self.buffer, flags) {
            Ok(_) => Ok(Some(&self.buffer)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(KernelError::Socket(error)),
        }
    }

    /// Asks for a list and hands every message of it to `each`. `Ok(false)`: the list changed meanwhile and is not to
    /// be used.
    pub(crate) fn dump(
        &mut self,
        request: &Writer,
        subject: &'static str,
        mut each: impl FnMut(&Received<'_>),
    ) -> Result<bool, KernelError> {
        self.send(&request.bytes)?;
        let mut whole = true;
        loop {
            let Some(datagram) = self.receive(true)? else { continue };
            for message in messages(datagram) {
                whole &= message.flags & NLM_F_DUMP_INTR == 0;
                if message.kind == NLMSG_DONE {
                    return Ok(whole);
                }
                if let Some(answer) = Answer::of(&message) {
                    let what = format!("list {subject}");
                    return Err(KernelError::Refused { what, source: answer.error() });
                }
                each(&message);
            }
        }
    }

    /// Asks for one thing. `None`: there is no such thing.
    pub(crate) fn get<T>(
        &mut self,
        request: &Writer,
        subject: &'static str,
        read: impl FnOnce(&Received<'_>) -> Option<T>,
    ) -> Result<Option<T>, KernelError> {
        self.send(&request.bytes)?;
        let datagram = self.receive(true)?.unwrap_or_default();
        let message = messages(datagram).next().ok_or(KernelError::Malformed(subject))?;
        match Answer::of(&message) {
            Some(answer) if answer.errno == libc::ENOENT => Ok(None),
            Some(answer) => {
                Err(KernelError::Refused { what: format!("read {subject}"), source: answer.error() })
            }
            None => read(&message).map(Some).ok_or(KernelError::Malformed(subject)),
        }
    }
}
