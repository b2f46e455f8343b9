//! A segment: a file of zeros with a header, into which records are written from the front.
//!
//! | bytes of the header | what |
//! |---|---|
//! | 0..8 | `lk8s-log` |
//! | 8..12 | version |
//! | 12..16 | zero |
//! | 16..24 | sequence, as in the file's name |
//! | 24..28 | CRC-32C of the above |
//! | 28..64 | zero |

use super::LogError;
use super::record::{self, Found, Kind, Position};

pub(crate) const HEADER: usize = 64;
const MAGIC: &[u8; 8] = b"lk8s-log";
const VERSION: u32 = 1;
/// Records begin at multiples of this.
const STEP: usize = 8;

/// The file of the segment `sequence`.
pub(crate) fn name(sequence: u64) -> String {
    format!("log-{sequence:016x}.seg")
}

/// The sequence of a segment file, if the name is one.
pub(crate) fn sequence(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("log-")?.strip_suffix(".seg")?;
    u64::from_str_radix(digits, 16).ok()
}

pub(crate) fn header(sequence: u64) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[16..24].copy_from_slice(&sequence.to_le_bytes());
    let checksum = crc32c::crc32c(&header[..24]);
    header[24..28].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// A record's place in its segment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) kind: Kind,
    pub(crate) position: Position,
    /// Where the payload begins.
    pub(crate) offset: usize,
    pub(crate) length: usize,
}

/// What reading a segment found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Scan {
    pub(crate) records: Vec<Placed>,
    /// Where the next record goes.
    pub(crate) end: usize,
    /// The last write did not survive whole: why, and where its remains end.
    pub(crate) torn: Option<(&'static str, usize)>,
}

/// Reads all records of a segment; fails if anything that was durable is damaged.
pub(crate) fn scan(bytes: &[u8], sequence: u64) -> Result<Scan, LogError> {
    let corrupt =
        |offset: usize, what: &str| LogError::Corrupt { file: name(sequence), offset, what: what.to_owned() };
    // A segment gets its name after its header is durable, so a bad one is damage.
    let expected = header(sequence);
    match bytes.get(..HEADER) {
        Some(found) if found == expected => {}
        Some(found) if found[..8] == MAGIC[..] && found[8..12] != expected[8..12] => {
            return Err(corrupt(8, "a version this program does not know"));
        }
        Some(_) | None => return Err(corrupt(0, "a bad header")),
    }
    let mut records = Vec::new();
    let mut end = HEADER;
    let reason = loop {
        match record::parse(bytes, end, sequence) {
            Found::Record { kind, position, payload, next, .. } => {
                records.push(Placed { kind, position, offset: payload.start, length: payload.len() });
                end = next;
            }
            Found::Unwritten => break "a hole",
            Found::Bad(reason) => break reason,
        }
    };
    let rest = bytes.get(end..).unwrap_or_default();
    let Some(last) = rest.iter().rposition(|byte| *byte != 0) else {
        return Ok(Scan { records, end, torn: None });
    };
    let remains = (end + last + 1).min(bytes.len());
    if proves_durable(bytes, end, remains, sequence) {
        return Err(corrupt(end, reason));
    }
    Ok(Scan { records, end, torn: Some((reason, remains)) })
}

/// Whether an intact record behind `end` was written after `end` had been synced.
fn proves_durable(bytes: &[u8], end: usize, remains: usize, sequence: u64) -> bool {
    (end + STEP..remains).step_by(STEP).any(|at| {
        let found = record::parse(bytes, at, sequence);
        matches!(found, Found::Record { batch, .. } if batch > end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::record::Record;

    fn record(index: u64, size: usize) -> Record {
        Record {
            kind: Kind::Command,
            position: Position { term: 1, index },
            payload: vec![b'x'; size].into(),
        }
    }

    /// A segment of two writes: records 1 and 2, then 3 and 4.
    fn segment() -> (Vec<u8>, Vec<usize>) {
        let mut bytes = header(7).to_vec();
        let mut starts = Vec::new();
        for batch in [[1, 2], [3, 4]] {
            let start = u32::try_from(bytes.len()).unwrap();
            for index in batch {
                starts.push(bytes.len());
                record::encode(&mut bytes, &record(index, 13), 7, start);
            }
        }
        bytes.resize(1024, 0);
        (bytes, starts)
    }

    #[test]
    fn records_come_back() {
        let (bytes, _) = segment();
        let scan = scan(&bytes, 7).unwrap();
        let indices: Vec<_> = scan.records.iter().map(|r| r.position.index).collect();
        assert_eq!((indices, scan.torn), (vec![1, 2, 3, 4], None));
    }

    #[test]
    fn damage_before_a_later_write_is_refused_with_its_offset() {
        let (bytes, starts) = segment();
        for at in starts[0]..starts[2] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            // The padding between records is not read.
            let Err(error) = scan(&damaged, 7) else {
                assert_eq!(damaged[at], 0x10, "byte {at}");
                continue;
            };
            let start = if at < starts[1] { starts[0] } else { starts[1] };
            assert!(
                error.to_string().contains(&format!("byte {start} of log-0000000000000007.seg")),
                "{error}"
            );
        }
    }

    #[test]
    fn damage_within_the_last_write_is_a_torn_tail() {
        let (bytes, starts) = segment();
        let mut torn = bytes.clone();
        torn[starts[2] + 40] ^= 0x10;
        let scan = scan(&torn, 7).unwrap();
        assert_eq!(scan.end, starts[2]);
        assert_eq!(scan.torn.unwrap().0, "a checksum that does not match");
    }

    #[test]
    fn a_zeroed_record_before_a_later_write_is_damage() {
        let (mut bytes, starts) = segment();
        bytes[starts[1]..starts[2]].fill(0);
        assert!(scan(&bytes, 7).is_err());
    }

    #[test]
    fn a_record_of_another_segment_is_not_taken() {
        let (mut bytes, starts) = segment();
        bytes[..HEADER].copy_from_slice(&header(8));
        assert_eq!(scan(&bytes, 8).unwrap().end, starts[0]);
    }
}
