//! The wire format: varints, tags and the four kinds of fields.

use super::malformed;
use crate::decode::DecodeError;

/// One field as it stands in a message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Field<'a> {
    /// A number.
    Varint(u64),
    /// Eight bytes, little endian.
    Fixed64(u64),
    /// Text, bytes, a message or packed numbers.
    Bytes(&'a [u8]),
    /// Four bytes, little endian.
    Fixed32(u32),
}

/// The fields of a message in their order.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn next_field(&mut self) -> Result<(u32, Field<'a>), DecodeError> {
        let tag = varint(&mut self.rest)?;
        let number = u32::try_from(tag >> 3).map_err(|_| malformed("proto: illegal tag"))?;
        if number == 0 {
            return Err(malformed("proto: illegal tag 0"));
        }
        let field = match tag & 7 {
            0 => Field::Varint(varint(&mut self.rest)?),
            1 => Field::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = varint(&mut self.rest)?;
                let length = usize::try_from(length).map_err(|_| unexpected_end())?;
                Field::Bytes(self.take(length)?)
            }
            5 => Field::Fixed32(u32::from_le_bytes(self.array()?)),
            other => return Err(malformed(&format!("proto: illegal wireType {other}"))),
        };
        Ok((number, field))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (head, rest) = self.rest.split_at_checked(length).ok_or_else(unexpected_end)?;
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        self.take(N)?.try_into().map_err(|_| unexpected_end())
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Field<'a>), DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.next_field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

fn unexpected_end() -> DecodeError {
    malformed("unexpected EOF")
}

/// Takes one varint off the front.
pub(super) fn varint(rest: &mut &[u8]) -> Result<u64, DecodeError> {
    let mut value = 0_u64;
    for (at, &byte) in rest.iter().enumerate().take(10) {
        let bits = u64::from(byte & 0x7f);
        if at == 9 && bits > 1 {
            break;
        }
        value |= bits << (7 * at);
        if byte & 0x80 == 0 {
            *rest = &rest[at + 1..];
            return Ok(value);
        }
    }
    Err(if rest.len() < 10 { unexpected_end() } else { malformed("proto: integer overflow") })
}

/// Appends one varint.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    loop {
        let bits = (value & 0x7f).to_le_bytes()[0];
        value >>= 7;
        if value == 0 {
            out.push(bits);
            return;
        }
        out.push(bits | 0x80);
    }
}

/// Appends a number as a field.
pub(crate) fn put_number(out: &mut Vec<u8>, number: u32, value: u64) {
    put_varint(out, u64::from(number) << 3);
    put_varint(out, value);
}

/// Appends bytes as a field.
pub(crate) fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_varint(out, (u64::from(number) << 3) | 2);
    put_varint(out, u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    out.extend_from_slice(bytes);
}

/// Appends a double as a field.
pub(crate) fn put_double(out: &mut Vec<u8>, number: u32, value: f64) {
    put_varint(out, (u64::from(number) << 3) | 1);
    out.extend_from_slice(&value.to_le_bytes());
}
