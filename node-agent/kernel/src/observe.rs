//! Reading everything a plan compares with.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use litek8s_plan::{Interface, Observed, Tunnel};
use rtnetlink::packet_route::address::AddressMessage;
use rtnetlink::packet_route::rule::RuleMessage;
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::links::{Link, list_links};
use crate::routing::{FoundAddress, FoundRule, Names, read_address, read_route, read_rule, route_request};
use crate::rtnl::Rtnl;
use crate::wireguard::Wireguard;
use crate::{KernelError, Netns};

/// Everything but nftables. Fails rather than leaving something out.
pub(crate) async fn observe(
    namespace: &Netns,
    rtnl: &Rtnl,
    wireguard: &Wireguard,
) -> Result<Observed, KernelError> {
    let links = list_links(rtnl).await?;
    let names: Names = links.iter().map(|link| (link.index, link.name.clone())).collect();
    let mut observed = Observed { interfaces: read_interfaces(namespace, &links)?, ..Observed::default() };

    for message in rtnl.dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()), "addresses").await? {
        let RouteNetlinkMessage::NewAddress(message) = message else { continue };
        match read_address(&message, &names) {
            Some(FoundAddress::Ours(key, address)) => {
                observed.addresses.insert(key, address);
            }
            Some(FoundAddress::Foreign(interface, address)) => {
                observed.interfaces.entry(interface).or_default().foreign.insert(address);
            }
            None => {}
        }
    }
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        for message in rtnl.dump(RouteNetlinkMessage::GetRoute(route_request(family)), "routes").await? {
            let RouteNetlinkMessage::NewRoute(message) = message else { continue };
            if let Some((key, route)) = read_route(&message, &names) {
                observed.routes.insert(key, route);
            }
        }
    }
    for message in rtnl.dump(RouteNetlinkMessage::GetRule(RuleMessage::default()), "rules").await? {
        let RouteNetlinkMessage::NewRule(message) = message else { continue };
        match read_rule(&message) {
            Some(FoundRule::Ours(rule)) => {
                observed.rules.insert(rule);
            }
            Some(FoundRule::Foreign(rule)) => {
                observed.foreign_rules.insert(rule);
            }
            None => {}
        }
    }
    observed.tunnels = tunnels(wireguard, &links).await?;
    Ok(observed)
}

/// The WireGuard interfaces among these links, with their peers.
pub(crate) async fn tunnels(
    wireguard: &Wireguard,
    links: &[Link],
) -> Result<BTreeMap<String, Tunnel>, KernelError> {
    let mut tunnels = BTreeMap::new();
    for link in links.iter().filter(|link| link.wireguard) {
        if let Some(tunnel) = wireguard.read(link).await? {
            tunnels.insert(link.name.clone(), tunnel);
        }
    }
    Ok(tunnels)
}

fn read_interfaces(namespace: &Netns, links: &[Link]) -> Result<BTreeMap<String, Interface>, KernelError> {
    namespace.run(|| {
        let all_filter = number("all", "rp_filter");
        let all_ignore = number("all", "arp_ignore");
        let all_promote = number("all", "promote_secondaries");
        links
            .iter()
            .map(|link| {
                let interface = Interface {
                    up: link.up,
                    carrier: link.carrier,
                    carrier_ups: link.carrier_ups,
                    index: link.index,
                    mac: link.mac,
                    rp_filter: all_filter.max(number(&link.name, "rp_filter")),
                    arp_ignore: all_ignore.max(number(&link.name, "arp_ignore")),
                    promote_secondaries: all_promote.max(number(&link.name, "promote_secondaries")) > 0,
                    ..Interface::default()
                };
                (link.name.clone(), interface)
            })
            .collect()
    })
}

/// A sysctl of an interface. One that cannot be read belongs to an interface that just went, or to a kernel without
/// the feature: off.
fn number(interface: &str, key: &str) -> u8 {
    let path = Path::new("/proc/sys/net/ipv4/conf").join(interface).join(key);
    fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or_default()
}
