//! Namespaces that a test makes for itself and that go when it ends, passed or failed.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use litek8s_kernel::Netns;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A private network namespace.
pub(crate) struct Scratch {
    pub(crate) netns: Netns,
    directory: tempfile::TempDir,
}

impl Scratch {
    /// Makes one; fails, never skips, when the test may not.
    pub(crate) fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("lk-kernel-{}-{number}", std::process::id());
        let netns = Netns::create(&name).expect("kernel tests make network namespaces: run them as root");
        let scratch = Self { netns, directory: tempfile::tempdir().unwrap() };
        scratch.assert_private();
        scratch
    }

    /// Nothing is touched before it is known that this is not the namespace the machine lives in.
    fn assert_private(&self) {
        let own = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        let inside = self.netns.run(|| std::fs::read_link("/proc/thread-self/ns/net").unwrap()).unwrap();
        assert_ne!(own, inside, "the test is not in a private network namespace");
    }

    /// Another handle to it.
    pub(crate) fn reopen(&self) -> Netns {
        Netns::open(self.netns.name()).unwrap()
    }

    /// A file that goes with it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs a program inside and returns its output; fails when the program does.
    pub(crate) fn sh(&self, line: &str) -> String {
        let output = self.netns.command("sh").unwrap().args(["-c", line]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = Netns::delete(self.netns.name());
    }
}
