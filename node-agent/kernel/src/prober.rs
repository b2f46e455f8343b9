//! Asking who has an address, by ARP or neighbour solicitation, and hearing who says so. It changes nothing here.

use std::io::IoSliceMut;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::sockopt::{Ipv6RecvHopLimit, Ipv6RecvPacketInfo};
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn6,
    recvfrom, recvmsg, setsockopt, socket,
};
use tokio::io::unix::AsyncFd;

use litek8s_plan::Mac;

use crate::links::{link_local, link_named};
use crate::packet::send_frame;
use crate::rtnl::Rtnl;
use crate::{KernelError, Netns, arp, ndp};

/// Longer than any ARP frame or advertisement.
const FRAME: usize = 256;

/// Sockets that hear all claims of one namespace's neighbours.
#[derive(Debug)]
pub struct Prober {
    arp: AsyncFd<OwnedFd>,
    /// Hears neighbour advertisements; none in a kernel without IPv6.
    ndp: Option<AsyncFd<OwnedFd>>,
    rtnl: Rtnl,
}

/// What somebody said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The address.
    pub address: IpAddr,
    /// Who has it.
    pub mac: Mac,
    /// The kernel's number for the interface it was heard on.
    pub interface: u32,
}

/// In whose name a question is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    /// In nobody's: no neighbour remembers it. An IPv6 neighbour answers it to all nodes of the link.
    Nobody,
    /// In our own where IPv6 can answer to us alone; else in nobody's.
    Ourselves,
}

impl Prober {
    /// Opens the sockets inside `netns`. Needs a tokio runtime.
    ///
    /// # Errors
    /// When raw sockets are not allowed.
    pub fn open(netns: &Netns) -> Result<Self, KernelError> {
        let rtnl = Rtnl::open(netns)?;
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let opened = netns.run(|| -> nix::Result<(OwnedFd, Option<OwnedFd>)> {
            let arp = socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll)?;
            bind_to_arp(&arp)?;
            let ndp = match socket(AddressFamily::Inet6, SockType::Raw, flags, SockProtocol::IcmpV6) {
                Ok(socket) => {
                    only_advertisements(&socket)?;
                    setsockopt(&socket, Ipv6RecvPacketInfo, &true)?;
                    setsockopt(&socket, Ipv6RecvHopLimit, &true)?;
                    Some(socket)
                }
                Err(nix::errno::Errno::EAFNOSUPPORT) => None,
                Err(errno) => return Err(errno),
            };
            Ok((arp, ndp))
        });
        let (arp, ndp) = opened?.map_err(|errno| KernelError::Socket(errno.into()))?;
        Ok(Self { arp: registered(arp)?, ndp: ndp.map(registered).transpose()?, rtnl })
    }

    /// Asks once for each address on an interface.
    ///
    /// # Errors
    /// When the interface is not there or down.
    pub async fn ask(&self, interface: &str, addresses: &[IpAddr], asker: Asker) -> Result<(), KernelError> {
        let link = link_named(&self.rtnl, interface).await?;
        let Some(mac) = link.mac else { return Ok(()) };
        let source = match asker {
            Asker::Ourselves if addresses.iter().any(IpAddr::is_ipv6) => {
                link_local(&self.rtnl, link.index).await?
            }
            Asker::Ourselves | Asker::Nobody => None,
        };
        for address in addresses {
            let sent = match address {
                IpAddr::V4(four) => send_frame(self.arp.get_ref(), link.index, &arp::question(mac, *four)),
                IpAddr::V6(six) => {
                    send_frame(self.arp.get_ref(), link.index, &ndp::question(mac, source, *six))
                }
            };
            sent.map_err(|source| KernelError::Refused {
                what: format!("ask for {address} dev {interface}"),
                source,
            })?;
        }
        Ok(())
    }

    /// The next thing that a neighbour says.
    ///
    /// # Errors
    /// When a socket is of no use any more.
    pub async fn heard(&self) -> Result<Claim, KernelError> {
        let four = hear(&self.arp, read_arp);
        let Some(ndp) = &self.ndp else { return four.await };
        tokio::select! {
            claim = four => claim,
            claim = hear(ndp, read_ndp) => claim,
        }
    }
}

/// One frame, of which `None` when it claims nothing.
fn read_arp(socket: &OwnedFd) -> nix::Result<Option<Claim>> {
    let mut frame = [0; FRAME];
    let (length, from) = recvfrom::<LinkAddr>(socket.as_raw_fd(), &mut frame)?;
    let claim = frame.get(..length).and_then(arp::claim).zip(from);
    Ok(claim.map(|((address, mac), from)| Claim {
        address: address.into(),
        mac,
        interface: u32::try_from(from.ifindex()).unwrap_or_default(),
    }))
}

/// One message. What has passed a router is no neighbour's (RFC 4861, section 7.1.2).
fn read_ndp(socket: &OwnedFd) -> nix::Result<Option<Claim>> {
    let mut message = [0; FRAME];
    let mut space = nix::cmsg_space!(libc::in6_pktinfo, libc::c_int);
    let mut parts = [IoSliceMut::new(&mut message)];
    let flags = MsgFlags::MSG_DONTWAIT;
    let received = recvmsg::<SockaddrIn6>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags)?;
    let (mut interface, mut hops, length) = (0, 0, received.bytes);
    for control in received.cmsgs()? {
        if let ControlMessageOwned::Ipv6PacketInfo(info) = control {
            interface = info.ipi6_ifindex;
        } else if let ControlMessageOwned::Ipv6HopLimit(limit) = control {
            hops = limit;
        }
    }
    let claim = message.get(..length).filter(|_| hops == ndp::HOP_LIMIT.into()).and_then(ndp::claim);
    Ok(claim.map(|(address, mac)| Claim { address: address.into(), mac, interface }))
}

async fn hear(
    socket: &AsyncFd<OwnedFd>,
    read: fn(&OwnedFd) -> nix::Result<Option<Claim>>,
) -> Result<Claim, KernelError> {
    loop {
        let mut ready = socket.readable().await.map_err(KernelError::Socket)?;
        match ready.try_io(|socket| read(socket.get_ref()).map_err(Into::into)) {
            Ok(Ok(Some(claim))) => return Ok(claim),
            Ok(Ok(None)) => {}
            // An interface that went down says so once.
            Ok(Err(error)) if error.raw_os_error() == Some(libc::ENETDOWN) => {}
            Ok(Err(error)) => return Err(KernelError::Socket(error)),
            Err(_would_block) => {}
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

/// Lets the kernel pass over every other ICMPv6 message: a set bit blocks a type (RFC 3542, section 3.2).
#[allow(unsafe_code, reason = "no safe wrapper sets this filter")]
fn only_advertisements(socket: &OwnedFd) -> nix::Result<()> {
    /// `ICMPV6_FILTER`
    const FILTER: libc::c_int = 1;
    let mut blocked = [u32::MAX; 8];
    blocked[usize::from(ndp::ADVERTISEMENT / 32)] &= !(1 << (ndp::ADVERTISEMENT % 32));
    let length = libc::socklen_t::try_from(size_of_val(&blocked)).unwrap_or_default();
    // SAFETY: the filter lives until the call returns, and its length is its own.
    let set = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_ICMPV6, FILTER, blocked.as_ptr().cast(), length)
    };
    nix::errno::Errno::result(set).map(drop)
}
