//! One directory of a disk, as little of it as the log needs, so that a test or a
//! simulation can own what survives a crash.

mod memory;
mod real;

use std::io;

pub use memory::{Crash, MemoryDisk};
pub use real::RealDisk;

/// A directory of files.
///
/// Nothing is durable until it is synced: bytes by [`DiskFile::sync`], names by
/// [`Disk::sync_directory`].
pub trait Disk: Send + Sync + 'static {
    /// The names in the directory, in no particular order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Opens a file that exists, for reading and writing.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Creates an empty file, or empties one that exists.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Gives a file another name, in the place of the one that had it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes the names durable.
    fn sync_directory(&self) -> io::Result<()>;
    /// Lets another owner have the directory.
    fn release(&self) {}

    /// A whole file.
    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let file = self.open(name)?;
        let size = usize::try_from(file.size()?).map_err(io::Error::other)?;
        let mut bytes = vec![0; size];
        file.read_at(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Puts `bytes` under `name`, durably: after a crash there is the old file or the new one.
    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let temporary = format!("{name}{TEMPORARY}");
        let mut file = self.create(&temporary)?;
        file.write_at(0, bytes)?;
        file.sync()?;
        drop(file);
        self.rename(&temporary, name)?;
        self.sync_directory()
    }
}

/// How names of unfinished files end; whatever bears such a name at start may be removed.
pub const TEMPORARY: &str = ".tmp";

/// An open file.
pub trait DiskFile: Send {
    /// Fills `buffer` from `offset`.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// Writes all of `bytes` at `offset`, making the file longer if it must.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes the bytes written so far durable. After an error nothing is known of them.
    fn sync(&mut self) -> io::Result<()>;
    /// The length in bytes.
    fn size(&self) -> io::Result<u64>;
}
