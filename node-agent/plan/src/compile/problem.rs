//! What stands against a VIP on this node, in words its owner can act on.

use std::fmt;
use std::net::IpAddr;

use crate::compile::{MAIN_RULE, RESERVED_TABLES};
use crate::{Contest, Facts, Family, IPVS_INTERFACE, Mac, Vip};

/// Why a VIP is refused, or in what it falls short.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    /// The mark is zero or has bits outside the mask.
    MarkOutsideMask(u32, u32),
    /// The kernel uses that table itself.
    ReservedTable(u32),
    /// Zero stands beside the local table; from 32766 on the main table comes first.
    PriorityOutOfRange(u32),
    /// The gateway is not in the VIP's network.
    GatewayOutsideNetwork(IpAddr),
    /// Sources beyond the network need a gateway.
    NoGateway,
    /// Another VIP of this node has the same address, mark, table or priority.
    Duplicate(&'static str, String),
    /// The address is on an interface and is not ours.
    AddressConflict(String),
    /// Whether anybody on the network has the address is being asked.
    Probing,
    /// That hardware address has it, on the network of that interface.
    HeldElsewhere(Mac, String),
    /// That hardware address says so too, while the VIP is in place.
    ClaimedElsewhere(Mac, String),
    /// The kernel would not take it.
    Failed(String),
    /// The interface does not exist.
    InterfaceMissing(String),
    /// The interface is down.
    InterfaceDown(String),
    /// The reverse path filter is strict: requests from beyond the VIP's network are dropped.
    RpFilterStrict(String),
}

impl Problem {
    /// Whether nothing of the VIP is programmed.
    pub fn refuses(&self) -> bool {
        match self {
            Self::InterfaceMissing(_)
            | Self::InterfaceDown(_)
            | Self::RpFilterStrict(_)
            | Self::ClaimedElsewhere(..) => false,
            Self::MarkOutsideMask(..)
            | Self::ReservedTable(_)
            | Self::PriorityOutOfRange(_)
            | Self::GatewayOutsideNetwork(_)
            | Self::NoGateway
            | Self::Duplicate(..)
            | Self::AddressConflict(_)
            | Self::Probing
            | Self::HeldElsewhere(..)
            | Self::Failed(_) => true,
        }
    }

    /// The reason of a condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::MarkOutsideMask(..) => "MarkOutsideMask",
            Self::ReservedTable(_) => "ReservedTable",
            Self::PriorityOutOfRange(_) => "PriorityOutOfRange",
            Self::GatewayOutsideNetwork(_) => "GatewayOutsideNetwork",
            Self::NoGateway => "NoGateway",
            Self::Duplicate(..) => "Duplicate",
            Self::AddressConflict(_) | Self::HeldElsewhere(..) | Self::ClaimedElsewhere(..) => {
                "AddressConflict"
            }
            Self::Probing => "Probing",
            Self::Failed(_) => "KernelRefused",
            Self::InterfaceMissing(_) => "InterfaceMissing",
            Self::InterfaceDown(_) => "InterfaceDown",
            Self::RpFilterStrict(_) => "RpFilterStrict",
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MarkOutsideMask(mark, mask) => {
                write!(f, "mark {mark:#x} is not a part of the mask {mask:#x}")
            }
            Self::ReservedTable(table) => write!(f, "route table {table} is the kernel's own"),
            Self::PriorityOutOfRange(priority) => {
                write!(f, "rule priority {priority} is not between 1 and {}", MAIN_RULE - 1)
            }
            Self::GatewayOutsideNetwork(gateway) => {
                write!(f, "gateway {gateway} is not in the VIP's network")
            }
            Self::NoGateway => f.write_str("source networks need a gateway"),
            Self::Duplicate(what, other) => write!(f, "{other} has the same {what} on this node"),
            Self::AddressConflict(interface) => {
                write!(f, "the address is on {interface} already and was not put there for a VIP")
            }
            Self::Probing => f.write_str("the network is being asked whether anybody has the address"),
            Self::HeldElsewhere(mac, interface) => {
                write!(f, "{} has the address on the network of {interface}", mac_text(*mac))
            }
            Self::ClaimedElsewhere(mac, interface) => {
                write!(
                    f,
                    "{} says that it has the address too, on the network of {interface}",
                    mac_text(*mac)
                )
            }
            Self::Failed(error) => f.write_str(error),
            Self::InterfaceMissing(name) => write!(f, "there is no interface {name}"),
            Self::InterfaceDown(name) => write!(f, "interface {name} is down"),
            Self::RpFilterStrict(name) => {
                write!(
                    f,
                    "rp_filter is 1 on {name}: clients beyond the VIP's network are dropped; set it to 2 or 0"
                )
            }
        }
    }
}

/// A hardware address as `ip link` writes it.
pub fn mac_text(mac: Mac) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// All that stands against `vip`, given the VIPs accepted before it.
pub(super) fn problems<'a>(
    facts: &Facts,
    vip: &Vip,
    accepted: impl Iterator<Item = &'a Vip>,
) -> Vec<Problem> {
    let mut found = Vec::new();
    if vip.mark == 0 || vip.mark & !facts.mask != 0 {
        found.push(Problem::MarkOutsideMask(vip.mark, facts.mask));
    }
    if RESERVED_TABLES.contains(&vip.table) {
        found.push(Problem::ReservedTable(vip.table));
    }
    if vip.priority == 0 || vip.priority >= MAIN_RULE {
        found.push(Problem::PriorityOutOfRange(vip.priority));
    }
    match vip.gateway {
        Some(gateway) if !vip.virtual_cidr.contains(&gateway) || gateway == vip.address() => {
            found.push(Problem::GatewayOutsideNetwork(gateway));
        }
        None if !vip.source_cidrs.is_empty() => found.push(Problem::NoGateway),
        Some(_) | None => {}
    }
    for other in accepted {
        let same = [
            ("address", vip.address() == other.address()),
            ("mark", vip.mark == other.mark),
            ("route table", vip.table == other.table),
            ("priority", vip.priority == other.priority),
        ];
        found.extend(
            same.iter()
                .filter(|(_, same)| *same)
                .map(|(what, _)| Problem::Duplicate(what, other.name.clone())),
        );
    }
    for (name, interface) in facts.interfaces.iter().filter(|(name, _)| *name != IPVS_INTERFACE) {
        if interface.foreign.iter().any(|network| network.addr() == vip.address()) {
            found.push(Problem::AddressConflict(name.clone()));
        }
    }
    match facts.contested.get(&vip.name) {
        Some(Contest::Asking) => found.push(Problem::Probing),
        Some(Contest::Held(mac)) => found.push(Problem::HeldElsewhere(*mac, vip.interface.clone())),
        Some(Contest::Claimed(mac)) => found.push(Problem::ClaimedElsewhere(*mac, vip.interface.clone())),
        None => {}
    }
    if let Some(error) = facts.excluded.get(&vip.name) {
        found.push(Problem::Failed(error.clone()));
    }
    match facts.interfaces.get(&vip.interface) {
        None => found.push(Problem::InterfaceMissing(vip.interface.clone())),
        Some(interface) if !interface.up => found.push(Problem::InterfaceDown(vip.interface.clone())),
        Some(interface) if interface.rp_filter == 1 && vip.family() == Family::V4 => {
            found.push(Problem::RpFilterStrict(vip.interface.clone()));
        }
        Some(_) => {}
    }
    found
}
