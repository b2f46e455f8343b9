//! Which addresses a Service may have: those in a network in force that nobody else has.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use litek8s_crds::VipService;

use super::cidr;
use super::facts::{AddressFact, Facts, ServiceFact};
use super::memory::Memory;
use super::networks::{Network, Networks};
use super::refusal::Refusal;

/// An address a Service may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim<'a> {
    pub(crate) ip: IpAddr,
    /// The network it belongs to; none when what is placed has to stay as it is.
    pub(crate) network: Option<&'a Network<'a>>,
    /// The VipAddress that holds it now.
    pub(crate) object: Option<&'a AddressFact>,
}

/// One address as a Service lists it, duplicates left out.
#[derive(Debug, Clone)]
pub(crate) struct Listed<'a> {
    pub(crate) text: String,
    pub(crate) claim: Result<Claim<'a>, Refusal>,
}

/// What all Services list.
pub(crate) struct Claims<'a> {
    facts: &'a Facts,
    networks: &'a Networks<'a>,
    /// Whether a VipConfig is in force.
    configured: bool,
    /// The VipAddresses that count as placed, by Service and address.
    objects: BTreeMap<(&'a VipService, IpAddr), &'a AddressFact>,
    /// Who wins an address.
    winners: BTreeMap<IpAddr, &'a VipService>,
    node_addresses: BTreeMap<IpAddr, &'a str>,
    gateways: BTreeMap<IpAddr, &'a str>,
    foreign: BTreeMap<IpAddr, String>,
}

impl<'a> Claims<'a> {
    /// Settles who wins which address: the Service that holds it already, else the oldest, else the first by name.
    /// `services` are in that order.
    pub(crate) fn new(
        facts: &'a Facts,
        services: &[&'a ServiceFact],
        networks: &'a Networks<'a>,
        configured: bool,
        memory: &Memory,
    ) -> Self {
        let objects = objects(facts, memory);
        let mut winners: BTreeMap<IpAddr, (bool, &VipService)> = BTreeMap::new();
        for service in services {
            for ip in service.requested.iter().filter_map(|text| cidr::address(text)) {
                let seat = (service.key.clone(), ip);
                let holds = objects.contains_key(&(&service.key, ip)) || memory.intents.contains_key(&seat);
                let winner = winners.entry(ip).or_insert((holds, &service.key));
                if holds && !winner.0 {
                    *winner = (true, &service.key);
                }
            }
        }
        let node_addresses = facts
            .nodes
            .iter()
            .flat_map(|node| node.addresses.iter().map(|&ip| (ip, node.name.as_str())))
            .collect();
        let gateways = facts
            .networks
            .iter()
            .filter_map(|network| Some((cidr::address(&network.spec.gateway_ip)?, network.name.as_str())))
            .collect();
        let foreign = facts
            .addresses
            .iter()
            .filter(|address| !address.managed)
            .filter_map(|address| Some((address.ip()?, format!("{}/{}", address.namespace, address.name))))
            .collect();
        let winners = winners.into_iter().map(|(ip, (_, key))| (ip, key)).collect();
        Self { facts, networks, configured, objects, winners, node_addresses, gateways, foreign }
    }

    /// The addresses of one Service, in the order it lists them.
    pub(crate) fn of(&self, service: &'a ServiceFact) -> Vec<Listed<'a>> {
        let mut seen = BTreeSet::new();
        let mut listed = Vec::new();
        for text in &service.requested {
            let Some(ip) = cidr::address(text) else {
                if seen.insert(text.clone()) {
                    listed.push(Listed { text: text.clone(), claim: Err(Refusal::Invalid) });
                }
                continue;
            };
            if seen.insert(ip.to_string()) {
                listed.push(Listed { text: ip.to_string(), claim: self.claim(service, ip) });
            }
        }
        listed
    }

    fn claim(&self, fact: &'a ServiceFact, ip: IpAddr) -> Result<Claim<'a>, Refusal> {
        let service = &fact.key;
        if let Some(&winner) = self.winners.get(&ip).filter(|&&winner| winner != service) {
            return Err(Refusal::HeldByService(winner.clone()));
        }
        if let Some(address) = self.foreign.get(&ip) {
            return Err(Refusal::HeldByOther(address.clone()));
        }
        if let Some(&node) = self.node_addresses.get(&ip) {
            return Err(Refusal::NodeAddress(node.to_owned()));
        }
        if let Some(&network) = self.gateways.get(&ip) {
            return Err(Refusal::GatewayAddress(network.to_owned()));
        }
        if !fact.serves(ip) {
            return Err(Refusal::FamilyNotServed(cidr::family(ip)));
        }
        let object = self.objects.get(&(service, ip)).copied();
        let stays = object.is_some_and(|object| {
            self.networks.frozen(&object.spec.network)
                && self.facts.networks.iter().any(|network| network.name == object.spec.network)
        });
        if stays {
            return Ok(Claim { ip, network: None, object });
        }
        let Some(network) = self.networks.of(ip) else {
            return Err(match self.networks.disabled_of(ip) {
                Some(name) => Refusal::NetworkDisabled(name.to_owned()),
                None => Refusal::NoNetwork,
            });
        };
        let name = || network.fact.name.clone();
        if cidr::is_network_address(&network.cidr, ip) {
            return Err(Refusal::NetworkAddress(name()));
        }
        if cidr::is_broadcast_address(&network.cidr, ip) {
            return Err(Refusal::BroadcastAddress(name()));
        }
        match (self.configured, object) {
            (true, _) => Ok(Claim { ip, network: Some(network), object }),
            (false, Some(_)) => Ok(Claim { ip, network: None, object }),
            (false, None) => Err(Refusal::NoConfig),
        }
    }
}

/// The VipAddress that counts for each seat: ours, not on its way out, the lowest index of several.
fn objects<'a>(facts: &'a Facts, memory: &Memory) -> BTreeMap<(&'a VipService, IpAddr), &'a AddressFact> {
    let mut objects: BTreeMap<(&VipService, IpAddr), &AddressFact> = BTreeMap::new();
    for address in facts.addresses.iter().filter(|address| address.managed && !address.deleting) {
        let Some(ip) = address.ip() else { continue };
        let service = &address.spec.service;
        let replaced = memory.intents.get(&(service.clone(), ip)).and_then(|intent| intent.replaces.as_ref());
        if replaced == Some(&address.uid) {
            continue;
        }
        let best = objects.entry((service, ip)).or_insert(address);
        if (address.spec.index, &address.uid) < (best.spec.index, &best.uid) {
            *best = address;
        }
    }
    objects
}

#[cfg(test)]
mod tests;
