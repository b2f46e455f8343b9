//! What the kernel should hold of ours: addresses, routes, rules and the nftables table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use crate::nft;

/// What makes an address the same address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AddressKey {
    /// The interface.
    pub interface: String,
    /// The address with its prefix length.
    pub address: Ipv4Net,
}

/// The rest of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// At most 15 characters, as the kernel's labels. Not compared: any label with our prefix is ours.
    pub label: String,
    /// Whether the kernel was told to make no route for the address's network.
    pub no_prefix_route: bool,
}

/// What makes a route the same route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouteKey {
    /// The route table.
    pub table: u32,
    /// Where to.
    pub destination: Ipv4Net,
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
        source: Ipv4Addr,
    },
    /// Through a router.
    Via {
        /// The router.
        gateway: Ipv4Addr,
        /// The interface.
        interface: String,
        /// The preferred source.
        source: Ipv4Addr,
    },
    /// "No route to host".
    Unreachable,
    /// Ours by its protocol, and of a shape no plan makes.
    Other,
}

impl Route {
    /// The interface packets leave by.
    pub fn interface(&self) -> Option<&str> {
        match self {
            Self::Link { interface, .. } | Self::Via { interface, .. } => Some(interface),
            Self::Unreachable | Self::Other => None,
        }
    }
}

/// A rule that leads marked packets to a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// Lower comes first.
    pub priority: u32,
    /// The packet mark, under the mask.
    pub mark: u32,
    /// The bits of the mark that count.
    pub mask: u32,
    /// Only packets to there.
    pub to: Option<Ipv4Net>,
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
    /// The nftables table; none when a node is to be left without a trace.
    pub nft: Option<nft::Table>,
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
            Self::Unreachable | Self::Other => write!(f, "proto {}", crate::PROTOCOL),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("from all")?;
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

/// One route as `ip route` writes it in its table.
pub(crate) fn route_line(key: &RouteKey, route: &Route) -> String {
    let kind = if *route == Route::Unreachable { "unreachable " } else { "" };
    let metric = if key.metric == 0 { String::new() } else { format!(" metric {}", key.metric) };
    format!("{kind}{key} {route}{metric}")
}

/// The whole state in the words of `ip` and `nft`, for golden files and for `diff` between nodes.
impl fmt::Display for Desired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "ip rule:")?;
        for rule in &self.rules {
            writeln!(f, "{}: {rule}", rule.priority)?;
        }
        let mut table = None;
        for (key, route) in &self.routes {
            if table != Some(key.table) {
                table = Some(key.table);
                writeln!(f, "table {}:", key.table)?;
            }
            writeln!(f, "{}", route_line(key, route))?;
        }
        let mut interface = None;
        for (key, address) in &self.addresses {
            if interface != Some(&key.interface) {
                interface = Some(&key.interface);
                writeln!(f, "addr {}:", key.interface)?;
            }
            let flags = if address.no_prefix_route { "noprefixroute " } else { "" };
            writeln!(f, "inet {} scope global {flags}{}", key.address, address.label)?;
        }
        match &self.nft {
            Some(table) => write!(f, "{table}"),
            None => Ok(()),
        }
    }
}
