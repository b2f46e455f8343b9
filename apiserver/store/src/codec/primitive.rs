//! Numbers, strings and bytes.

use std::io::{self, Write};
use std::sync::Arc;

use bytes::Bytes;

/// Bytes that are not what they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {offset}")]
pub struct DecodeError {
    /// Where, from the beginning of what was decoded.
    pub offset: usize,
    /// What is wrong there.
    pub what: String,
}

/// Writes primitives to any sink.
pub struct Writer<'a> {
    sink: &'a mut dyn Write,
}

impl<'a> Writer<'a> {
    /// A writer into `sink`, which should be buffered.
    pub fn new(sink: &'a mut dyn Write) -> Self {
        Self { sink }
    }

    /// One byte.
    pub fn tag(&mut self, tag: u8) -> io::Result<()> {
        self.sink.write_all(&[tag])
    }

    /// A number in as few bytes as it needs.
    pub fn number(&mut self, mut value: u64) -> io::Result<()> {
        let mut buffer = [0_u8; 10];
        let mut used = 0;
        for byte in &mut buffer {
            used += 1;
            // The mask leaves seven bits.
            *byte = (value & 0x7f).to_le_bytes()[0];
            value >>= 7;
            if value == 0 {
                break;
            }
            *byte |= 0x80;
        }
        self.sink.write_all(&buffer[..used])
    }

    /// A length or count.
    pub fn size(&mut self, value: usize) -> io::Result<()> {
        self.number(value as u64)
    }

    /// A number that may be missing.
    pub fn optional(&mut self, value: Option<u64>) -> io::Result<()> {
        match value {
            None => self.tag(0),
            Some(value) => {
                self.tag(1)?;
                self.number(value)
            }
        }
    }

    /// Sixteen bytes.
    pub fn wide(&mut self, value: u128) -> io::Result<()> {
        self.sink.write_all(&value.to_le_bytes())
    }

    /// Bytes behind their length.
    pub fn bytes(&mut self, value: &[u8]) -> io::Result<()> {
        self.size(value.len())?;
        self.sink.write_all(value)
    }
}

/// Reads primitives from bytes, which what it returns may share.
pub struct Reader {
    input: Bytes,
    at: usize,
}

impl Reader {
    /// A reader of `input` from its beginning.
    pub fn new(input: Bytes) -> Self {
        Self { input, at: 0 }
    }

    /// An error at the present place.
    pub fn error(&self, what: impl Into<String>) -> DecodeError {
        DecodeError { offset: self.at, what: what.into() }
    }

    /// Refuses what follows the end of a value.
    pub fn finish(&self) -> Result<(), DecodeError> {
        if self.at == self.input.len() { Ok(()) } else { Err(self.error("trailing bytes")) }
    }

    fn take(&mut self, length: usize) -> Result<Bytes, DecodeError> {
        let end = self.at.checked_add(length);
        let Some(end) = end.filter(|end| *end <= self.input.len()) else {
            return Err(self.error("the end came too early"));
        };
        let taken = self.input.slice(self.at..end);
        self.at = end;
        Ok(taken)
    }

    /// One byte.
    pub fn tag(&mut self) -> Result<u8, DecodeError> {
        let Some(&tag) = self.input.get(self.at) else {
            return Err(self.error("the end came too early"));
        };
        self.at += 1;
        Ok(tag)
    }

    /// A number.
    pub fn number(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.tag()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.error("a number of more than 64 bits"))
    }

    /// A length or count, which cannot exceed the bytes that are left.
    pub fn size(&mut self) -> Result<usize, DecodeError> {
        let value = self.number()?;
        usize::try_from(value)
            .ok()
            .filter(|value| *value <= self.input.len() - self.at)
            .ok_or_else(|| self.error("a length beyond the end"))
    }

    /// A number that may be missing.
    pub fn optional(&mut self) -> Result<Option<u64>, DecodeError> {
        match self.tag()? {
            0 => Ok(None),
            1 => self.number().map(Some),
            other => Err(self.error(format!("presence {other}"))),
        }
    }

    /// Sixteen bytes.
    pub fn wide(&mut self) -> Result<u128, DecodeError> {
        let bytes = self.take(16)?;
        let array = <[u8; 16]>::try_from(bytes.as_ref());
        array.map(u128::from_le_bytes).map_err(|_| self.error("the end came too early"))
    }

    /// Bytes behind their length.
    pub fn bytes(&mut self) -> Result<Bytes, DecodeError> {
        let length = self.size()?;
        self.take(length)
    }

    /// A string behind its length.
    pub fn string(&mut self) -> Result<Arc<str>, DecodeError> {
        let bytes = self.bytes()?;
        let text = std::str::from_utf8(&bytes);
        text.map(Into::into).map_err(|_| self.error("text that is no UTF-8"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            Writer::new(&mut bytes).number(value).unwrap();
            let mut reader = Reader::new(bytes.into());
            assert_eq!(reader.number(), Ok(value));
            assert_eq!(reader.finish(), Ok(()));
        }
    }

    #[test]
    fn a_number_of_65_bits_is_refused() {
        let mut bytes = vec![0xff; 9];
        bytes.push(2);
        assert!(Reader::new(bytes.into()).number().is_err());
    }

    #[test]
    fn a_length_beyond_the_end_allocates_nothing() {
        let mut bytes = Vec::new();
        Writer::new(&mut bytes).number(u64::MAX).unwrap();
        assert!(Reader::new(bytes.into()).bytes().is_err());
    }
}
