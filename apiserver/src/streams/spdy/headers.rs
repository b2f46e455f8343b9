//! Header blocks of SPDY/3.1 (§2.6.10): names and values, compressed by zlib with a dictionary of the protocol's.
//!
//! What comes is inflated within a bound. What goes is deflate's "stored" form, which every inflater reads: our headers
//! are empty or a few bytes, and a compressor per connection would cost more memory than everything else of it.

use bytes::{Buf, BufMut, BytesMut};
use flate2::{Decompress, FlushDecompress, Status};

/// The most that the headers of one stream may inflate to, and the most there may be.
const MAX_BLOCK: usize = 16 * 1024;
const MAX_HEADERS: u32 = 64;
/// A zlib stream without dictionary, deflated "fastest" (RFC 1950 §2.2).
const ZLIB_HEAD: [u8; 2] = [0x78, 0x01];

/// The words of the dictionary that come with their lengths.
const WORDS: &str = "options head post put delete trace accept accept-charset accept-encoding accept-language \
    accept-ranges age allow authorization cache-control connection content-base content-encoding content-language \
    content-length content-location content-md5 content-range content-type date etag expect expires from host if-match \
    if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma \
    proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade \
    user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie \
    keep-alive origin";
/// What follows them as it is.
const TEXT: &str = "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505\
    203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden\
    404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable\
    Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT\
    chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,\
    publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

fn dictionary() -> Vec<u8> {
    let mut out = Vec::new();
    for word in WORDS.split_whitespace() {
        out.put_u32(u32::try_from(word.len()).unwrap_or_default());
        out.extend(word.bytes().map(|byte| if byte == b'_' { b' ' } else { byte }));
    }
    out.extend_from_slice(TEXT.as_bytes());
    out
}

/// The headers of a stream, names in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Headers(Vec<(String, String)>);

impl Headers {
    /// The value of a header; empty when it is missing.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value)
    }
}

/// A header block that is not one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("SPDY: a header block that cannot be read")]
pub(crate) struct BadHeaders;

/// Reads the blocks of one connection, in their order.
pub(super) struct Inflater(Decompress);

impl Inflater {
    pub(super) fn new() -> Self {
        Self(Decompress::new(true))
    }

    /// The headers in a block.
    pub(super) fn read(&mut self, block: &[u8]) -> Result<Headers, BadHeaders> {
        let plain = self.inflate(block)?;
        parse(&plain).ok_or(BadHeaders)
    }

    fn inflate(&mut self, block: &[u8]) -> Result<Vec<u8>, BadHeaders> {
        let mut plain = Vec::with_capacity(MAX_BLOCK);
        let begun = self.0.total_in();
        loop {
            let read = usize::try_from(self.0.total_in() - begun).map_err(|_| BadHeaders)?;
            let rest = block.get(read..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(plain);
            }
            match self.0.decompress_vec(rest, &mut plain, FlushDecompress::Sync) {
                Ok(Status::Ok) => {}
                // Full, or nothing more to be made of it.
                Ok(Status::BufError | Status::StreamEnd) => return Err(BadHeaders),
                Err(error) if error.needs_dictionary().is_some() => {
                    self.0.set_dictionary(&dictionary()).map_err(|_| BadHeaders)?;
                }
                Err(_) => return Err(BadHeaders),
            }
        }
    }
}

fn parse(mut plain: &[u8]) -> Option<Headers> {
    let count = plain.try_get_u32().ok().filter(|count| *count <= MAX_HEADERS)?;
    let mut text = || {
        let length = usize::try_from(plain.try_get_u32().ok()?).ok()?;
        let (text, rest) = plain.split_at_checked(length)?;
        plain = rest;
        String::from_utf8(text.to_vec()).ok()
    };
    let headers = (0..count).map(|_| Some((text()?.to_ascii_lowercase(), text()?)));
    headers.collect::<Option<Vec<_>>>().map(Headers)
}

/// A block without headers; the first of a connection begins its zlib stream.
pub(super) fn empty_block(first: bool) -> BytesMut {
    let count = 0_u32.to_be_bytes();
    let length = u16::try_from(count.len()).unwrap_or_default();
    let mut out = BytesMut::new();
    if first {
        out.put_slice(&ZLIB_HEAD);
    }
    // RFC 1951 §3.2.4: not the last block, stored; then an empty one, at which inflaters give out what they have.
    for (length, data) in [(length, &count[..]), (0, &[])] {
        out.put_u8(0);
        out.put_u16_le(length);
        out.put_u16_le(!length);
        out.put_slice(data);
    }
    out
}

#[cfg(test)]
pub(super) mod tests {
    use flate2::{Compress, Compression, FlushCompress};

    use super::*;

    /// Blocks as a client makes them.
    pub(in super::super) fn blocks(of: &[&[(&str, &str)]]) -> Vec<Vec<u8>> {
        let mut deflater = Compress::new(Compression::default(), true);
        deflater.set_dictionary(&dictionary()).unwrap();
        let mut deflate = |headers: &[(&str, &str)]| {
            let mut plain = Vec::new();
            plain.put_u32(u32::try_from(headers.len()).unwrap());
            for text in headers.iter().flat_map(|(name, value)| [name, value]) {
                plain.put_u32(u32::try_from(text.len()).unwrap());
                plain.put_slice(text.as_bytes());
            }
            let mut block = Vec::with_capacity(64 * 1024);
            deflater.compress_vec(&plain, &mut block, FlushCompress::Sync).unwrap();
            block
        };
        of.iter().map(|headers| deflate(headers)).collect()
    }

    #[test]
    fn the_dictionary_is_the_protocols() {
        let mut stream = Compress::new(Compression::default(), true);
        // The identifier that every SPDY/3 zlib stream begins with.
        assert_eq!(stream.set_dictionary(&dictionary()).unwrap(), 0xe3c6_a7c2);
    }

    #[test]
    fn blocks_of_one_connection_are_read_in_order() {
        let sent = [[("streamtype", "error")].as_slice(), &[("streamtype", "data"), ("port", "80")], &[]];
        let mut inflater = Inflater::new();
        for (block, headers) in blocks(&sent).iter().zip(sent) {
            let read = inflater.read(block).unwrap();
            for (name, value) in headers {
                assert_eq!(read.get(name), *value);
            }
            assert_eq!(read.0.len(), headers.len());
        }
    }

    #[test]
    fn our_own_blocks_are_read_by_an_inflater() {
        let mut inflater = Inflater::new();
        for first in [true, false, false] {
            assert_eq!(inflater.read(&empty_block(first)), Ok(Headers::default()));
        }
    }

    #[test]
    fn a_bomb_and_rubbish_are_refused() {
        let long = "a".repeat(MAX_BLOCK);
        let bomb = blocks(&[&[("x", &long)]]);
        assert!(bomb[0].len() < 1024);
        assert_eq!(Inflater::new().read(&bomb[0]), Err(BadHeaders));
        assert_eq!(Inflater::new().read(b"GET / HTTP/1.1"), Err(BadHeaders));
        assert_eq!(Inflater::new().read(&blocks(&[&[]])[0][..7]), Err(BadHeaders));
    }
}
