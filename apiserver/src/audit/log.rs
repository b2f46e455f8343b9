//! The file: a thread of its own writes lines, begins a new file when one is full, and keeps a number of old ones.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tokio::sync::{mpsc, oneshot};

/// Lines that may wait for the disk; the next request waits with them.
const QUEUE: usize = 10_000;

enum Message {
    Line(Vec<u8>),
    Flush(oneshot::Sender<()>),
}

/// Where lines go.
#[derive(Debug)]
pub(super) struct Log(mpsc::Sender<Message>);

impl Log {
    /// Opens the file and starts the thread, which ends with the last sender.
    pub(super) fn open(path: PathBuf, max_bytes: u64, max_backups: usize) -> io::Result<Self> {
        let mut writer = Writer::open(path, max_bytes, max_backups)?;
        let (sender, mut receiver) = mpsc::channel(QUEUE);
        std::thread::Builder::new().name("audit".to_owned()).spawn(move || {
            while let Some(message) = receiver.blocking_recv() {
                match message {
                    Message::Line(line) => {
                        if let Err(error) = writer.write(&line) {
                            tracing::error!(%error, "an audit event is lost");
                        }
                    }
                    // Every line before this one is in the file.
                    Message::Flush(done) => drop(done.send(())),
                }
            }
        })?;
        Ok(Self(sender))
    }

    /// Adds a line, when there is room for it.
    pub(super) async fn add(&self, line: Vec<u8>) -> bool {
        self.0.send(Message::Line(line)).await.is_ok()
    }

    /// Adds a line if there is room now.
    pub(super) fn try_add(&self, line: Vec<u8>) -> bool {
        self.0.try_send(Message::Line(line)).is_ok()
    }

    /// Waits for the lines before.
    pub(super) async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        if self.0.send(Message::Flush(done)).await.is_ok() {
            // A thread that is gone has nothing left to write.
            let _ = flushed.await;
        }
    }
}

/// The file that is written to.
pub(super) struct Writer {
    path: PathBuf,
    file: File,
    size: u64,
    max_bytes: u64,
    max_backups: usize,
}

impl Writer {
    /// Opens the file, to go on at its end.
    pub(super) fn open(path: PathBuf, max_bytes: u64, max_backups: usize) -> io::Result<Self> {
        let file = open(&path)?;
        let size = file.metadata()?.len();
        Ok(Self { path, file, size, max_bytes, max_backups })
    }

    /// Writes a line, in a new file if this one would become too large.
    ///
    /// A rotation that fails costs no line: the next ones go on in the file that is open.
    pub(super) fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let length = line.len() as u64;
        if self.size > 0
            && self.size + length > self.max_bytes
            && let Err(error) = self.rotate()
        {
            tracing::error!(%error, path = %self.path.display(), "the audit log cannot be rotated");
        }
        self.file.write_all(line)?;
        self.size += length;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H-%M-%S%.6f").to_string();
        match std::fs::rename(&self.path, backup(&self.path, &now)) {
            // Somebody else took the file away.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            renamed => renamed?,
        }
        self.file = open(&self.path)?;
        self.size = 0;
        let mut old = backups(&self.path)?;
        old.sort();
        let surplus = old.len().saturating_sub(self.max_backups);
        old.iter().take(surplus).try_for_each(std::fs::remove_file)
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// `audit.log` becomes `audit-TIME.log`.
fn backup(path: &Path, time: &str) -> PathBuf {
    let (stem, extension) = names(path);
    path.with_file_name(format!("{stem}-{time}{extension}"))
}

fn names(path: &Path) -> (String, String) {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let extension = path.extension().map(|e| format!(".{}", e.to_string_lossy())).unwrap_or_default();
    (stem, extension)
}

/// The old files, in no order.
fn backups(path: &Path) -> io::Result<Vec<PathBuf>> {
    let (stem, extension) = names(path);
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_old = |name: &str| {
        let time = name
            .strip_prefix(&stem)
            .and_then(|n| n.strip_prefix('-'))
            .and_then(|n| n.strip_suffix(&extension));
        time.is_some_and(|time| {
            time.len() == 26 && time.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'T' | b'.'))
        })
    };
    let entries = std::fs::read_dir(directory)?.collect::<io::Result<Vec<_>>>()?;
    Ok(entries.into_iter().filter(|e| is_old(&e.file_name().to_string_lossy())).map(|e| e.path()).collect())
}
