//! A directory of the file system, locked against a second process.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::{Disk, DiskFile};

const LOCK: &str = "lock";

/// A directory of the file system (mode 0700, files 0600), held by one process at a time.
pub struct RealDisk {
    path: PathBuf,
    directory: File,
    lock: Mutex<Option<File>>,
}

impl RealDisk {
    /// Takes the directory, making it and those above it if they are missing.
    ///
    /// Fails with [`io::ErrorKind::WouldBlock`] if another process holds it.
    pub fn open(path: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        // Whoever made the directory, only its owner reads what is in it.
        std::fs::set_permissions(path, Permissions::from_mode(0o700))?;
        let lock =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path.join(LOCK))?;
        lock.try_lock()?;
        let directory = File::open(path)?;
        if let Some(parent) = path.parent()
            && let Ok(parent) = File::open(parent)
        {
            // The directory's own name has to survive too.
            parent.sync_all()?;
        }
        Ok(Self { path: path.to_owned(), directory, lock: Mutex::new(Some(lock)) })
    }
}

impl Disk for RealDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            if let Ok(name) = entry?.file_name().into_string()
                && name != LOCK
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).open(self.path.join(name))?;
        Ok(Box::new(RealFile(file)))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(self.path.join(name))?;
        Ok(Box::new(RealFile(file)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.directory.sync_all()
    }

    fn release(&self) {
        // Closing the file ends the lock.
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

struct RealFile(File);

impl DiskFile for RealFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}
