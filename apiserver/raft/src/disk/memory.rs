//! A directory in memory that forgets, on a crash, what was not synced.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Disk, DiskFile};

/// The unit in which a write tears.
const SECTOR: usize = 512;

/// What a crash makes of everything that was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// All of it is lost.
    Lose,
    /// All of it survived.
    Keep,
    /// Each sector and each name survived or did not, by this seed.
    Tear(u64),
}

/// A directory in memory. Clones share it.
///
/// Every operation that changes something is counted, and may be made to fail.
#[derive(Clone, Default)]
pub struct MemoryDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    inodes: BTreeMap<u64, Inode>,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    pending_names: Vec<NameChange>,
    next_inode: u64,
    operations: u64,
    syncs: u64,
    fail_at: Option<u64>,
}

#[derive(Clone, Default)]
struct Inode {
    live: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<(usize, Vec<u8>)>,
}

enum NameChange {
    Link(String, u64),
    Unlink(String),
    Rename(String, String),
}

impl MemoryDisk {
    /// An empty directory.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many operations changed something so far.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// How often a file was synced so far.
    pub fn syncs(&self) -> u64 {
        self.state().syncs
    }

    /// Lets the operation of this number and all later ones fail without effect.
    pub fn fail_at(&self, operation: u64) {
        self.state().fail_at = Some(operation);
    }

    /// The directory that a machine finds after a crash now. This one stays as it is.
    pub fn crashed(&self, crash: Crash) -> Self {
        let state = self.state();
        let mut fate = Fate::new(crash);
        let mut names = state.durable_names.clone();
        for change in &state.pending_names {
            if fate.survives() {
                apply(&mut names, change);
            }
        }
        let inodes = state.inodes.iter().map(|(number, inode)| (*number, inode.crashed(&mut fate))).collect();
        Self {
            state: Arc::new(Mutex::new(State {
                inodes,
                durable_names: names.clone(),
                names,
                next_inode: state.next_inode,
                ..State::default()
            })),
        }
    }

    /// Damages a byte behind everybody's back.
    pub fn flip(&self, name: &str, offset: usize) {
        let mut state = self.state();
        let number = state.names.get(name).copied();
        if let Some(inode) = number.and_then(|number| state.inodes.get_mut(&number)) {
            for bytes in [&mut inode.live, &mut inode.durable] {
                if let Some(byte) = bytes.get_mut(offset) {
                    *byte ^= 0x55;
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn operation(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        if state.fail_at.is_some_and(|at| state.operations >= at) {
            return Err(io::Error::other("the disk failed"));
        }
        state.operations += 1;
        Ok(state)
    }
}

impl Inode {
    fn crashed(&self, fate: &mut Fate) -> Self {
        let mut bytes = self.durable.clone();
        for (offset, written) in &self.pending {
            for (number, sector) in written.chunks(SECTOR).enumerate() {
                if fate.survives() {
                    write(&mut bytes, offset + number * SECTOR, sector);
                }
            }
        }
        Self { live: bytes.clone(), durable: bytes, pending: Vec::new() }
    }
}

fn write(bytes: &mut Vec<u8>, offset: usize, written: &[u8]) {
    let end = offset + written.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(written);
}

fn apply(names: &mut BTreeMap<String, u64>, change: &NameChange) {
    match change {
        NameChange::Link(name, inode) => {
            names.insert(name.clone(), *inode);
        }
        NameChange::Unlink(name) => {
            names.remove(name);
        }
        NameChange::Rename(from, to) => {
            if let Some(inode) = names.remove(from) {
                names.insert(to.clone(), inode);
            }
        }
    }
}

/// Decides what survives; xorshift, because it need only be reproducible.
struct Fate {
    crash: Crash,
    state: u64,
}

impl Fate {
    fn new(crash: Crash) -> Self {
        let seed = match crash {
            Crash::Tear(seed) => seed,
            Crash::Lose | Crash::Keep => 0,
        };
        Self { crash, state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    fn survives(&mut self) -> bool {
        match self.crash {
            Crash::Lose => false,
            Crash::Keep => true,
            Crash::Tear(_) => {
                self.state ^= self.state << 13;
                self.state ^= self.state >> 7;
                self.state ^= self.state << 17;
                self.state >> 63 == 1
            }
        }
    }
}

fn missing(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("no file {name}"))
}

impl Disk for MemoryDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.state().names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let inode = *self.state().names.get(name).ok_or_else(|| missing(name))?;
        Ok(Box::new(MemoryFile { disk: self.clone(), inode }))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.operation()?;
        state.next_inode += 1;
        let inode = state.next_inode;
        state.inodes.insert(inode, Inode::default());
        let change = NameChange::Link(name.to_owned(), inode);
        apply(&mut state.names, &change);
        state.pending_names.push(change);
        drop(state);
        Ok(Box::new(MemoryFile { disk: self.clone(), inode }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.operation()?;
        if !state.names.contains_key(from) {
            return Err(missing(from));
        }
        let change = NameChange::Rename(from.to_owned(), to.to_owned());
        apply(&mut state.names, &change);
        state.pending_names.push(change);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.operation()?;
        if !state.names.contains_key(name) {
            return Err(missing(name));
        }
        let change = NameChange::Unlink(name.to_owned());
        apply(&mut state.names, &change);
        state.pending_names.push(change);
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        let mut state = self.operation()?;
        state.durable_names = state.names.clone();
        state.pending_names.clear();
        Ok(())
    }
}

struct MemoryFile {
    disk: MemoryDisk,
    inode: u64,
}

impl MemoryFile {
    fn with<T>(&self, read: impl FnOnce(&Inode) -> T) -> io::Result<T> {
        let state = self.disk.state();
        let inode = state.inodes.get(&self.inode);
        inode.map(read).ok_or_else(|| missing("inode"))
    }
}

impl DiskFile for MemoryFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        self.with(|inode| {
            let bytes = inode.live.get(offset..offset.saturating_add(buffer.len()));
            let bytes = bytes.ok_or(io::ErrorKind::UnexpectedEof)?;
            buffer.copy_from_slice(bytes);
            Ok(())
        })?
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        let mut state = self.disk.operation()?;
        if let Some(inode) = state.inodes.get_mut(&self.inode) {
            write(&mut inode.live, offset, bytes);
            inode.pending.push((offset, bytes.to_vec()));
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.operation()?;
        state.syncs += 1;
        if let Some(inode) = state.inodes.get_mut(&self.inode) {
            for (offset, bytes) in std::mem::take(&mut inode.pending) {
                write(&mut inode.durable, offset, &bytes);
            }
        }
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        self.with(|inode| inode.live.len() as u64)
    }
}
