//! Gratuitous ARP: telling the neighbours where an address is now.
//!
//! In the request and in the reply form, because devices heed one or the other; four times over five seconds, because
//! a frame can get lost. An address that left meanwhile is not announced any more.

use std::collections::BTreeSet;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::links::list_links;
use crate::rtnl::Rtnl;
use crate::{KernelError, Netns};

/// When an announcement is repeated, from its first time on.
const REPEATS: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(5)];

pub(crate) const ETH_P_ARP: u16 = 0x0806;
const BROADCAST: [u8; 6] = [0xff; 6];
const REQUEST: u16 = 1;
const REPLY: u16 = 2;

/// Sends announcements from one namespace.
pub(crate) struct Announcer {
    socket: Arc<OwnedFd>,
    rtnl: Arc<Rtnl>,
    /// What may be announced.
    held: Arc<Mutex<BTreeSet<(String, Ipv4Addr)>>>,
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
    pub(crate) async fn announce(&self, interface: &str, addresses: &[Ipv4Addr]) -> Result<(), KernelError> {
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
                let left: Vec<Ipv4Addr> = {
                    let held = held.lock().unwrap_or_else(PoisonError::into_inner);
                    let is_held = |address: &&Ipv4Addr| held.contains(&(interface.clone(), **address));
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
    pub(crate) fn release(&self, interface: &str, address: Ipv4Addr) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.remove(&(interface.to_owned(), address));
    }
}

async fn send_all(
    socket: &OwnedFd,
    rtnl: &Rtnl,
    interface: &str,
    addresses: &[Ipv4Addr],
) -> Result<(), KernelError> {
    let links = list_links(rtnl).await?;
    let link = links
        .into_iter()
        .find(|link| link.name == interface)
        .ok_or_else(|| KernelError::NoLink(interface.to_owned()))?;
    // A link without a hardware address of six bytes has no ARP, and nobody to tell.
    let Some(mac) = link.mac else { return Ok(()) };
    for address in addresses {
        for operation in [REQUEST, REPLY] {
            send_frame(socket, link.index, &frame(mac, *address, operation)).map_err(|source| {
                KernelError::Refused { what: format!("arp announce {address} dev {interface}"), source }
            })?;
        }
    }
    Ok(())
}

/// RFC 826 in an Ethernet frame: sender and target are the announced address (RFC 5227, section 3).
fn frame(mac: [u8; 6], address: Ipv4Addr, operation: u16) -> [u8; 42] {
    let target = if operation == REQUEST { [0; 6] } else { mac };
    build(mac, address, operation, target, address)
}

/// A question who has `address`, from nobody (RFC 5227, section 1.1): it changes no neighbour's table.
pub(crate) fn question(mac: [u8; 6], address: Ipv4Addr) -> [u8; 42] {
    build(mac, Ipv4Addr::UNSPECIFIED, REQUEST, [0; 6], address)
}

/// Who an ARP frame says has an address.
pub(crate) fn claim(frame: &[u8]) -> Option<(Ipv4Addr, [u8; 6])> {
    let ethernet = frame.get(12..20)? == [8, 6, 0, 1, 8, 0, 6, 4];
    let sender: [u8; 4] = frame.get(28..32)?.try_into().ok()?;
    let mac: [u8; 6] = frame.get(22..28)?.try_into().ok()?;
    (ethernet && sender != [0; 4]).then(|| (sender.into(), mac))
}

fn build(mac: [u8; 6], sender: Ipv4Addr, operation: u16, target_mac: [u8; 6], target: Ipv4Addr) -> [u8; 42] {
    let mut frame = [0; 42];
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    put(&BROADCAST);
    put(&mac);
    put(&ETH_P_ARP.to_be_bytes());
    // Ethernet, IPv4 and the lengths of their addresses.
    put(&[0, 1, 8, 0, 6, 4]);
    put(&operation.to_be_bytes());
    put(&mac);
    put(&sender.octets());
    put(&target_mac);
    put(&target.octets());
    frame
}

#[allow(unsafe_code, reason = "no safe wrapper sends to a link-layer address of one's own making")]
pub(crate) fn send_frame(socket: &OwnedFd, index: u32, frame: &[u8]) -> io::Result<()> {
    let mut hardware = [0; 8];
    hardware[..6].copy_from_slice(&BROADCAST);
    let to = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET.try_into().unwrap_or_default(),
        sll_protocol: ETH_P_ARP.to_be(),
        sll_ifindex: index.try_into().unwrap_or_default(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 6,
        sll_addr: hardware,
    };
    let length = libc::socklen_t::try_from(size_of_val(&to)).unwrap_or_default();
    // SAFETY: the frame and the address live until the call returns, and their lengths are their own.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            frame.as_ptr().cast(),
            frame.len(),
            libc::MSG_DONTWAIT,
            std::ptr::from_ref(&to).cast(),
            length,
        )
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::{REPLY, REQUEST, claim, frame, question};

    #[test]
    fn both_forms_name_the_address_twice_and_are_broadcast() {
        let mac = [2, 0, 0, 0, 0, 1];
        for operation in [REQUEST, REPLY] {
            let frame = frame(mac, [203, 0, 113, 10].into(), operation);
            assert_eq!(frame[..14], [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 8, 6]);
            assert_eq!((&frame[28..32], &frame[38..42]), (&[203, 0, 113, 10][..], &[203, 0, 113, 10][..]));
            assert_eq!(frame[20..22], operation.to_be_bytes());
            assert_eq!(claim(&frame), Some(([203, 0, 113, 10].into(), mac)));
        }
    }

    #[test]
    fn a_question_claims_nothing() {
        let frame = question([2, 0, 0, 0, 0, 1], [203, 0, 113, 10].into());
        assert_eq!((&frame[28..32], &frame[38..42]), (&[0; 4][..], &[203, 0, 113, 10][..]));
        assert_eq!((claim(&frame), claim(&frame[..30])), (None, None));
    }
}
