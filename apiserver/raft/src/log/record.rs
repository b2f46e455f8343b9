//! One record of the log as bytes.
//!
//! All numbers are little-endian; records begin at multiples of 8.
//!
//! | bytes | what |
//! |---|---|
//! | 0..4 | length, from here to the end of the payload; zero where the segment is unwritten |
//! | 4..8 | CRC-32C of the segment's sequence, bytes 0..4 and all from 8 on |
//! | 8..12 | batch: where in the segment the write began that holds the record |
//! | 12 | kind |
//! | 13..16 | zero |
//! | 16..24 | term |
//! | 24..32 | index |
//! | 32.. | payload, then zeros up to a multiple of 8 |
//!
//! Every write is synced before the next begins, so an intact record proves that all bytes
//! before its `batch` were durable: that tells a torn tail from damage.

use std::ops::Range;

use bytes::Bytes;

pub(crate) const HEADER: usize = 32;
const ALIGNMENT: usize = 8;

/// The largest payload, far above what the API accepts.
pub(crate) const MAX_PAYLOAD: usize = 1 << 30;

/// A place in the replicated log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) term: u64,
    pub(crate) index: u64,
}

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An entry without content.
    Blank,
    /// An entry with a command.
    Command,
    /// An entry that changes the membership.
    Membership,
    /// All entries behind the position are void.
    Truncate,
    /// All entries are void.
    TruncateAll,
    /// All entries up to the position are in a snapshot and not needed.
    Purge,
}

impl Kind {
    fn code(self) -> u8 {
        match self {
            Self::Blank => 1,
            Self::Command => 2,
            Self::Membership => 3,
            Self::Truncate => 4,
            Self::TruncateAll => 5,
            Self::Purge => 6,
        }
    }

    fn of(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Blank,
            2 => Self::Command,
            3 => Self::Membership,
            4 => Self::Truncate,
            5 => Self::TruncateAll,
            6 => Self::Purge,
            _ => return None,
        })
    }
}

/// An entry of the replicated log, or a mark about entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) kind: Kind,
    pub(crate) position: Position,
    pub(crate) payload: Bytes,
}

/// How many bytes a record with such a payload takes in a segment.
pub(crate) fn footprint(payload: usize) -> usize {
    (HEADER + payload).next_multiple_of(ALIGNMENT)
}

/// Appends the record's bytes to `out`, which is to be written in one piece at `batch`.
pub(crate) fn encode(out: &mut Vec<u8>, record: &Record, sequence: u64, batch: u32) {
    let start = out.len();
    // Payloads are bounded by `MAX_PAYLOAD`.
    let length = u32::try_from(HEADER + record.payload.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&batch.to_le_bytes());
    out.extend_from_slice(&[record.kind.code(), 0, 0, 0]);
    out.extend_from_slice(&record.position.term.to_le_bytes());
    out.extend_from_slice(&record.position.index.to_le_bytes());
    out.extend_from_slice(&record.payload);
    let checksum = checksum(&out[start..], sequence);
    out[start + 4..start + 8].copy_from_slice(&checksum.to_le_bytes());
    out.resize(start + footprint(record.payload.len()), 0);
}

fn checksum(record: &[u8], sequence: u64) -> u32 {
    let seed = crc32c::crc32c(&sequence.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c_append(seed, &record[..4]), &record[8..])
}

/// What is found at an offset of a segment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Record {
        kind: Kind,
        position: Position,
        payload: Range<usize>,
        batch: usize,
        next: usize,
    },
    /// Nothing was written here.
    Unwritten,
    Bad(&'static str),
}

/// Reads what is at `at` in the bytes of the segment `sequence`.
pub(crate) fn parse(segment: &[u8], at: usize, sequence: u64) -> Found {
    let Some(header) = segment.get(at..at + HEADER) else {
        let rest = segment.get(at..).unwrap_or_default();
        return if rest.iter().all(|byte| *byte == 0) {
            Found::Unwritten
        } else {
            Found::Bad("a record without room")
        };
    };
    let length = number32(header, 0);
    if length == 0 {
        return Found::Unwritten;
    }
    let Some(end) = at.checked_add(length).filter(|end| *end <= segment.len()) else {
        return Found::Bad("a length beyond the segment");
    };
    let Some(kind) = Kind::of(header[12]) else {
        return Found::Bad("an unknown kind");
    };
    let batch = number32(header, 8);
    if length < HEADER || header[13..16] != [0; 3] || batch > at {
        return Found::Bad("an impossible header");
    }
    if number32(header, 4) != checksum(&segment[at..end], sequence) as usize {
        return Found::Bad("a checksum that does not match");
    }
    Found::Record {
        kind,
        position: Position { term: number64(header, 16), index: number64(header, 24) },
        payload: at + HEADER..end,
        batch,
        next: at + footprint(length - HEADER),
    }
}

fn number32(bytes: &[u8], at: usize) -> usize {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number) as usize
}

fn number64(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}
