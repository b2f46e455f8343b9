//! Asking by ARP who has an address, and hearing who says so. It changes nothing, here or with the neighbours.

use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, socket};
use tokio::io::unix::AsyncFd;

use crate::links::list_links;
use crate::rtnl::Rtnl;
use crate::{KernelError, Netns, arp};

/// Longer than any ARP frame.
const FRAME: usize = 128;

/// A socket that sees all ARP of one namespace.
#[derive(Debug)]
pub struct Prober {
    socket: AsyncFd<OwnedFd>,
    rtnl: Rtnl,
}

/// What somebody said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The address.
    pub address: Ipv4Addr,
    /// Who has it.
    pub mac: [u8; 6],
}

impl Prober {
    /// Opens the socket inside `netns`. Needs a tokio runtime.
    ///
    /// # Errors
    /// When raw sockets are not allowed.
    pub fn open(netns: &Netns) -> Result<Self, KernelError> {
        let rtnl = Rtnl::open(netns)?;
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let open = || socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll);
        let arp_only = || -> nix::Result<OwnedFd> {
            let socket = open()?;
            bind_to_arp(&socket)?;
            Ok(socket)
        };
        let opened = netns.run(arp_only)?.map_err(|errno| KernelError::Socket(errno.into()))?;
        Ok(Self { socket: registered(opened)?, rtnl })
    }

    /// Asks once for each address on an interface.
    ///
    /// # Errors
    /// When the interface is not there or down.
    pub async fn ask(&self, interface: &str, addresses: &[Ipv4Addr]) -> Result<(), KernelError> {
        let links = list_links(&self.rtnl).await?;
        let link = links
            .into_iter()
            .find(|link| link.name == interface)
            .ok_or_else(|| KernelError::NoLink(interface.to_owned()))?;
        let Some(mac) = link.mac else { return Ok(()) };
        for address in addresses {
            let frame = arp::question(mac, *address);
            arp::send_frame(self.socket.get_ref(), link.index, &frame).map_err(|source| {
                KernelError::Refused { what: format!("arp ask {address} dev {interface}"), source }
            })?;
        }
        Ok(())
    }

    /// The next thing that anybody says, ourselves included.
    ///
    /// # Errors
    /// When the socket is of no use any more.
    pub async fn heard(&self) -> Result<Claim, KernelError> {
        let mut frame = [0; FRAME];
        loop {
            let mut ready = self.socket.readable().await.map_err(KernelError::Socket)?;
            let received = ready.try_io(|socket| {
                recv(socket.get_ref().as_raw_fd(), &mut frame, MsgFlags::MSG_DONTWAIT).map_err(Into::into)
            });
            match received {
                Ok(Ok(length)) => {
                    if let Some((address, mac)) = frame.get(..length).and_then(arp::claim) {
                        return Ok(Claim { address, mac });
                    }
                }
                // An interface that went down says so once.
                Ok(Err(error)) if error.raw_os_error() == Some(libc::ENETDOWN) => {}
                Ok(Err(error)) => return Err(KernelError::Socket(error)),
                Err(_would_block) => {}
            }
        }
    }
}

#[allow(unsafe_code, reason = "the runtime has to be promised that the descriptor stays what it is")]
fn registered(socket: OwnedFd) -> Result<AsyncFd<OwnedFd>, KernelError> {
    // SAFETY: an owned descriptor is open for as long as it lives, always gives the same number, and nothing here takes
    // it out of its owner.
    unsafe { AsyncFd::register(socket) }.map_err(|error| KernelError::Socket(error.into()))
}

#[allow(unsafe_code, reason = "no safe wrapper binds to one protocol on all interfaces")]
fn bind_to_arp(socket: &OwnedFd) -> nix::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET.try_into().unwrap_or_default(),
        sll_protocol: arp::ETH_P_ARP.to_be(),
        sll_ifindex: 0,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let length = libc::socklen_t::try_from(size_of_val(&address)).unwrap_or_default();
    // SAFETY: the address lives until the call returns, and its length is its own.
    let bound = unsafe { libc::bind(socket.as_raw_fd(), std::ptr::from_ref(&address).cast(), length) };
    nix::errno::Errno::result(bound).map(drop)
}
