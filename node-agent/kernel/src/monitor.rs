//! What changes in the kernel, as it changes: the sign to look again.
//!
//! A notice says where to look, never what to believe. When notices were lost everything may have changed.

use std::io;

use netlink_sys::{AsyncSocket, AsyncSocketExt, SocketAddr, TokioSocket};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::wire::messages;
use crate::{KernelError, Netns};
use litek8s_plan::PROTOCOL;

/// `RTNLGRP_LINK`, and `_IFADDR`, `_ROUTE` and `_RULE` of both families as bits.
const ROUTE_GROUPS: u32 = 1 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 18;
/// `NFNLGRP_NFTABLES` as a bit.
const NFTABLES_GROUP: u32 = 1 << 6;

/// Where something changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Notice {
    /// A link came, went or changed its state.
    Link,
    /// An address.
    Address,
    /// A route of ours.
    Route,
    /// A route of somebody else: the way to a gateway's pod may be another one.
    ForeignRoute,
    /// A rule.
    Rule,
    /// Some nftables table.
    Nft,
    /// Notices were lost.
    Lost,
}

/// Notices of one namespace. Dropping it ends the watching.
#[derive(Debug)]
pub struct Monitor {
    notices: mpsc::Receiver<Notice>,
    tasks: [JoinHandle<()>; 2],
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Monitor {
    /// Begins watching. Needs a tokio runtime.
    ///
    /// # Errors
    /// When the sockets cannot be had.
    pub fn open(namespace: &Netns) -> Result<Self, KernelError> {
        let (sender, notices) = mpsc::channel(256);
        let route = subscribe(namespace, netlink_sys::protocols::NETLINK_ROUTE, ROUTE_GROUPS)?;
        let netfilter = subscribe(namespace, netlink_sys::protocols::NETLINK_NETFILTER, NFTABLES_GROUP)?;
        let tasks = [
            tokio::spawn(watch(route, sender.clone(), route_notice)),
            tokio::spawn(watch(netfilter, sender, |_, _| Some(Notice::Nft))),
        ];
        Ok(Self { notices, tasks })
    }

    /// The next notice. `None` when watching has ended, which it does only with an error that was logged.
    pub async fn next(&mut self) -> Option<Notice> {
        self.notices.recv().await
    }
}

fn subscribe(namespace: &Netns, protocol: isize, groups: u32) -> Result<TokioSocket, KernelError> {
    let runtime = tokio::runtime::Handle::try_current()
        .map_err(|error| KernelError::Socket(io::Error::other(error)))?;
    let opened = namespace.run(|| {
        let _guard = runtime.enter();
        let mut socket = TokioSocket::new(protocol)?;
        socket.socket_mut().bind(&SocketAddr::new(0, groups))?;
        Ok(socket)
    })?;
    opened.map_err(KernelError::Socket)
}

async fn watch(socket: TokioSocket, notices: mpsc::Sender<Notice>, read: fn(u16, &[u8]) -> Option<Notice>) {
    loop {
        let received = socket.recv_from_full().await;
        let found: Vec<Notice> = match received {
            Ok((datagram, _)) => {
                let mut found: Vec<Notice> =
                    messages(&datagram).filter_map(|message| read(message.kind, message.bytes)).collect();
                found.sort();
                found.dedup();
                found
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => vec![Notice::Lost],
            Err(error) => {
                tracing::error!(%error, "watching the kernel");
                return;
            }
        };
        for notice in found {
            if notices.send(notice).await.is_err() {
                return;
            }
        }
    }
}

fn route_notice(kind: u16, bytes: &[u8]) -> Option<Notice> {
    match kind {
        16 | 17 => Some(Notice::Link),
        20 | 21 => Some(Notice::Address),
        // `rtm_protocol` of `struct rtmsg`.
        24 | 25 if bytes.get(16 + 5) == Some(&PROTOCOL) => Some(Notice::Route),
        24 | 25 => Some(Notice::ForeignRoute),
        32 | 33 => Some(Notice::Rule),
        _ => None,
    }
}
