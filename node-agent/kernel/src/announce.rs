//! Telling the neighbours where an address is now, by gratuitous ARP or unsolicited neighbour advertisements.
//!
//! Four times over five seconds, because a frame can get lost. An address that left meanwhile is not announced any more.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::links::link_named;
use crate::packet::send_frame;
use crate::rtnl::Rtnl;
use crate::{KernelError, Netns, arp, ndp};

/// When an announcement is repeated, from its first time on.
const REPEATS: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(5)];

/// Sends announcements from one namespace.
pub(crate) struct Announcer {
    socket: Arc<OwnedFd>,
    rtnl: Arc<Rtnl>,
    /// What may be announced.
    held: Arc<Mutex<BTreeSet<(String, IpAddr)>>>,
}

impl Announcer {
    pub(crate) fn open(namespace: &Netns, rtnl: Arc<Rtnl>) -> Result<Self, KernelError> {
        // Protocol zero: it receives nothing.
        let opened =
            namespace.run(|| socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None))?;
        let socket = opened.map_err(|errno| KernelError::Socket(errno.into()))?;
        Ok(Self { socket: Arc::new(socket), rtnl, held: Arc::default() })
    }

    /// Announces now, and repeats while the addresses are held.
    pub(crate) async fn announce(&self, interface: &str, addresses: &[IpAddr]) -> Result<(), KernelError> {
        {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            held.extend(addresses.iter().map(|address| (interface.to_owned(), *address)));
        }
        send_all(&self.socket, &self.rtnl, interface, addresses).await?;
        let (socket, rtnl, held) = (self.socket.clone(), self.rtnl.clone(), self.held.clone());
        let (interface, addresses) = (interface.to_owned(), addresses.to_vec());
        tokio::spawn(async move {
            let start = tokio::time::Instant::now();
            for repeat in REPEATS {
                tokio::time::sleep_until(start + repeat).await;
                let left: Vec<IpAddr> = {
                    let held = held.lock().unwrap_or_else(PoisonError::into_inner);
                    let is_held = |address: &&IpAddr| held.contains(&(interface.clone(), **address));
                    addresses.iter().filter(is_held).copied().collect()
                };
                if left.is_empty() {
                    return;
                }
                if let Err(error) = send_all(&socket, &rtnl, &interface, &left).await {
                    tracing::debug!(%error, interface, "repeating an announcement");
                }
            }
        });
        Ok(())
    }

    /// Stops announcing an address that leaves.
    pub(crate) fn release(&self, interface: &str, address: IpAddr) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.remove(&(interface.to_owned(), address));
    }
}

async fn send_all(
    socket: &OwnedFd,
    rtnl: &Rtnl,
    interface: &str,
    addresses: &[IpAddr],
) -> Result<(), KernelError> {
    let link = link_named(rtnl, interface).await?;
    // A link without a hardware address of six bytes has no ARP, and nobody to tell.
    let Some(mac) = link.mac else { return Ok(()) };
    for address in addresses {
        let send = |frame: &[u8]| {
            send_frame(socket, link.index, frame).map_err(|source| KernelError::Refused {
                what: format!("announce {address} dev {interface}"),
                source,
            })
        };
        match address {
            IpAddr::V4(address) => {
                arp::announcements(mac, *address).iter().try_for_each(|frame| send(frame))?;
            }
            IpAddr::V6(address) => send(&ndp::advertisement(mac, *address))?,
        }
    }
    Ok(())
}
