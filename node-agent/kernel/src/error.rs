//! What the kernel refused, in words its caller can act on.

use std::io;

/// A request the kernel did not do.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// A named network namespace could not be made, entered or removed.
    #[error("network namespace {name}: cannot {action}")]
    Namespace {
        /// The namespace's name under `/run/netns`.
        name: String,
        /// What was being done to it.
        action: &'static str,
        /// The system call's error.
        #[source]
        source: io::Error,
    },
    /// A netlink socket could not be opened or used.
    #[error("netlink socket: {0}")]
    Socket(#[source] io::Error),
    /// The kernel refused one change.
    #[error("{what}: {source}")]
    Refused {
        /// The change, as a dry run prints it.
        what: String,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// A link of that name is not there.
    #[error("there is no interface {0}")]
    NoLink(String),
    /// The kernel kept changing while it was read; what was read is not used.
    #[error("reading {0} was interrupted every time")]
    Interrupted(&'static str),
    /// The kernel sent something that does not read as what was asked for.
    #[error("the kernel's answer about {0} cannot be read")]
    Malformed(&'static str),
    /// Somebody else changed nftables since it was read: what was planned may not fit any more.
    #[error("nftables was changed by another program meanwhile")]
    Changed,
    /// The other side of a netlink connection is gone.
    #[error("the netlink connection is closed")]
    Closed,
}

impl KernelError {
    /// The system's error number, where there is one.
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            Self::Namespace { source, .. } | Self::Refused { source, .. } | Self::Socket(source) => {
                source.raw_os_error()
            }
            Self::NoLink(_) | Self::Interrupted(_) | Self::Malformed(_) | Self::Changed | Self::Closed => {
                None
            }
        }
    }
}
