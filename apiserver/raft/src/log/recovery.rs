//! What a start finds on the disk: the log up to its last whole record.

use std::collections::VecDeque;
use std::sync::Arc;

use super::index::{Index, Place};
use super::record::{Kind, Position, Record};
use super::segment::{self, Placed};
use super::writer::{self, Active, Full};
use super::{LogError, Shared};
use crate::disk::{Disk, TEMPORARY};

/// The first segment is small, so that a new server is ready at once.
const FIRST: usize = 1 << 20;

/// The segments of a log, ready to be written on.
pub(crate) struct Recovered {
    pub(crate) index: Index,
    pub(crate) full: VecDeque<Full>,
    pub(crate) active: Active,
}

/// Reads all segments, cuts a torn tail off, and begins a log where there is none.
pub(crate) fn recover(
    shared: &Arc<Shared>,
    cache: usize,
    segment_size: usize,
) -> Result<Recovered, LogError> {
    let disk = shared.disk.as_ref();
    let (stale, sequences) = segments(disk)?;
    let mut recovery = Recovery { index: Index::new(cache), full: VecDeque::new(), active: None };
    for (number, sequence) in sequences.iter().enumerate() {
        recovery.read(disk, *sequence, number + 1 == sequences.len())?;
    }
    let gap = sequences.first().is_some_and(|first| *first > 1);
    let whole = match (recovery.index.purged(), recovery.index.first()) {
        (Some(purged), Some(first)) => first <= purged.index + 1,
        (Some(_), None) => true,
        (None, _) => !gap,
    };
    if !whole {
        let missing = sequences.first().map_or(1, |first| first - 1);
        return Err(LogError::Corrupt {
            file: segment::name(missing),
            offset: 0,
            what: "a missing segment".to_owned(),
        });
    }
    for name in stale {
        disk.remove(&name).map_err(|source| LogError::Io { file: name, source })?;
    }
    let active = match recovery.active {
        Some(active) => active,
        None => writer::first(shared, 1, segment_size.min(FIRST))
            .map_err(|source| LogError::Io { file: segment::name(1), source })?,
    };
    Ok(Recovered { index: recovery.index, full: recovery.full, active })
}

/// The files to remove, and the newest segments that follow one another.
///
/// A purge removes the oldest first, but a crash may bring any of them back.
fn segments(disk: &dyn Disk) -> Result<(Vec<String>, Vec<u64>), LogError> {
    let names = disk.list().map_err(|source| LogError::Io { file: ".".to_owned(), source })?;
    let mut stale: Vec<_> = names.iter().filter(|name| name.ends_with(TEMPORARY)).cloned().collect();
    let mut sequences: Vec<_> = names.iter().filter_map(|name| segment::sequence(name)).collect();
    sequences.sort_unstable();
    let gap = sequences.windows(2).rposition(|pair| pair[0] + 1 != pair[1]);
    let kept = sequences.split_off(gap.map_or(0, |gap| gap + 1));
    stale.extend(sequences.into_iter().map(segment::name));
    Ok((stale, kept))
}

struct Recovery {
    index: Index,
    full: VecDeque<Full>,
    active: Option<Active>,
}

impl Recovery {
    fn read(&mut self, disk: &dyn Disk, sequence: u64, newest: bool) -> Result<(), LogError> {
        let name = segment::name(sequence);
        let failed = |source| LogError::Io { file: name.clone(), source };
        let bytes = bytes::Bytes::from(disk.read(&name).map_err(failed)?);
        let scan = segment::scan(&bytes, sequence)?;
        let mut last = None;
        for placed in &scan.records {
            self.replay(sequence, placed, &bytes)?;
            if is_entry(placed.kind) {
                last = last.max(Some(placed.position.index));
            }
        }
        let mut file = disk.open(&name).map_err(failed)?;
        if let Some((reason, remains)) = scan.torn {
            if !newest {
                // The next segment began after this one was durable.
                return Err(LogError::Corrupt { file: name, offset: scan.end, what: reason.to_owned() });
            }
            tracing::warn!(
                file = name,
                offset = scan.end,
                bytes = remains - scan.end,
                reason,
                "the log ends in a write that was never acknowledged; it is cut off"
            );
            let zeros = vec![0; remains - scan.end];
            file.write_at(scan.end as u64, &zeros).map_err(failed)?;
            file.sync().map_err(failed)?;
        }
        if newest {
            self.active = Some(Active { file, sequence, size: bytes.len(), end: scan.end, last });
        } else {
            self.full.push_back(Full { sequence, last });
        }
        Ok(())
    }

    fn replay(&mut self, sequence: u64, placed: &Placed, bytes: &bytes::Bytes) -> Result<(), LogError> {
        let Position { index, .. } = placed.position;
        match placed.kind {
            Kind::Blank | Kind::Command | Kind::Membership => {
                let payload = &bytes[placed.offset..placed.offset + placed.length];
                let entry = Record {
                    kind: placed.kind,
                    position: placed.position,
                    // A copy, so that one entry does not keep a whole segment in memory.
                    payload: bytes::Bytes::copy_from_slice(payload),
                };
                let place = Place { sequence, offset: placed.offset };
                if !self.index.push(&entry, Some(place)) {
                    return Err(LogError::Corrupt {
                        file: segment::name(sequence),
                        offset: placed.offset,
                        what: format!("entry {index} where another one has to follow"),
                    });
                }
            }
            Kind::Truncate => self.index.truncate_after(Some(index)),
            Kind::TruncateAll => self.index.truncate_after(None),
            Kind::Purge => self.index.purge(placed.position),
        }
        Ok(())
    }
}

fn is_entry(kind: Kind) -> bool {
    match kind {
        Kind::Blank | Kind::Command | Kind::Membership => true,
        Kind::Truncate | Kind::TruncateAll | Kind::Purge => false,
    }
}
