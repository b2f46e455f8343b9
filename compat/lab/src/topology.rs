//! What a cluster's network looks like: members, cables, addresses, routes. Only describes; builds nothing.
//!
//! ```text
//!            lan (two bridges, no addresses)
//!            br-lan 192.0.2.0/24      br-public 203.0.113.0/24
//!                   fd00:192::/64               2001:db8:113::/64
//!   server ── eth0 .250
//!   node-i ── eth0 .i ──┘                └── eth1 of node-i (no address but VIPs)
//!                                            cni0 10.42.i.1/24, fd42:0:0:i::1/64
//!  outside ── eth0 .254 (the nodes' default route) and eth1 .254,
//!             far client 198.51.100.1 and 2001:db8:51::1 on lo
//! ```
//!
//! In IPv6 everybody has the same last number, after `::`. A machine without IPv6 builds the IPv4 half.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::ClusterName;

/// The most nodes one cluster can have: their number is the last byte of their address, below the server's.
pub(crate) const MOST_NODES: u8 = 64;
/// Where the server listens on the LAN.
pub(crate) const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 250);
/// The router of both segments.
const ROUTER: u8 = 254;
const ROUTER_LAN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, ROUTER);
const ROUTER_PUBLIC: Ipv4Addr = Ipv4Addr::new(203, 0, 113, ROUTER);
/// A client that is on neither segment.
pub(crate) const FAR_CLIENT: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
const FAR_CLIENT_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x51, 0, 0, 0, 0, 1);
/// The prefix length of both segments and of every pod bridge.
const PREFIX: u8 = 24;
const PREFIX_V6: u8 = 64;

/// One network namespace of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Member {
    /// Holds the bridges that join the others.
    Lan,
    /// The API server's machine.
    Server,
    /// The router, and the internet behind it.
    Outside,
    /// A node, counted from one.
    Node(u8),
    /// A pod: a namespace behind the bridge of a node.
    Pod(String),
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lan => f.write_str("lan"),
            Self::Server => f.write_str("server"),
            Self::Outside => f.write_str("outside"),
            Self::Node(number) => write!(f, "node-{number}"),
            Self::Pod(name) => write!(f, "pod-{name}"),
        }
    }
}

impl FromStr for Member {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let node =
            |number: &str| number.parse().ok().filter(|n| (1..=MOST_NODES).contains(n)).map(Self::Node);
        let pod = |name: &str| (!name.is_empty() && !name.contains('/')).then(|| Self::Pod(name.to_owned()));
        match text {
            "lan" => Some(Self::Lan),
            "server" => Some(Self::Server),
            "outside" => Some(Self::Outside),
            _ => {
                text.strip_prefix("node-").and_then(node).or_else(|| text.strip_prefix("pod-").and_then(pod))
            }
        }
        .ok_or_else(|| format!("{text}: not node-1, node-2, …, outside, server, lan or pod-NAME"))
    }
}

/// A layer-2 segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segment {
    /// Where nodes and the server talk to each other.
    Lan,
    /// Where virtual IPs are announced.
    Public,
}

impl Segment {
    /// Its bridge in `lan`.
    pub fn bridge(self) -> &'static str {
        match self {
            Self::Lan => "br-lan",
            Self::Public => "br-public",
        }
    }

    /// The device that joins it, in every namespace that does.
    pub fn device(self) -> &'static str {
        match self {
            Self::Lan => "eth0",
            Self::Public => "eth1",
        }
    }

    fn port_prefix(self) -> &'static str {
        match self {
            Self::Lan => "lan-",
            Self::Public => "pub-",
        }
    }
}

/// A veth pair from a member to a bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cable {
    /// Who is plugged in.
    pub member: Member,
    /// What the cable leads to.
    pub segment: Segment,
}

impl Cable {
    /// The end at the bridge, in `lan`.
    pub fn port(&self) -> String {
        format!("{}{}", self.segment.port_prefix(), self.member)
    }
}

/// An address on a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// The device.
    pub device: &'static str,
    /// Its address and prefix.
    pub address: IpNet,
}

/// The whole network of one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    name: ClusterName,
    nodes: u8,
}

impl Topology {
    /// A cluster of so many nodes.
    pub fn new(name: ClusterName, nodes: u8) -> Self {
        Self { name, nodes }
    }

    /// The cluster's name.
    pub fn name(&self) -> &ClusterName {
        &self.name
    }

    /// The nodes, in order.
    pub fn nodes(&self) -> impl Iterator<Item = Member> + use<> {
        (1..=self.nodes).map(Member::Node)
    }

    /// Every member but pods, in the order they are made: what others hang on comes first.
    pub fn members(&self) -> Vec<Member> {
        [Member::Lan, Member::Outside, Member::Server].into_iter().chain(self.nodes()).collect()
    }

    /// The name of a member's network namespace.
    pub fn namespace(&self, member: &Member) -> String {
        format!("{}{member}", namespace_prefix(&self.name))
    }

    /// Every cable.
    pub fn cables(&self) -> Vec<Cable> {
        let both = |member: Member| {
            [Segment::Lan, Segment::Public].map(|segment| Cable { member: member.clone(), segment })
        };
        let server = Cable { member: Member::Server, segment: Segment::Lan };
        both(Member::Outside).into_iter().chain([server]).chain(self.nodes().flat_map(both)).collect()
    }

    /// The bridges inside a member.
    pub fn bridges(&self, member: &Member) -> &'static [&'static str] {
        match member {
            Member::Lan => &["br-lan", "br-public"],
            Member::Node(_) => &["cni0"],
            Member::Server | Member::Outside | Member::Pod(_) => &[],
        }
    }

    /// The addresses a member starts with.
    pub fn addresses(&self, member: &Member) -> Vec<Interface> {
        match member {
            Member::Lan | Member::Pod(_) => Vec::new(),
            Member::Server => {
                vec![interface("eth0", SERVER, PREFIX), long("eth0", lan_v6(SERVER.octets()[3]))]
            }
            Member::Outside => vec![
                interface("eth0", ROUTER_LAN, PREFIX),
                interface("eth1", ROUTER_PUBLIC, PREFIX),
                interface("lo", FAR_CLIENT, 32),
                long("eth0", lan_v6(ROUTER)),
                long("eth1", Ipv6Addr::new(0x2001, 0xdb8, 0x113, 0, 0, 0, 0, last(ROUTER))),
                Interface { device: "lo", address: IpNet::from(IpAddr::V6(FAR_CLIENT_V6)) },
            ],
            Member::Node(number) => vec![
                interface("eth0", node_address(*number), PREFIX),
                interface("cni0", pod_gateway(*number), PREFIX),
                long("eth0", lan_v6(*number)),
                long("cni0", pod_v6(*number, 1)),
            ],
        }
    }

    /// A member's default routes: gateway and device, one for each family.
    pub fn default_routes(&self, member: &Member) -> Vec<(IpAddr, &'static str)> {
        match member {
            Member::Server | Member::Node(_) => {
                vec![(ROUTER_LAN.into(), "eth0"), (lan_v6(ROUTER).into(), "eth0")]
            }
            Member::Lan | Member::Outside | Member::Pod(_) => Vec::new(),
        }
    }

    /// The sysctls a member starts with. A namespace takes some of the host's settings; these are said, not inherited.
    pub fn sysctls(&self, member: &Member) -> &'static [(&'static str, &'static str)] {
        match member {
            Member::Node(_) | Member::Outside => &[
                ("net/ipv4/ip_forward", "1"),
                ("net/ipv4/conf/all/rp_filter", "0"),
                ("net/ipv4/conf/default/rp_filter", "2"),
                ("net/ipv4/conf/all/arp_ignore", "0"),
                ("net/ipv4/conf/default/arp_ignore", "0"),
                ("net/ipv6/conf/all/disable_ipv6", "0"),
                ("net/ipv6/conf/default/disable_ipv6", "0"),
                ("net/ipv6/conf/all/forwarding", "1"),
            ],
            Member::Server | Member::Pod(_) => {
                &[("net/ipv6/conf/all/disable_ipv6", "0"), ("net/ipv6/conf/default/disable_ipv6", "0")]
            }
            Member::Lan => &[],
        }
    }
}

/// What every namespace of a cluster, and nothing else, begins with.
pub(crate) fn namespace_prefix(name: &ClusterName) -> String {
    format!("litek8s-{name}-")
}

/// A node's address on the LAN.
pub(crate) fn node_address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, number)
}

/// A node's addresses on the LAN.
pub(crate) fn node_addresses(number: u8) -> [IpAddr; 2] {
    [node_address(number).into(), lan_v6(number).into()]
}

/// The address of a node's pod bridge.
pub(crate) fn pod_gateway(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 42, number, 1)
}

/// The n-th pod's address behind a node, counted from zero.
pub(crate) fn pod_address(node: u8, index: u8) -> Option<Ipv4Net> {
    let last = index.checked_add(2).filter(|last| *last < u8::MAX)?;
    Ipv4Net::new(Ipv4Addr::new(10, 42, node, last), PREFIX).ok()
}

/// The address of a node's pod bridge and those of its pods, of IPv6.
pub(crate) fn pod_v6(node: u8, number: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xfd42, 0, 0, node.into(), 0, 0, 0, last(number))
}

fn lan_v6(number: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, last(192), 0, 0, 0, 0, 0, last(number))
}

/// The group of an IPv6 address that looks like a number of IPv4: 254 is `:254`.
fn last(number: u8) -> u16 {
    let number = u16::from(number);
    number / 100 * 0x100 + number / 10 % 10 * 0x10 + number % 10
}

/// An address in a network of 64 bits.
pub(crate) fn within(address: Ipv6Addr) -> IpNet {
    Ipv6Net::new(address, PREFIX_V6).unwrap_or_else(|_| Ipv6Net::from(address)).into()
}

fn long(device: &'static str, address: Ipv6Addr) -> Interface {
    Interface { device, address: within(address) }
}

fn interface(device: &'static str, address: Ipv4Addr, prefix: u8) -> Interface {
    let address = Ipv4Net::new(address, prefix).unwrap_or_else(|_| Ipv4Net::from(address));
    Interface { device, address: IpNet::V4(address) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology(nodes: u8) -> Topology {
        Topology::new("demo".parse().unwrap(), nodes)
    }

    #[test]
    fn every_address_is_given_once() {
        let topology = topology(MOST_NODES);
        let mut seen = std::collections::BTreeSet::new();
        for member in topology.members() {
            for interface in topology.addresses(&member) {
                assert!(seen.insert(interface.address.addr()), "{member}: {interface:?} is taken");
            }
        }
    }

    #[test]
    fn addresses_of_ipv6_end_like_those_of_ipv4() {
        assert_eq!(lan_v6(254).to_string(), "fd00:192::254");
        assert_eq!(node_addresses(12).map(|address| address.to_string()), ["192.0.2.12", "fd00:192::12"]);
    }

    #[test]
    fn every_port_is_a_name_the_kernel_takes() {
        for cable in topology(MOST_NODES).cables() {
            assert!(cable.port().len() < 16, "{}", cable.port());
        }
    }

    #[test]
    fn a_member_reads_back_as_it_prints() {
        let mut members = topology(3).members();
        members.push(Member::Pod("web".to_owned()));
        for member in members {
            assert_eq!(member.to_string().parse::<Member>().unwrap(), member);
        }
        for bad in ["node-0", "node-65", "node-x", "pod-", "pod-a/b", "router", ""] {
            assert!(bad.parse::<Member>().is_err(), "{bad}");
        }
    }
}
