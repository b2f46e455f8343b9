//! Private files that are either the old or the new ones; never world-readable for a moment.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The mode of everything that holds a key or a token.
pub const PRIVATE_FILE: u32 = 0o600;
/// The mode of the directories that hold them.
pub const PRIVATE_DIRECTORY: u32 = 0o700;

/// Makes a directory and its parents with mode 0700; directories that exist keep their mode.
pub fn private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(PRIVATE_DIRECTORY).create(path)
}

/// Writes a file with mode 0600 so that a crash leaves the old content or the new, and the rename is on disk.
pub fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    write_atomically(path, content, PRIVATE_FILE)
}

/// As [`write_private`], with the mode of the caller's choice.
pub fn write_atomically(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let name = path.file_name().ok_or_else(|| io::Error::other("the path names no file"))?;
    let mut temporary = name.to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = directory.join(temporary);
    let written = write_and_rename(&temporary, path, content, mode);
    if written.is_err() {
        // The first error is the one to report; the leftover is overwritten by the next try.
        let _ = std::fs::remove_file(&temporary);
        return written;
    }
    File::open(directory)?.sync_all()
}

fn write_and_rename(temporary: &Path, path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(temporary)?;
    // `mode` above is only for a new file and passes through the umask.
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(temporary, path)
}

/// Reads a file as text; `None` when there is none.
pub fn read_if_exists(path: &Path) -> io::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_file_is_replaced_whole_and_closed_to_others() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("a/b");
        private_directory(&inner).unwrap();
        assert_eq!(std::fs::metadata(&inner).unwrap().permissions().mode() & 0o777, PRIVATE_DIRECTORY);
        let path = inner.join("token");
        std::fs::write(&path, "old and longer").unwrap();
        write_private(&path, b"new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, PRIVATE_FILE);
        assert_eq!(std::fs::read_dir(&inner).unwrap().count(), 1, "no temporary file stays");
    }

    #[test]
    fn an_absent_file_is_none() {
        assert_eq!(read_if_exists(Path::new("/nonexistent/file")).unwrap(), None);
    }
}
