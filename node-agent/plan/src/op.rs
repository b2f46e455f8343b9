//! The changes a plan asks for. Their text is what a dry run prints and what logs say.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::desired::{next_hops, route_line};
use crate::nft::Change;
use crate::{Address, AddressKey, AllowedIp, PROTOCOL, PeerKey, Route, RouteKey, Rule};

/// Which tracked connections are to be forgotten.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flow {
    /// All to that address and all that leave with it as their source.
    Address(IpAddr),
    /// All a pod began that leave with `source`.
    PodSource {
        /// The pod.
        pod: IpAddr,
        /// The source they leave with.
        source: IpAddr,
    },
    /// All a pod began towards `networks`, neither sent to nor answered from inside `except`, that leave with another
    /// source than those kept.
    Pod {
        /// The pod.
        pod: IpAddr,
        /// Where to.
        networks: Vec<IpNet>,
        /// The cluster's networks, whose connections have no VIP. An address outside may be translated to one inside.
        except: Vec<IpNet>,
        /// The sources that are right.
        keep: BTreeSet<IpAddr>,
    },
}

/// One change of the kernel's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Lets the next address of a subnet take over when the first one is deleted.
    PromoteSecondaries(String),
    /// One nftables transaction: all of it or nothing.
    Nft(Vec<Change>),
    /// Forgets connections, so that their next packet is judged anew.
    Forget(Flow),
    /// Adds an address.
    AddAddress(AddressKey, Address),
    /// Gives an address that is there another lifetime.
    RenewAddress(AddressKey, Address),
    /// Deletes an address.
    DeleteAddress(AddressKey),
    /// Adds a route; one of somebody else in its place is an error.
    AddRoute(RouteKey, Route),
    /// Replaces a route of ours.
    ReplaceRoute(RouteKey, Route),
    /// Deletes exactly this route.
    DeleteRoute(RouteKey, Route),
    /// Adds a rule.
    AddRule(Rule),
    /// Deletes a rule.
    DeleteRule(Rule),
    /// Gives a peer one allowed IP more, and takes it from the peer that has it.
    AddAllowedIp(AllowedIp, PeerKey),
    /// Takes one allowed IP from a peer.
    RemoveAllowedIp(AllowedIp, PeerKey),
    /// Tells the neighbours where these addresses are now.
    Announce {
        /// The interface.
        interface: String,
        /// The addresses.
        addresses: Vec<IpAddr>,
    },
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PromoteSecondaries(interface) => {
                write!(f, "sysctl net.ipv4.conf.{interface}.promote_secondaries=1")
            }
            Self::Nft(changes) => {
                f.write_str("nft -f -")?;
                changes.iter().try_for_each(|change| write!(f, "\n  {change}"))
            }
            Self::Forget(flow) => write!(f, "conntrack -D {flow}"),
            Self::AddAddress(key, address) => {
                write!(f, "ip addr add {} dev {}{address}", key.address, key.interface)
            }
            Self::RenewAddress(key, address) => {
                write!(f, "ip addr change {} dev {}{address}", key.address, key.interface)
            }
            Self::DeleteAddress(key) => {
                write!(f, "ip addr del {} dev {} # ours", key.address, key.interface)
            }
            Self::AddRoute(key, route) => write_route(f, "add", key, route),
            Self::ReplaceRoute(key, route) => write_route(f, "replace", key, route),
            Self::DeleteRoute(key, route) => write_route(f, "del", key, route),
            Self::AddRule(rule) => write!(f, "ip {}rule add {}", rule.family.flag(), rule_words(rule)),
            Self::DeleteRule(rule) => write!(f, "ip {}rule del {}", rule.family.flag(), rule_words(rule)),
            Self::AddAllowedIp(key, peer) => {
                write!(f, "wg set {} peer {peer} allowed-ips +{}", key.interface, key.network)
            }
            Self::RemoveAllowedIp(key, peer) => {
                write!(f, "wg set {} peer {peer} allowed-ips -{}", key.interface, key.network)
            }
            Self::Announce { interface, addresses } => {
                let list: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
                write!(f, "announce {} dev {interface}", list.join(" "))
            }
        }
    }
}

fn write_route(f: &mut fmt::Formatter<'_>, verb: &str, key: &RouteKey, route: &Route) -> fmt::Result {
    write!(
        f,
        "ip {}route {verb} {} table {}{}",
        key.family().flag(),
        route_line(key, route),
        key.table,
        next_hops(route)
    )
}

fn rule_words(rule: &Rule) -> String {
    let from = rule.from.map(|from| format!("from {from} ")).unwrap_or_default();
    let to = rule.to.map(|to| format!("to {to} ")).unwrap_or_default();
    format!(
        "{from}{to}fwmark {:#x}/{:#x} table {} priority {} protocol {PROTOCOL}",
        rule.mark, rule.mask, rule.table, rule.priority
    )
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |nets: &[IpNet]| nets.iter().map(IpNet::to_string).collect::<Vec<_>>().join(",");
        match self {
            Self::Address(address) => write!(f, "--orig-dst {address}; conntrack -D --reply-dst {address}"),
            Self::PodSource { pod, source } => write!(f, "--orig-src {pod} --reply-dst {source}"),
            Self::Pod { pod, networks, except, keep } => {
                let keep: Vec<String> = keep.iter().map(IpAddr::to_string).collect();
                write!(f, "--orig-src {pod} --orig-dst {}", list(networks))?;
                write!(f, " # not to {}, not from {}", list(except), keep.join(","))
            }
        }
    }
}
