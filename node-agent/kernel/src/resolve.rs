//! The kernel's own way to an address: its next router, interface and source.
//!
//! Asked twice: once as a packet would be routed, once for the route that was found. A default route is not a way to a
//! pod: its router would send a gateway's packets wherever it likes.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "the kernel's attributes are an open set: those we do not use are passed over"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use litek8s_plan::NextHop;
use rtnetlink::packet_route::route::{RouteAttribute, RouteFlags, RouteMessage, RouteType};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::KernelError;
use crate::links::list_links;
use crate::routing::{Names, ip_of};
use crate::rtnl::Rtnl;

/// The way to each address, or why there is none.
pub(crate) async fn resolve(
    rtnl: &Rtnl,
    addresses: &BTreeSet<IpAddr>,
    mark: u32,
    tables: &BTreeSet<u32>,
) -> Result<BTreeMap<IpAddr, Result<NextHop, String>>, KernelError> {
    let mut ways = BTreeMap::new();
    if addresses.is_empty() {
        return Ok(ways);
    }
    let names: Names = list_links(rtnl).await?.into_iter().map(|link| (link.index, link.name)).collect();
    for &address in addresses {
        ways.insert(address, one(rtnl, address, mark, tables, &names).await?);
    }
    Ok(ways)
}

async fn one(
    rtnl: &Rtnl,
    pod: IpAddr,
    mark: u32,
    tables: &BTreeSet<u32>,
    names: &Names,
) -> Result<Result<NextHop, String>, KernelError> {
    let ask = async |flags: RouteFlags| {
        let message = RouteNetlinkMessage::GetRoute(question(pod, mark, flags));
        match rtnl.ask(message, || format!("ip route get {pod} mark {mark:#x}")).await {
            Ok(RouteNetlinkMessage::NewRoute(route)) => Ok(Ok(route)),
            Ok(_) => Err(KernelError::Malformed("a route")),
            // "Network is unreachable", "No route to host", "Permission denied" (prohibit), "Invalid argument" (blackhole).
            Err(KernelError::Refused { source, .. }) => Ok(Err(source.to_string())),
            Err(error) => Err(error),
        }
    };
    // IPv6 names the table unasked, and takes no other flag than the second one.
    let as_routed = if pod.is_ipv4() { RouteFlags::LookupTable } else { RouteFlags::empty() };
    let (way, found) = match (ask(as_routed).await?, ask(RouteFlags::FibMatch).await?) {
        (Ok(way), Ok(found)) => (way, found),
        (Err(why), _) | (_, Err(why)) => return Ok(Err(why)),
    };
    Ok(judge(pod, &way, &found, tables, names))
}

fn question(pod: IpAddr, mark: u32, flags: RouteFlags) -> RouteMessage {
    let (family, length) =
        if pod.is_ipv4() { (AddressFamily::Inet, 32) } else { (AddressFamily::Inet6, 128) };
    let mut message = RouteMessage::default();
    message.header.address_family = family;
    message.header.destination_prefix_length = length;
    message.header.flags = flags;
    message.attributes.push(RouteAttribute::Destination(pod.into()));
    if mark != 0 {
        message.attributes.push(RouteAttribute::Mark(mark));
    }
    message
}

fn judge(
    pod: IpAddr,
    way: &RouteMessage,
    found: &RouteMessage,
    tables: &BTreeSet<u32>,
    names: &Names,
) -> Result<NextHop, String> {
    let mut table = u32::from(way.header.table);
    let (mut gateway, mut source, mut interface) = (None, None, None);
    for attribute in &way.attributes {
        match attribute {
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Gateway(address) => gateway = ip_of(address),
            RouteAttribute::PrefSource(address) => source = ip_of(address),
            RouteAttribute::Oif(index) => interface = names.get(index).cloned(),
            _ => {}
        }
    }
    if way.header.kind == RouteType::Local {
        return Err("its address is this node's own: a gateway's pod needs a network of its own".to_owned());
    }
    if way.header.kind != RouteType::Unicast {
        return Err(format!("the node's route to it is of kind {:?}", way.header.kind));
    }
    if tables.contains(&table) {
        return Err(format!("the way to it leads through our own route table {table}"));
    }
    if found.header.destination_prefix_length == 0 {
        return Err("only the default route leads to it".to_owned());
    }
    let (Some(interface), Some(source)) = (interface, source) else {
        return Err("the node has no interface or no address towards it".to_owned());
    };
    Ok(NextHop { gateway: gateway.unwrap_or(pod), interface, source })
}
