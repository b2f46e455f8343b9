//! The peers of the kernel's WireGuard interfaces and their allowed IPs, by generic netlink (`linux/wireguard.h`).
//!
//! The interfaces are somebody else's: one allowed IP is given to a peer or taken from it, and a list is never replaced.
//! No key of theirs but the peers' public ones is looked at.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "the kernel's attributes are an open set: those we do not use are passed over"
)]

use std::io;
use std::net::IpAddr;

use futures::StreamExt;
use genetlink::{GenetlinkError, GenetlinkHandle};
use ipnet::IpNet;
use litek8s_plan::{AllowedIp, PeerKey, Tunnel};
use netlink_packet_generic::GenlMessage;
use netlink_packet_wireguard::{
    WireguardAddressFamily, WireguardAllowedIp, WireguardAllowedIpAttr, WireguardAllowedIpFlags,
    WireguardAttribute, WireguardCmd, WireguardMessage, WireguardPeer, WireguardPeerAttribute,
    WireguardPeerFlags,
};
use rtnetlink::packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use tokio::task::JoinHandle;

use crate::links::Link;
use crate::{KernelError, Netns};

/// How often an interrupted reading is tried again.
const READ_ATTEMPTS: usize = 10;
/// The public key of a peer that nobody has, for a moment: what it is given leaves the interface with it.
const NOBODY: [u8; 32] = *b"litek8s takes an allowed IP away";

/// A connection and the task that drives it; dropping it ends both.
#[derive(Debug)]
pub(crate) struct Wireguard {
    handle: GenetlinkHandle,
    driver: JoinHandle<()>,
}

impl Drop for Wireguard {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Wireguard {
    /// Connects inside `namespace`. Needs a tokio runtime, and no WireGuard in the kernel until there is an interface.
    pub(crate) fn open(namespace: &Netns) -> Result<Self, KernelError> {
        let runtime = tokio::runtime::Handle::try_current()
            .map_err(|error| KernelError::Socket(io::Error::other(error)))?;
        let opened = namespace.run(|| {
            let _guard = runtime.enter();
            genetlink::new_connection()
        })?;
        let (mut connection, handle, _unsolicited) = opened.map_err(KernelError::Socket)?;
        // Only with it does the end of a dump say whether the dump was whole.
        connection.set_forward_done(true);
        Ok(Self { handle, driver: runtime.spawn(connection) })
    }

    /// An interface with its peers; `None` when it went meanwhile.
    pub(crate) async fn read(&self, link: &Link) -> Result<Option<Tunnel>, KernelError> {
        for _ in 0..READ_ATTEMPTS {
            match self.read_once(link).await {
                Ok(None) => {}
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return Ok(None),
                other => return other,
            }
        }
        Err(KernelError::Interrupted("WireGuard peers"))
    }

    /// `None` when the reading was interrupted.
    async fn read_once(&self, link: &Link) -> Result<Option<Tunnel>, KernelError> {
        let what = || format!("wg show {}", link.name);
        let attributes = vec![WireguardAttribute::IfIndex(link.index)];
        let mut request = request(WireguardCmd::GetDevice, attributes);
        request.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        let mut answers = self.handle.clone().request(request).await.map_err(|error| lift(error, what))?;
        let mut tunnel = Tunnel { index: link.index, ..Tunnel::default() };
        let (mut whole, mut ended) = (true, false);
        while let Some(answer) = answers.next().await {
            let answer = answer.map_err(|_| KernelError::Malformed("WireGuard peers"))?;
            whole &= answer.header.flags & NLM_F_DUMP_INTR == 0;
            match answer.payload {
                NetlinkPayload::InnerMessage(message) => take_in(&mut tunnel, message.payload.attributes),
                NetlinkPayload::Done(done) if done.code == 0 => ended = true,
                NetlinkPayload::Done(done) => {
                    let source = io::Error::from_raw_os_error(-done.code);
                    return Err(KernelError::Refused { what: what(), source });
                }
                NetlinkPayload::Error(error) => {
                    return Err(KernelError::Refused { what: what(), source: error.to_io() });
                }
                NetlinkPayload::Overrun(_) => whole = false,
                _ => {}
            }
        }
        if !ended && whole { Err(KernelError::Closed) } else { Ok(whole.then_some(tunnel)) }
    }

    /// Gives a peer an allowed IP; the peer that has it loses it in the same moment. A peer that went is not made anew.
    pub(crate) async fn add(
        &self,
        key: &AllowedIp,
        peer: PeerKey,
        what: impl Fn() -> String,
    ) -> Result<(), KernelError> {
        let entry = allowed_ip(key.network, WireguardAllowedIpFlags::empty());
        self.change(key, vec![peer_with(peer.0, WireguardPeerFlags::UpdateOnly, vec![entry])], what).await
    }

    /// Takes an allowed IP from a peer.
    ///
    /// Before Linux 6.16 there is no way to do just that. There a peer that nobody has takes it over and is removed, in one
    /// message, so that nobody sees it.
    pub(crate) async fn remove(
        &self,
        key: &AllowedIp,
        peer: PeerKey,
        what: impl Fn() -> String,
    ) -> Result<(), KernelError> {
        let entry = allowed_ip(key.network, WireguardAllowedIpFlags::RemoveMe);
        let remove = vec![peer_with(peer.0, WireguardPeerFlags::UpdateOnly, vec![entry])];
        let removed = self.change(key, remove, &what).await;
        // An attribute that an older kernel does not know.
        let Err(KernelError::Refused { source, .. }) = &removed else { return removed };
        if !matches!(source.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP)) {
            return removed;
        }
        let entry = allowed_ip(key.network, WireguardAllowedIpFlags::empty());
        let over = peer_with(NOBODY, WireguardPeerFlags::empty(), vec![entry]);
        let gone = peer_with(NOBODY, WireguardPeerFlags::RemoveMe, Vec::new());
        self.change(key, vec![over, gone], what).await
    }

    async fn change(
        &self,
        key: &AllowedIp,
        peers: Vec<WireguardPeer>,
        what: impl Fn() -> String,
    ) -> Result<(), KernelError> {
        let attributes =
            vec![WireguardAttribute::IfName(key.interface.clone()), WireguardAttribute::Peers(peers)];
        let mut request = request(WireguardCmd::SetDevice, attributes);
        request.header.flags = NLM_F_REQUEST | NLM_F_ACK;
        let mut answers = self.handle.clone().request(request).await.map_err(|error| lift(error, &what))?;
        while let Some(answer) = answers.next().await {
            let answer = answer.map_err(|_| KernelError::Malformed("WireGuard peers"))?;
            if let NetlinkPayload::Error(error) = answer.payload
                && error.code.is_some()
            {
                return Err(KernelError::Refused { what: what(), source: error.to_io() });
            }
        }
        if self.driver.is_finished() { Err(KernelError::Closed) } else { Ok(()) }
    }
}

fn request(
    cmd: WireguardCmd,
    attributes: Vec<WireguardAttribute>,
) -> NetlinkMessage<GenlMessage<WireguardMessage>> {
    NetlinkMessage::from(GenlMessage::from_payload(WireguardMessage { cmd, attributes }))
}

fn peer_with(
    key: [u8; 32],
    flags: WireguardPeerFlags,
    allowed_ips: Vec<WireguardAllowedIp>,
) -> WireguardPeer {
    let mut attributes = vec![WireguardPeerAttribute::PublicKey(key), WireguardPeerAttribute::Flags(flags)];
    if !allowed_ips.is_empty() {
        attributes.push(WireguardPeerAttribute::AllowedIps(allowed_ips));
    }
    WireguardPeer(attributes)
}

/// Without a flag the attribute of flags is left out: older kernels refuse it.
fn allowed_ip(network: IpNet, flags: WireguardAllowedIpFlags) -> WireguardAllowedIp {
    let family = match network {
        IpNet::V4(_) => WireguardAddressFamily::Ipv4,
        IpNet::V6(_) => WireguardAddressFamily::Ipv6,
    };
    let mut attributes = vec![
        WireguardAllowedIpAttr::Family(family),
        WireguardAllowedIpAttr::IpAddr(network.network()),
        WireguardAllowedIpAttr::Cidr(network.prefix_len()),
    ];
    if !flags.is_empty() {
        attributes.push(WireguardAllowedIpAttr::Flags(flags));
    }
    WireguardAllowedIp(attributes)
}

/// Adds what one message says. A peer with many allowed IPs goes on in the next message, with its key alone.
fn take_in(tunnel: &mut Tunnel, attributes: Vec<WireguardAttribute>) {
    for attribute in attributes {
        let WireguardAttribute::Peers(peers) = attribute else { continue };
        for WireguardPeer(attributes) in peers {
            let key = attributes.iter().find_map(|attribute| match attribute {
                WireguardPeerAttribute::PublicKey(key) => Some(PeerKey(*key)),
                _ => None,
            });
            let Some(key) = key else { continue };
            let peer = tunnel.peers.entry(key).or_default();
            for attribute in &attributes {
                match attribute {
                    WireguardPeerAttribute::Endpoint(endpoint) => peer.endpoint = Some(endpoint.ip()),
                    WireguardPeerAttribute::AllowedIps(networks) => {
                        peer.allowed_ips.extend(networks.iter().filter_map(network));
                    }
                    _ => {}
                }
            }
        }
    }
}

fn network(allowed: &WireguardAllowedIp) -> Option<IpNet> {
    let (mut address, mut length): (Option<IpAddr>, _) = (None, None);
    for attribute in &allowed.0 {
        match attribute {
            WireguardAllowedIpAttr::IpAddr(found) => address = Some(*found),
            WireguardAllowedIpAttr::Cidr(found) => length = Some(*found),
            _ => {}
        }
    }
    IpNet::new(address?, length?).ok()
}

fn lift(error: GenetlinkError, what: impl Fn() -> String) -> KernelError {
    match error {
        GenetlinkError::NetlinkError(source) => KernelError::Refused { what: what(), source },
        GenetlinkError::DecodeError(_) => KernelError::Malformed("WireGuard"),
        _ => KernelError::Closed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_in_two_messages_is_one_peer() {
        let message = |networks: [&str; 2]| {
            let networks = networks
                .map(|network| allowed_ip(network.parse().unwrap(), WireguardAllowedIpFlags::empty()));
            vec![WireguardAttribute::Peers(vec![peer_with(
                [1; 32],
                WireguardPeerFlags::empty(),
                networks.into(),
            )])]
        };
        let mut tunnel = Tunnel::default();
        take_in(&mut tunnel, message(["10.42.1.0/24", "fd42:1::/64"]));
        take_in(&mut tunnel, message(["10.42.2.0/24", "fd42:2::/64"]));
        let found: Vec<String> =
            tunnel.peers[&PeerKey([1; 32])].allowed_ips.iter().map(ToString::to_string).collect();
        assert_eq!(found, ["10.42.1.0/24", "10.42.2.0/24", "fd42:1::/64", "fd42:2::/64"]);
    }
}
