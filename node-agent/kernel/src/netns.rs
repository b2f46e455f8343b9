//! Named network namespaces, the way `ip netns` keeps them: a bind mount under `/run/netns`.
//!
//! A namespace is made on a thread of its own, so neither the caller's thread nor its process changes. Nothing here
//! forks: a forked copy of a threaded process must not do more than exec.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};

use crate::KernelError;

/// Where `ip netns` looks for names.
const DIRECTORY: &str = "/run/netns";
/// The calling thread's namespace; `/proc/self` would be the main thread's.
const OWN: &str = "/proc/thread-self/ns/net";

/// An open network namespace. It lives as long as this handle, a process, a socket or its name does.
#[derive(Debug)]
pub struct Netns {
    name: String,
    file: File,
}

impl Netns {
    /// Makes a namespace with that name.
    ///
    /// # Errors
    /// When the name is taken or not a file name, or the caller is not root.
    pub fn create(name: &str) -> Result<Self, KernelError> {
        let fail = |action| move |source| namespace_error(name, action, source);
        let path = path_of(name)?;
        prepare_directory().map_err(fail("prepare /run/netns"))?;
        File::options().write(true).create_new(true).open(&path).map_err(fail("create its name"))?;
        let made = thread::scope(|scope| {
            scope
                .spawn(|| {
                    unshare(CloneFlags::CLONE_NEWNET)?;
                    mount(Some(OWN), &path, None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
                    Ok(())
                })
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("the thread making it died")))
        });
        if let Err(source) = made {
            // The name is ours and holds nothing; the first error is the one worth telling.
            let _ = fs::remove_file(&path);
            return Err(namespace_error(name, "create it", source));
        }
        Self::open(name)
    }

    /// Opens the namespace of that name.
    ///
    /// # Errors
    /// When there is none.
    pub fn open(name: &str) -> Result<Self, KernelError> {
        let path = path_of(name)?;
        let file = File::open(&path).map_err(|source| namespace_error(name, "open it", source))?;
        Ok(Self { name: name.to_owned(), file })
    }

    /// The namespace of the calling thread.
    ///
    /// # Errors
    /// When `/proc` is not mounted.
    pub fn current() -> Result<Self, KernelError> {
        let file = File::open(OWN).map_err(|source| namespace_error("(own)", "open it", source))?;
        Ok(Self { name: "(own)".to_owned(), file })
    }

    /// Removes the name. The namespace itself ends with its last process and handle.
    ///
    /// # Errors
    /// When the name cannot be removed; a name that is not there is no error.
    pub fn delete(name: &str) -> Result<(), KernelError> {
        let path = path_of(name)?;
        // Not a mount point: a half made name, which only has to be unlinked.
        let _ = umount2(&path, MntFlags::MNT_DETACH);
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.map_err(|source| namespace_error(name, "remove its name", source)),
        }
    }

    /// The names there are, in order.
    ///
    /// # Errors
    /// When the directory cannot be read; a missing directory is an empty list.
    pub fn list() -> Result<Vec<String>, KernelError> {
        let entries = match fs::read_dir(DIRECTORY) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(namespace_error("*", "list /run/netns", source)),
        };
        let mut names: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        Ok(names)
    }

    /// Its name, `(own)` for the caller's.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Moves the calling thread into it, for good. Where the thread is already nothing is done, which needs no privilege:
    /// an agent in a pod on the host's network has none to change namespaces with.
    ///
    /// # Errors
    /// When the caller is not root.
    pub fn enter(&self) -> Result<(), KernelError> {
        if self.is_current().map_err(|source| namespace_error(&self.name, "compare it", source))? {
            return Ok(());
        }
        setns(&self.file, CloneFlags::CLONE_NEWNET)
            .map_err(|errno| namespace_error(&self.name, "enter it", errno.into()))
    }

    /// Whether the calling thread is in it.
    fn is_current(&self) -> io::Result<bool> {
        let (own, this) = (fs::metadata(OWN)?, self.file.metadata()?);
        Ok((own.dev(), own.ino()) == (this.dev(), this.ino()))
    }

    /// Runs `work` inside it, on a thread of its own: the caller's thread stays where it is.
    ///
    /// # Errors
    /// When the namespace cannot be entered, or `work` panics.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, KernelError> {
        thread::scope(|scope| {
            scope
                .spawn(|| {
                    self.enter()?;
                    Ok(work())
                })
                .join()
                .unwrap_or_else(|_| {
                    Err(namespace_error(&self.name, "run in it", io::Error::other("the thread died")))
                })
        })
    }

    /// A command that will start inside it. The namespace may be dropped before the command is spawned.
    ///
    /// # Errors
    /// When no further file descriptor can be had.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Result<Command, KernelError> {
        let file =
            self.file.try_clone().map_err(|source| namespace_error(&self.name, "keep it open", source))?;
        let mut command = Command::new(program);
        join_before_exec(&mut command, file);
        Ok(command)
    }

    /// Reads a network sysctl of this namespace, as `net/ipv4/ip_forward`.
    ///
    /// # Errors
    /// When there is no such file.
    pub fn read_sysctl(&self, key: &str) -> Result<String, KernelError> {
        let path = sysctl_path(key);
        let read = self.run(|| fs::read_to_string(&path))?;
        let text = read.map_err(|source| KernelError::Refused { what: format!("sysctl {key}"), source })?;
        Ok(text.trim().to_owned())
    }

    /// Writes a network sysctl of this namespace, as `net/ipv4/ip_forward`.
    ///
    /// # Errors
    /// When there is no such file or the value is refused.
    pub fn write_sysctl(&self, key: &str, value: &str) -> Result<(), KernelError> {
        let path = sysctl_path(key);
        self.run(|| fs::write(&path, value))?
            .map_err(|source| KernelError::Refused { what: format!("sysctl {key}={value}"), source })
    }

    /// The descriptor, for messages that name a namespace by it.
    pub(crate) fn raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

#[allow(unsafe_code, reason = "pre_exec is the one way to act between fork and exec")]
fn join_before_exec(command: &mut Command, namespace: File) {
    // SAFETY: the closure runs in the forked child and makes one system call, setns, which is async-signal-safe; it
    // allocates nothing and takes no lock. An errno converts into io::Error without allocation.
    unsafe {
        command.pre_exec(move || setns(&namespace, CloneFlags::CLONE_NEWNET).map_err(io::Error::from));
    }
}

fn sysctl_path(key: &str) -> PathBuf {
    Path::new("/proc/sys").join(key)
}

fn path_of(name: &str) -> Result<PathBuf, KernelError> {
    if name.is_empty() || name == "." || name == ".." || name.contains('/') {
        let source = io::Error::from(io::ErrorKind::InvalidInput);
        return Err(namespace_error(name, "use that name", source));
    }
    Ok(Path::new(DIRECTORY).join(name))
}

/// As `ip netns add` does: the directory is a shared mount, so that names made in one mount namespace are seen, and
/// can be removed, in the others.
fn prepare_directory() -> io::Result<()> {
    fs::create_dir_all(DIRECTORY)?;
    // Two that find it unshared would stack two mounts, and the upper one hides the names made in the lower.
    let lock = File::open(DIRECTORY)?;
    lock.lock()?;
    let share = || {
        let flags = MsFlags::MS_SHARED | MsFlags::MS_REC;
        mount(None::<&str>, DIRECTORY, None::<&str>, flags, None::<&str>)
    };
    if share().is_err() {
        let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
        mount(Some(DIRECTORY), DIRECTORY, None::<&str>, flags, None::<&str>)?;
        share()?;
    }
    Ok(())
}

fn namespace_error(name: &str, action: &'static str, source: io::Error) -> KernelError {
    KernelError::Namespace { name: name.to_owned(), action, source }
}
