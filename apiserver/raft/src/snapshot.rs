//! Snapshot files: written beside the present one, synced, renamed; checked when read.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | `lk8ssnap` |
//! | 8..12 | version |
//! | 12..16 | 1 if the position counts |
//! | 16..32 | term and index of the last entry applied |
//! | 32..36 | 1 if the membership's position counts |
//! | 36..40 | length of the membership |
//! | 40..56 | term and index of the membership's entry |
//! | 56.. | membership, then the store |
//! | last 4 | CRC-32C of all before |

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use litek8s_store::{Limits, Store};

use crate::disk::{Disk, DiskFile};
use crate::log::Position;
use crate::membership;
use crate::types::{LogId, Membership, SnapshotMeta, StoredMembership};

const MAGIC: &[u8; 8] = b"lk8ssnap";
const VERSION: u32 = 1;
const HEADER: usize = 56;
const UNFINISHED: &str = "snapshot.tmp";
/// Bytes gathered before a write.
const PIECE: usize = 1 << 20;

/// Why a snapshot cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The disk failed.
    #[error("{file}")]
    Io {
        /// The file.
        file: String,
        /// The disk's error.
        #[source]
        source: io::Error,
    },
    /// The file is not what was written.
    #[error("{file} is damaged: {what}")]
    Corrupt {
        /// The file.
        file: String,
        /// What is wrong.
        what: String,
    },
}

impl From<SnapshotError> for io::Error {
    fn from(error: SnapshotError) -> Self {
        io::Error::other(error)
    }
}

/// A state of the machine: the store and what openraft has to know of it.
#[derive(Clone)]
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) applied: Option<LogId>,
    pub(crate) membership: StoredMembership,
}

impl State {
    pub(crate) fn empty(limits: Limits) -> Self {
        Self { store: Store::new(limits), applied: None, membership: StoredMembership::default() }
    }

    pub(crate) fn meta(&self) -> SnapshotMeta {
        SnapshotMeta { last_log_id: self.applied, last_membership: self.membership.clone() }
    }
}

/// A snapshot in its file.
#[derive(Clone)]
pub(crate) struct SnapshotFile {
    disk: Arc<dyn Disk>,
    name: String,
}

impl SnapshotFile {
    pub(crate) fn read(&self, limits: Limits) -> Result<State, SnapshotError> {
        let bytes = self
            .disk
            .read(&self.name)
            .map_err(|source| SnapshotError::Io { file: self.name.clone(), source })?;
        decode(bytes.into(), limits).map_err(|what| SnapshotError::Corrupt { file: self.name.clone(), what })
    }
}

/// The snapshots of a directory, of which the newest counts.
pub(crate) struct Snapshots {
    disk: Arc<dyn Disk>,
    /// Held while a file is written, so that two writers do not meet in it.
    current: Mutex<Option<(SnapshotMeta, SnapshotFile)>>,
}

impl Snapshots {
    /// Finds the newest snapshot, reads it, and removes the others.
    pub(crate) fn open(disk: Arc<dyn Disk>, limits: Limits) -> Result<(Self, Option<State>), SnapshotError> {
        let names = disk.list().map_err(|source| SnapshotError::Io { file: ".".to_owned(), source })?;
        let newest = names.into_iter().filter_map(|name| position(&name)).max();
        let snapshots = Self { disk, current: Mutex::new(None) };
        let Some(newest) = newest else {
            return Ok((snapshots, None));
        };
        let file = snapshots.file(file_name(newest));
        let state = file.read(limits)?;
        *snapshots.lock() = Some((state.meta(), file));
        snapshots.remove_others().map_err(|source| SnapshotError::Io { file: file_name(newest), source })?;
        Ok((snapshots, Some(state)))
    }

    pub(crate) fn current(&self) -> Option<(SnapshotMeta, SnapshotFile)> {
        self.lock().clone()
    }

    /// Writes a snapshot and makes it the current one, unless a newer one is there.
    pub(crate) fn save(&self, state: &State) -> io::Result<(SnapshotMeta, SnapshotFile)> {
        let mut current = self.lock();
        if let Some(present) = current.as_ref()
            && present.0.last_log_id >= state.applied
            && present.0.last_log_id.is_some()
        {
            return Ok(present.clone());
        }
        let mut file = Checked::new(self.disk.create(UNFINISHED)?);
        encode(&mut file, state)?;
        file.finish()?;
        let name = file_name(state.applied.map(Into::into));
        self.disk.rename(UNFINISHED, &name)?;
        self.disk.sync_directory()?;
        let saved = (state.meta(), self.file(name));
        *current = Some(saved.clone());
        drop(current);
        self.remove_others()?;
        Ok(saved)
    }

    fn file(&self, name: String) -> SnapshotFile {
        SnapshotFile { disk: self.disk.clone(), name }
    }

    fn remove_others(&self) -> io::Result<()> {
        let current = self.lock();
        let keep = current.as_ref().map(|(_, file)| file.name.as_str());
        for name in self.disk.list()? {
            if position(&name).is_some() && Some(name.as_str()) != keep {
                self.disk.remove(&name)?;
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Option<(SnapshotMeta, SnapshotFile)>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn file_name(position: Option<Position>) -> String {
    match position {
        None => "snapshot-empty.snap".to_owned(),
        Some(at) => format!("snapshot-{:016x}-{:016x}.snap", at.term, at.index),
    }
}

/// The position in a snapshot's name, if the name is one.
fn position(name: &str) -> Option<Option<Position>> {
    let middle = name.strip_prefix("snapshot-")?.strip_suffix(".snap")?;
    if middle == "empty" {
        return Some(None);
    }
    let (term, index) = middle.split_once('-')?;
    Some(Some(Position {
        term: u64::from_str_radix(term, 16).ok()?,
        index: u64::from_str_radix(index, 16).ok()?,
    }))
}

fn encode(file: &mut Checked, state: &State) -> io::Result<()> {
    let members = membership::encode(state.membership.membership());
    let length = u32::try_from(members.len()).map_err(io::Error::other)?;
    file.write_all(MAGIC)?;
    file.write_all(&VERSION.to_le_bytes())?;
    write_position(file, state.applied, None)?;
    write_position(file, *state.membership.log_id(), Some(length))?;
    file.write_all(&members)?;
    state.store.encode(file)
}

/// A flag, perhaps a length, a term and an index.
fn write_position(file: &mut Checked, id: Option<LogId>, length: Option<u32>) -> io::Result<()> {
    let position = id.map(Position::from);
    file.write_all(&u32::from(position.is_some()).to_le_bytes())?;
    if let Some(length) = length {
        file.write_all(&length.to_le_bytes())?;
    }
    let Position { term, index } = position.unwrap_or(Position { term: 0, index: 0 });
    file.write_all(&term.to_le_bytes())?;
    file.write_all(&index.to_le_bytes())
}

fn decode(bytes: Bytes, limits: Limits) -> Result<State, String> {
    let Some(length) = bytes.len().checked_sub(4).filter(|length| *length >= HEADER) else {
        return Err("too short".to_owned());
    };
    if bytes[..8] != MAGIC[..] {
        return Err("not a snapshot".to_owned());
    }
    if bytes[8..12] != VERSION.to_le_bytes() {
        return Err("a version this program does not know".to_owned());
    }
    if bytes[length..] != crc32c::crc32c(&bytes[..length]).to_le_bytes() {
        return Err("the checksum does not match".to_owned());
    }
    let number = |at: usize| -> Option<u64> {
        let eight = bytes.get(at..at + 8)?.try_into().ok()?;
        Some(u64::from_le_bytes(eight))
    };
    let position = |flag: usize, at: usize| -> Option<LogId> {
        let term = number(at)?;
        let index = number(at + 8)?;
        (bytes[flag] == 1).then(|| Position { term, index }.into())
    };
    let members = u32::from_le_bytes([bytes[36], bytes[37], bytes[38], bytes[39]]) as usize;
    let start = (HEADER + members).min(length);
    let members: Membership =
        membership::decode(bytes.slice(HEADER..start)).map_err(|error| error.to_string())?;
    let store = Store::decode(bytes.slice(start..length), limits).map_err(|error| error.to_string())?;
    Ok(State {
        store,
        applied: position(12, 16),
        membership: StoredMembership::new(position(32, 40), members),
    })
}

/// A file written from front to back in large pieces, with a checksum at its end.
struct Checked {
    file: Box<dyn DiskFile>,
    buffer: Vec<u8>,
    written: u64,
    checksum: u32,
}

impl Checked {
    fn new(file: Box<dyn DiskFile>) -> Self {
        Self { file, buffer: Vec::new(), written: 0, checksum: 0 }
    }

    fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.file.write_at(self.written, &self.checksum.to_le_bytes())?;
        self.file.sync()
    }
}

impl Write for Checked {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.checksum = crc32c::crc32c_append(self.checksum, &self.buffer);
        self.file.write_at(self.written, &self.buffer)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}
