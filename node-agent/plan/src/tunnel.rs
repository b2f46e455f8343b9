//! WireGuard interfaces of others, as far as a plan must know of them. A packet that leaves by one goes to the peer that
//! has its destination among its allowed IPs, whatever the route says (cryptokey routing), or nowhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// The public key of a peer; written in base64, as `wg` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PeerKey(pub [u8; 32]);

/// A WireGuard interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tunnel {
    /// The kernel's number for it: one that is made anew has another.
    pub index: u32,
    /// Its peers.
    pub peers: BTreeMap<PeerKey, Peer>,
}

/// A peer of a WireGuard interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Peer {
    /// Where its packets go, once that is known.
    pub endpoint: Option<IpAddr>,
    /// The networks that are its own; the kernel gives each to one peer of an interface at most.
    pub allowed_ips: BTreeSet<IpNet>,
}

/// What makes an allowed IP of ours the same one: an interface has it once, at one peer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AllowedIp {
    /// The WireGuard interface.
    pub interface: String,
    /// The network.
    pub network: IpNet,
}

impl Tunnel {
    /// The peer that packets to all of this network go to: that with the narrowest network around it.
    pub fn peer_of(&self, network: IpNet) -> Option<PeerKey> {
        let around = |(key, peer): (&PeerKey, &Peer)| {
            let all = peer.allowed_ips.iter().filter(|allowed| allowed.contains(&network));
            all.map(IpNet::prefix_len).max().map(|length| (length, *key))
        };
        self.peers.iter().filter_map(around).max_by_key(|(length, _)| *length).map(|(_, key)| key)
    }

    /// The peer that has exactly this network.
    pub fn holder(&self, network: IpNet) -> Option<PeerKey> {
        self.peers.iter().find(|(_, peer)| peer.allowed_ips.contains(&network)).map(|(key, _)| *key)
    }

    /// A peer's endpoint inside this network: packets of the tunnel itself would go there.
    pub fn endpoint_in(&self, network: IpNet) -> Option<IpAddr> {
        self.peers.values().filter_map(|peer| peer.endpoint).find(|endpoint| network.contains(endpoint))
    }
}

impl fmt::Display for PeerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl FromStr for PeerKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bytes = STANDARD.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| format!("{text} is no WireGuard key: 32 bytes in base64"))
    }
}

impl TryFrom<String> for PeerKey {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<PeerKey> for String {
    fn from(key: PeerKey) -> Self {
        key.to_string()
    }
}

impl fmt::Display for AllowedIp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.interface, self.network)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_written_as_wg_writes_it() {
        let text = "HIgo9xNzJMWLKASShiTqIybxZ0U3wGLiUeJ1PKf8ykw=";
        let key: PeerKey = text.parse().unwrap();
        assert_eq!((key.0[0], key.to_string().as_str()), (0x1c, text));
        assert!("HIgo9xNzJMWLKASShiTqIybxZ0U3wGLiUeJ1PKf8ykw".parse::<PeerKey>().is_err());
    }

    #[test]
    fn a_packet_goes_to_the_peer_with_the_narrowest_network_around_its_destination() {
        let peer = |networks: &[&str]| Peer {
            endpoint: None,
            allowed_ips: networks.iter().map(|network| network.parse().unwrap()).collect(),
        };
        let [wide, narrow] = [PeerKey([1; 32]), PeerKey([2; 32])];
        let peers = [(wide, peer(&["0.0.0.0/0"])), (narrow, peer(&["10.42.1.0/24", "172.30.0.0/24"]))];
        let tunnel = Tunnel { index: 7, peers: peers.into() };
        let of = |network: &str| tunnel.peer_of(network.parse().unwrap());
        assert_eq!(of("10.42.1.5/32"), Some(narrow));
        assert_eq!(of("10.42.2.5/32"), Some(wide));
        assert_eq!(of("172.30.0.0/16"), Some(wide), "a part of it does not decide for all of it");
        assert_eq!(of("fd00::/8"), None);
        assert_eq!(tunnel.holder("172.30.0.0/24".parse().unwrap()), Some(narrow));
        assert_eq!(tunnel.holder("172.30.0.0/16".parse().unwrap()), None);
    }
}
