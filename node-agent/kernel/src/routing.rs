//! The plan's addresses, routes and rules as rtnetlink messages, and the kernel's messages as the plan's.
//!
//! What carries our protocol or label is ours; everything else is at most looked at.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "the kernel's attributes are an open set: those we do not use are passed over"
)]

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::Ipv4Net;
use litek8s_plan::{Address, AddressKey, ForeignRule, Hop, LABEL_PREFIX, PROTOCOL, Route, RouteKey, Rule};
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, AddressScope};
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteNextHop, RouteProtocol, RouteScope,
    RouteType,
};
use rtnetlink::packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};

/// Interface names by number.
pub(crate) type Names = BTreeMap<u32, String>;

/// Our routing protocol in the crate's terms.
pub(crate) const OURS: RouteProtocol = RouteProtocol::Other(PROTOCOL);

/// An address of an interface.
pub(crate) enum FoundAddress {
    /// With our label.
    Ours(AddressKey, Address),
    /// Of somebody else, on that interface.
    Foreign(String, Ipv4Net),
}

pub(crate) fn read_address(message: &AddressMessage, names: &Names) -> Option<FoundAddress> {
    let interface = names.get(&message.header.index)?.clone();
    let mut local = None;
    let mut label = None;
    let mut no_prefix_route = false;
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(IpAddr::V4(address)) => local = Some(*address),
            AddressAttribute::Label(text) => label = Some(text.clone()),
            AddressAttribute::Flags(flags) => no_prefix_route = flags.contains(AddressFlags::Noprefixroute),
            _ => {}
        }
    }
    let address = Ipv4Net::new(local?, message.header.prefix_len).ok()?;
    Some(match label {
        Some(label) if label.starts_with(LABEL_PREFIX) => {
            FoundAddress::Ours(AddressKey { interface, address }, Address { label, no_prefix_route })
        }
        _ => FoundAddress::Foreign(interface, address),
    })
}

pub(crate) fn address_message(index: u32, key: &AddressKey, address: Option<&Address>) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.prefix_len = key.address.prefix_len();
    message.header.scope = AddressScope::Universe;
    message.header.index = index;
    let local = IpAddr::V4(key.address.addr());
    message.attributes.push(AddressAttribute::Local(local));
    message.attributes.push(AddressAttribute::Address(local));
    if let Some(address) = address {
        message.attributes.push(AddressAttribute::Label(address.label.clone()));
        if address.no_prefix_route {
            message.attributes.push(AddressAttribute::Flags(AddressFlags::Noprefixroute));
        }
    }
    message
}

/// A dump of our routes: with strict checking the kernel filters by protocol itself.
pub(crate) fn route_request() -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = AddressFamily::Inet;
    message.header.protocol = OURS;
    message
}

/// One of our routes; `None` when it is not ours.
pub(crate) fn read_route(message: &RouteMessage, names: &Names) -> Option<(RouteKey, Route)> {
    if message.header.protocol != OURS || message.header.address_family != AddressFamily::Inet {
        return None;
    }
    let mut table = u32::from(message.header.table);
    let (mut destination, mut metric) = (Ipv4Addr::UNSPECIFIED, 0);
    let (mut gateway, mut source, mut interface, mut hops) = (None, None, None, None);
    let mut plain = message.header.tos == 0;
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Priority(number) => metric = *number,
            RouteAttribute::Destination(RouteAddress::Inet(address)) => destination = *address,
            RouteAttribute::Gateway(RouteAddress::Inet(address)) => gateway = Some(*address),
            RouteAttribute::PrefSource(RouteAddress::Inet(address)) => source = Some(*address),
            RouteAttribute::Oif(index) => interface = names.get(index).cloned(),
            RouteAttribute::MultiPath(list) => {
                hops = list.iter().map(|hop| read_hop(hop, names)).collect::<Option<Vec<Hop>>>();
                plain &= hops.is_some();
            }
            RouteAttribute::Via(_) | RouteAttribute::NhId(_) => plain = false,
            _ => {}
        }
    }
    let destination = Ipv4Net::new(destination, message.header.destination_prefix_length).ok()?;
    let key = RouteKey { table, destination, metric };
    let route = match (message.header.kind, gateway, interface, source) {
        (RouteType::Unicast, None, Some(interface), Some(source)) if plain => {
            Some(Route::Link { interface, source })
        }
        (RouteType::Unicast, Some(gateway), Some(interface), source) if plain => {
            Route::through(vec![Hop { gateway, interface, weight: 1 }], source)
        }
        (RouteType::Unicast, None, None, source) if plain => Route::through(hops.unwrap_or_default(), source),
        (RouteType::Unreachable, ..) if plain => Some(Route::Unreachable),
        _ => None,
    };
    Some((key, route.unwrap_or(Route::Other)))
}

fn read_hop(hop: &RouteNextHop, names: &Names) -> Option<Hop> {
    let gateway = hop.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Gateway(RouteAddress::Inet(address)) => Some(*address),
        _ => None,
    })?;
    let interface = names.get(&hop.interface_index)?.clone();
    // The kernel counts from zero.
    Some(Hop { gateway, interface, weight: hop.hops.saturating_add(1) })
}

fn hop_message(hop: &Hop, indexes: &BTreeMap<String, u32>) -> Option<RouteNextHop> {
    let mut message = RouteNextHop::default();
    message.interface_index = *indexes.get(&hop.interface)?;
    message.hops = hop.weight.saturating_sub(1);
    message.attributes.push(RouteAttribute::Gateway(RouteAddress::Inet(hop.gateway)));
    Some(message)
}

/// The message that adds, replaces or deletes exactly this route. `None`: its interface is not there.
pub(crate) fn route_message(
    key: &RouteKey,
    route: &Route,
    indexes: &BTreeMap<String, u32>,
) -> Option<RouteMessage> {
    let mut message = RouteMessage::default();
    message.header.address_family = AddressFamily::Inet;
    message.header.destination_prefix_length = key.destination.prefix_len();
    message.header.protocol = OURS;
    message.header.scope = RouteScope::Universe;
    message.header.kind = RouteType::Unicast;
    match u8::try_from(key.table) {
        Ok(table) => message.header.table = table,
        Err(_) => {
            message.header.table = RouteHeader::RT_TABLE_UNSPEC;
            message.attributes.push(RouteAttribute::Table(key.table));
        }
    }
    let mut put = |attribute| message.attributes.push(attribute);
    if key.destination.prefix_len() > 0 {
        put(RouteAttribute::Destination(RouteAddress::Inet(key.destination.network())));
    }
    if key.metric > 0 {
        put(RouteAttribute::Priority(key.metric));
    }
    let source = match route {
        Route::Link { source, .. } => Some(source),
        Route::Via { gateway, source, .. } => {
            put(RouteAttribute::Gateway(RouteAddress::Inet(*gateway)));
            Some(source)
        }
        Route::Multipath { hops, source } => {
            let hops: Option<Vec<RouteNextHop>> = hops.iter().map(|hop| hop_message(hop, indexes)).collect();
            put(RouteAttribute::MultiPath(hops?));
            source.as_ref()
        }
        Route::Unreachable | Route::Other => None,
    };
    if let Some(source) = source {
        put(RouteAttribute::PrefSource(RouteAddress::Inet(*source)));
    }
    if let Some(interface) = route.interface() {
        put(RouteAttribute::Oif(*indexes.get(interface)?));
    }
    match route {
        Route::Link { .. } => message.header.scope = RouteScope::Link,
        Route::Unreachable => message.header.kind = RouteType::Unreachable,
        // Deleted whatever it is: by destination, metric, table and our protocol.
        Route::Other => {
            message.header.kind = RouteType::Unspec;
            message.header.scope = RouteScope::NoWhere;
        }
        Route::Via { .. } | Route::Multipath { .. } => {}
    }
    Some(message)
}

/// A rule that concerns us.
pub(crate) enum FoundRule {
    /// With our protocol, and nothing a plan does not make.
    Ours(Rule),
    /// Of somebody else; it looks at the packet mark.
    Foreign(ForeignRule),
}

pub(crate) fn rule_request() -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = AddressFamily::Inet;
    message
}

pub(crate) fn read_rule(message: &RuleMessage) -> Option<FoundRule> {
    let table = u32::from(message.header.table);
    let mut rule = Rule { priority: 0, mark: 0, mask: 0, from: None, to: None, table };
    let mut ours = false;
    // An interface or any action but a table is something no plan makes.
    let mut plain = message.header.action == RuleAction::ToTable;
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Table(table) => rule.table = *table,
            RuleAttribute::Priority(priority) => rule.priority = *priority,
            // The kernel leaves the mark out when it is zero.
            RuleAttribute::FwMark(mark) => rule.mark = *mark,
            RuleAttribute::FwMask(mask) => rule.mask = *mask,
            RuleAttribute::Source(IpAddr::V4(from)) => {
                rule.from = Ipv4Net::new(*from, message.header.src_len).ok();
            }
            RuleAttribute::Destination(IpAddr::V4(to)) => {
                rule.to = Ipv4Net::new(*to, message.header.dst_len).ok();
            }
            RuleAttribute::Protocol(protocol) => ours = *protocol == OURS,
            RuleAttribute::Iifname(_)
            | RuleAttribute::Oifname(_)
            | RuleAttribute::IpProtocol(_)
            | RuleAttribute::UidRange(_)
            | RuleAttribute::SourcePortRange(_)
            | RuleAttribute::DestinationPortRange(_) => plain = false,
            _ => {}
        }
    }
    if ours {
        return plain.then_some(FoundRule::Ours(rule));
    }
    let Rule { priority, mark, mask, table, .. } = rule;
    (mask != 0).then_some(FoundRule::Foreign(ForeignRule { priority, mark, mask, table }))
}

pub(crate) fn rule_message(rule: &Rule) -> RuleMessage {
    let mut message = rule_request();
    // Unspecified is accepted by the kernel and then fails every lookup that gets there.
    message.header.action = RuleAction::ToTable;
    match u8::try_from(rule.table) {
        Ok(table) => message.header.table = table,
        Err(_) => message.attributes.push(RuleAttribute::Table(rule.table)),
    }
    if let Some(from) = rule.from {
        message.header.src_len = from.prefix_len();
        message.attributes.push(RuleAttribute::Source(IpAddr::V4(from.network())));
    }
    if let Some(to) = rule.to {
        message.header.dst_len = to.prefix_len();
        message.attributes.push(RuleAttribute::Destination(IpAddr::V4(to.network())));
    }
    message.attributes.push(RuleAttribute::Priority(rule.priority));
    message.attributes.push(RuleAttribute::FwMark(rule.mark));
    message.attributes.push(RuleAttribute::FwMask(rule.mask));
    message.attributes.push(RuleAttribute::Protocol(OURS));
    message
}
