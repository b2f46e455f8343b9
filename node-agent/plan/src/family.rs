//! The two families of the Internet Protocol. Most of a plan is the same for both; here is what the kernel keeps apart.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// A family of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// IPv4
    V4,
    /// IPv6
    V6,
}

/// The metric that the kernel gives an IPv6 route without one (`IP6_RT_PRIO_USER`).
const ROUTE_METRIC_V6: u32 = 1024;

impl Family {
    /// The family of an address.
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// The network of all its addresses.
    pub fn everywhere(self) -> IpNet {
        match self {
            Self::V4 => Ipv4Net::default().into(),
            Self::V6 => Ipv6Net::default().into(),
        }
    }

    /// Its last address.
    pub fn last(self) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::from_bits(u32::MAX).into(),
            Self::V6 => Ipv6Addr::from_bits(u128::MAX).into(),
        }
    }

    /// The metric of a route that asks for none.
    pub fn route_metric(self) -> u32 {
        match self {
            Self::V4 => 0,
            Self::V6 => ROUTE_METRIC_V6,
        }
    }

    /// Where packets go that are no host's traffic: neighbour discovery and multicast. They never take a VIP.
    pub(crate) fn unmarked(self) -> Vec<IpNet> {
        let wide = |first: u16, length| Ipv6Net::new(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0), length).ok();
        match self {
            Self::V4 => Vec::new(),
            Self::V6 => [wide(0xfe80, 10), wide(0xff00, 8)].into_iter().flatten().map(IpNet::V6).collect(),
        }
    }

    /// What `ip` wants to be told before a command that does not name an address of the family.
    pub(crate) fn flag(self) -> &'static str {
        match self {
            Self::V4 => "",
            Self::V6 => "-6 ",
        }
    }

    /// The word before `saddr` in nft.
    pub(crate) fn nft_word(self) -> &'static str {
        match self {
            Self::V4 => "ip",
            Self::V6 => "ip6",
        }
    }

    /// nft's words for a message that tells another router.
    pub(crate) fn nft_redirect(self) -> &'static str {
        match self {
            Self::V4 => "icmp type redirect",
            Self::V6 => "icmpv6 type nd-redirect",
        }
    }

    /// nft's type of an address.
    pub(crate) fn nft_type(self) -> &'static str {
        match self {
            Self::V4 => "ipv4_addr",
            Self::V6 => "ipv6_addr",
        }
    }
}

/// The network that holds exactly the addresses from `first` to `last`, if there is one.
pub(crate) fn network_between(first: IpAddr, last: IpAddr) -> Option<IpNet> {
    let length = match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) => (first.to_bits() ^ last.to_bits()).leading_zeros(),
        (IpAddr::V6(first), IpAddr::V6(last)) => (first.to_bits() ^ last.to_bits()).leading_zeros(),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => return None,
    };
    let network = IpNet::new(first, u8::try_from(length).ok()?).ok()?;
    (network.network() == first && network.broadcast() == last).then_some(network)
}
