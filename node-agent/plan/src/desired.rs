//! What the kernel should hold of ours: addresses, routes, rules and the nftables table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::{AllowedIp, Family, PeerKey, nft};

/// What makes an address the same address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AddressKey {
    /// The interface.
    pub interface: String,
    /// The address with its prefix length.
    pub address: IpNet,
}

/// The rest of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// At most 15 characters, as the kernel's labels; only IPv4 has them. Not compared: any with our prefix is ours.
    pub label: Option<String>,
    /// Whether the kernel was told to make no route for the address's network.
    pub no_prefix_route: bool,
    /// For how many seconds it is, or is left, in force; `u32::MAX` is for ever. Not compared.
    pub seconds: u32,
}

/// What makes a route the same route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouteKey {
    /// The route table.
    pub table: u32,
    /// Where to.
    pub destination: IpNet,
    /// Lower wins.
    pub metric: u32,
}

/// Where a route leads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Route {
    /// Straight to the destination.
    Link {
        /// The interface.
        interface: String,
        /// The preferred source.
        source: IpAddr,
    },
    /// Through a router.
    Via {
        /// The router.
        gateway: IpAddr,
        /// The interface.
        interface: String,
        /// The preferred source.
        source: IpAddr,
    },
    /// Through several routers, each connection by one of them; or through one and without a preferred source.
    Multipath {
        /// The routers, sorted.
        hops: Vec<Hop>,
        /// The preferred source; without one the kernel takes the interface's own.
        source: Option<IpAddr>,
    },
    /// "No route to host".
    Unreachable,
    /// Ours by its protocol, and of a shape no plan makes.
    Other,
}

/// One router of several.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hop {
    /// The router.
    pub gateway: IpAddr,
    /// The interface.
    pub interface: String,
    /// Its share of the connections: 1 to 255.
    pub weight: u8,
}

impl Route {
    /// The route over these routers in the one form that such a route has; `None` without any.
    pub fn through(mut hops: Vec<Hop>, source: Option<IpAddr>) -> Option<Self> {
        hops.sort();
        match (hops.as_mut_slice(), source) {
            ([], _) => return None,
            ([only], Some(source)) => {
                let (gateway, interface) = (only.gateway, std::mem::take(&mut only.interface));
                return Some(Self::Via { gateway, interface, source });
            }
            // A router alone has no share.
            ([only], None) => only.weight = 1,
            _ => {}
        }
        Some(Self::Multipath { hops, source })
    }

    /// The interface packets leave by, when it is one.
    pub fn interface(&self) -> Option<&str> {
        match self {
            Self::Link { interface, .. } | Self::Via { interface, .. } => Some(interface),
            Self::Multipath { .. } | Self::Unreachable | Self::Other => None,
        }
    }

    /// Every interface packets may leave by.
    pub fn interfaces(&self) -> impl Iterator<Item = &str> {
        let hops = if let Self::Multipath { hops, .. } = self { hops.as_slice() } else { &[] };
        self.interface().into_iter().chain(hops.iter().map(|hop| hop.interface.as_str()))
    }
}

/// A rule that leads packets to a table: those with a VIP's mark, or those without one to a gateway's destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// Whose packets it is for.
    pub family: Family,
    /// Lower comes first.
    pub priority: u32,
    /// The packet mark, under the mask.
    pub mark: u32,
    /// The bits of the mark that count.
    pub mask: u32,
    /// Only packets from there.
    pub from: Option<IpNet>,
    /// Only packets to there.
    pub to: Option<IpNet>,
    /// The route table.
    pub table: u32,
}

/// All of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Desired {
    /// Addresses.
    pub addresses: BTreeMap<AddressKey, Address>,
    /// Routes.
    pub routes: BTreeMap<RouteKey, Route>,
    /// Rules.
    pub rules: BTreeSet<Rule>,
    /// Whether the lifetimes of addresses are renewed.
    pub renew: bool,
    /// What is added to the WireGuard interfaces of others, and to which of their peers.
    pub allowed_ips: BTreeMap<AllowedIp, PeerKey>,
    /// The nftables table; none when a node is to be left without a trace.
    pub nft: Option<nft::Table>,
}

impl AddressKey {
    /// The family of the address.
    pub fn family(&self) -> Family {
        Family::of(self.address.addr())
    }
}

impl RouteKey {
    /// The family of the route.
    pub fn family(&self) -> Family {
        Family::of(self.destination.addr())
    }
}

/// As `ip addr add` takes it, after the device. An IPv6 VIP is in force at once (`nodad`: whether somebody has it is
/// asked before), and is never the source of what the node itself begins (`preferred_lft 0`).
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.seconds;
        match &self.label {
            Some(label) => write!(f, " label {label} valid_lft {seconds} preferred_lft {seconds}")?,
            None => write!(f, " proto {} nodad valid_lft {seconds} preferred_lft 0", crate::PROTOCOL)?,
        }
        if self.no_prefix_route { f.write_str(" noprefixroute") } else { Ok(()) }
    }
}

impl fmt::Display for RouteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.destination.prefix_len() == 0 {
            f.write_str("default")
        } else {
            write!(f, "{}", self.destination)
        }
    }
}

/// As `ip route` writes it, without the destination, table and metric.
impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link { interface, source } => {
                write!(f, "dev {interface} proto {} scope link src {source}", crate::PROTOCOL)
            }
            Self::Via { gateway, interface, source } => {
                write!(f, "via {gateway} dev {interface} proto {} src {source}", crate::PROTOCOL)
            }
            Self::Multipath { source: Some(source), .. } => {
                write!(f, "proto {} src {source}", crate::PROTOCOL)
            }
            Self::Multipath { .. } | Self::Unreachable | Self::Other => {
                write!(f, "proto {}", crate::PROTOCOL)
            }
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.from {
            Some(from) => write!(f, "from {from}")?,
            None => f.write_str("from all")?,
        }
        if let Some(to) = self.to {
            write!(f, " to {to}")?;
        }
        // A mark of zero is written without its prefix, as ip does.
        match self.mark {
            0 => write!(f, " fwmark 0/{:#x}", self.mask)?,
            mark => write!(f, " fwmark {mark:#x}/{:#x}", self.mask)?,
        }
        write!(f, " lookup {} proto {}", self.table, crate::PROTOCOL)
    }
}

/// The routers of a multipath route, which `ip route` wants at the end of the line.
pub(crate) fn next_hops(route: &Route) -> String {
    let Route::Multipath { hops, .. } = route else { return String::new() };
    hops.iter()
        .map(|hop| format!(" nexthop via {} dev {} weight {}", hop.gateway, hop.interface, hop.weight))
        .collect()
}

/// One route as `ip route` writes it in its table, without its next hops.
pub(crate) fn route_line(key: &RouteKey, route: &Route) -> String {
    let kind = if *route == Route::Unreachable { "unreachable " } else { "" };
    let metric = if key.metric == key.family().route_metric() {
        String::new()
    } else {
        format!(" metric {}", key.metric)
    };
    format!("{kind}{key} {route}{metric}")
}

/// The whole state in the words of `ip` and `nft`, for golden files and for `diff` between nodes.
impl fmt::Display for Desired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "ip rule:")?;
        let mut family = Family::V4;
        for rule in &self.rules {
            if rule.family != family {
                family = rule.family;
                writeln!(f, "ip {}rule:", family.flag())?;
            }
            writeln!(f, "{}: {rule}", rule.priority)?;
        }
        let mut table = None;
        for (key, route) in &self.routes {
            if table != Some(key.table) {
                table = Some(key.table);
                writeln!(f, "table {}:", key.table)?;
            }
            writeln!(f, "{}{}", route_line(key, route), next_hops(route))?;
        }
        for (key, peer) in &self.allowed_ips {
            writeln!(f, "wg {} peer {peer} allowed-ips {}", key.interface, key.network)?;
        }
        let mut interface = None;
        for (key, address) in &self.addresses {
            if interface != Some(&key.interface) {
                interface = Some(&key.interface);
                writeln!(f, "addr {}:", key.interface)?;
            }
            let flags = if address.no_prefix_route { "noprefixroute " } else { "" };
            match &address.label {
                Some(label) => writeln!(f, "inet {} scope global {flags}{label}", key.address)?,
                None => {
                    let proto = crate::PROTOCOL;
                    writeln!(f, "inet6 {} scope global nodad deprecated {flags}proto {proto}", key.address)?;
                }
            }
        }
        match &self.nft {
            Some(table) => write!(f, "{table}"),
            None => Ok(()),
        }
    }
}
