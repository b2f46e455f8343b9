//! The plan's addresses, routes and rules as rtnetlink messages, and the kernel's messages as the plan's.
//!
//! What carries our protocol or label is ours; everything else is at most looked at.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "the kernel's attributes are an open set: those we do not use are passed over"
)]

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use litek8s_plan::{
    Address, AddressKey, Family, ForeignRule, Hop, LABEL_PREFIX, PROTOCOL, Route, RouteKey, Rule,
};
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::address::{
    AddressAttribute, AddressFlags, AddressMessage, AddressProtocol, AddressScope, CacheInfo,
};
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteNextHop, RouteProtocol, RouteScope,
    RouteType,
};
use rtnetlink::packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};

/// Interface names by number.
pub(crate) type Names = BTreeMap<u32, String>;

/// Our routing protocol in the crate's terms.
pub(crate) const OURS: RouteProtocol = RouteProtocol::Other(PROTOCOL);

fn family_of(family: AddressFamily) -> Option<Family> {
    match family {
        AddressFamily::Inet => Some(Family::V4),
        AddressFamily::Inet6 => Some(Family::V6),
        _ => None,
    }
}

fn number_of(family: Family) -> AddressFamily {
    match family {
        Family::V4 => AddressFamily::Inet,
        Family::V6 => AddressFamily::Inet6,
    }
}

/// An address of an interface.
pub(crate) enum FoundAddress {
    /// With our label, or our protocol.
    Ours(AddressKey, Address),
    /// Of somebody else, on that interface.
    Foreign(String, IpNet),
}

pub(crate) fn read_address(message: &AddressMessage, names: &Names) -> Option<FoundAddress> {
    let interface = names.get(&message.header.index)?.clone();
    let mut local = None;
    let mut label = None;
    let (mut no_prefix_route, mut ours) = (false, false);
    // Without a word about it, it is in force for ever.
    let mut seconds = u32::MAX;
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(address) => local = Some(*address),
            // IPv6 names the local address only when there is another at the other end.
            AddressAttribute::Address(address @ IpAddr::V6(_)) => local = local.or(Some(*address)),
            AddressAttribute::Protocol(AddressProtocol::Other(PROTOCOL)) => ours = true,
            AddressAttribute::Label(text) => label = Some(text.clone()),
            AddressAttribute::CacheInfo(lifetime) => seconds = lifetime.ifa_valid,
            AddressAttribute::Flags(flags) => no_prefix_route = flags.contains(AddressFlags::Noprefixroute),
            _ => {}
        }
    }
    let address = IpNet::new(local?, message.header.prefix_len).ok()?;
    let ours = match &label {
        Some(label) => label.starts_with(LABEL_PREFIX),
        None => ours && address.addr().is_ipv6(),
    };
    Some(if ours {
        FoundAddress::Ours(AddressKey { interface, address }, Address { label, no_prefix_route, seconds })
    } else {
        FoundAddress::Foreign(interface, address)
    })
}

pub(crate) fn address_message(index: u32, key: &AddressKey, address: Option<&Address>) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = number_of(key.family());
    message.header.prefix_len = key.address.prefix_len();
    message.header.scope = AddressScope::Universe;
    message.header.index = index;
    let local = key.address.addr();
    message.attributes.push(AddressAttribute::Local(local));
    message.attributes.push(AddressAttribute::Address(local));
    let Some(address) = address else { return message };
    let mut flags = AddressFlags::empty();
    flags.set(AddressFlags::Noprefixroute, address.no_prefix_route);
    message.attributes.extend(address.label.clone().map(AddressAttribute::Label));
    let mut lifetime = CacheInfo::default();
    lifetime.ifa_valid = address.seconds;
    if key.family() == Family::V4 {
        lifetime.ifa_preferred = address.seconds;
    }
    message.attributes.push(AddressAttribute::CacheInfo(lifetime));
    if key.family() == Family::V6 {
        flags |= AddressFlags::Nodad;
        message.attributes.push(AddressAttribute::Protocol(AddressProtocol::Other(PROTOCOL)));
    }
    message.attributes.push(AddressAttribute::Flags(flags));
    message
}

/// A dump of our routes: with strict checking the kernel filters by protocol itself.
pub(crate) fn route_request(family: AddressFamily) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = family;
    message.header.protocol = OURS;
    message
}

pub(crate) fn ip_of(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

/// One of our routes; `None` when it is not ours.
pub(crate) fn read_route(message: &RouteMessage, names: &Names) -> Option<(RouteKey, Route)> {
    if message.header.protocol != OURS {
        return None;
    }
    let family = family_of(message.header.address_family)?;
    let mut table = u32::from(message.header.table);
    let (mut destination, mut metric) = (family.everywhere().addr(), 0);
    let (mut gateway, mut source, mut interface, mut hops) = (None, None, None, None);
    let mut plain = message.header.tos == 0;
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Priority(number) => metric = *number,
            RouteAttribute::Destination(address) => destination = ip_of(address)?,
            RouteAttribute::Gateway(address) => gateway = ip_of(address),
            RouteAttribute::PrefSource(address) => source = ip_of(address),
            RouteAttribute::Oif(index) => interface = names.get(index).cloned(),
            RouteAttribute::MultiPath(list) => {
                hops = list.iter().map(|hop| read_hop(hop, names)).collect::<Option<Vec<Hop>>>();
                plain &= hops.is_some();
            }
            RouteAttribute::Via(_) | RouteAttribute::NhId(_) => plain = false,
            _ => {}
        }
    }
    let destination = IpNet::new(destination, message.header.destination_prefix_length).ok()?;
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
        RouteAttribute::Gateway(address) => ip_of(address),
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
    message.attributes.push(RouteAttribute::Gateway(hop.gateway.into()));
    Some(message)
}

/// The message that adds, replaces or deletes exactly this route. `None`: its interface is not there.
pub(crate) fn route_message(
    key: &RouteKey,
    route: &Route,
    indexes: &BTreeMap<String, u32>,
) -> Option<RouteMessage> {
    let mut message = RouteMessage::default();
    message.header.address_family = number_of(key.family());
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
        put(RouteAttribute::Destination(key.destination.network().into()));
    }
    if key.metric > 0 {
        put(RouteAttribute::Priority(key.metric));
    }
    let source = match route {
        Route::Link { source, .. } => Some(source),
        Route::Via { gateway, source, .. } => {
            put(RouteAttribute::Gateway((*gateway).into()));
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
        put(RouteAttribute::PrefSource((*source).into()));
    }
    if let Some(interface) = route.interface() {
        put(RouteAttribute::Oif(*indexes.get(interface)?));
    }
    match route {
        // IPv6 knows no scopes of routes.
        Route::Link { .. } if key.family() == Family::V4 => message.header.scope = RouteScope::Link,
        Route::Unreachable => message.header.kind = RouteType::Unreachable,
        // Deleted whatever it is: by destination, metric, table and our protocol.
        Route::Other => {
            message.header.kind = RouteType::Unspec;
            message.header.scope = RouteScope::NoWhere;
        }
        Route::Link { .. } | Route::Via { .. } | Route::Multipath { .. } => {}
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

pub(crate) fn read_rule(message: &RuleMessage) -> Option<FoundRule> {
    let family = family_of(message.header.family)?;
    let table = u32::from(message.header.table);
    let mut rule = Rule { family, priority: 0, mark: 0, mask: 0, from: None, to: None, table };
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
            RuleAttribute::Source(from) => {
                rule.from = IpNet::new(*from, message.header.src_len).ok();
            }
            RuleAttribute::Destination(to) => {
                rule.to = IpNet::new(*to, message.header.dst_len).ok();
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
    (mask != 0).then_some(FoundRule::Foreign(ForeignRule { family, priority, mark, mask, table }))
}

pub(crate) fn rule_message(rule: &Rule) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = number_of(rule.family);
    // Unspecified is accepted by the kernel and then fails every lookup that gets there.
    message.header.action = RuleAction::ToTable;
    match u8::try_from(rule.table) {
        Ok(table) => message.header.table = table,
        Err(_) => message.attributes.push(RuleAttribute::Table(rule.table)),
    }
    if let Some(from) = rule.from {
        message.header.src_len = from.prefix_len();
        message.attributes.push(RuleAttribute::Source(from.network()));
    }
    if let Some(to) = rule.to {
        message.header.dst_len = to.prefix_len();
        message.attributes.push(RuleAttribute::Destination(to.network()));
    }
    message.attributes.push(RuleAttribute::Priority(rule.priority));
    message.attributes.push(RuleAttribute::FwMark(rule.mark));
    message.attributes.push(RuleAttribute::FwMask(rule.mask));
    message.attributes.push(RuleAttribute::Protocol(OURS));
    message
}
