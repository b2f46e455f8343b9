//! The objects this node needs, as last seen, and the facts they make. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use litek8s_crds::{
    VipAddress, VipConfig, VipConfigSpec, VipGateway, VipGuard, VipNetwork, VipNetworkSpec, VipRoute, names,
};
use litek8s_plan::{Facts, Gateway};

use crate::gateways;
use crate::vips::{self, Unusable};

/// What a watch says.
#[derive(Debug)]
pub(crate) enum Change<K> {
    /// These are all.
    Reset(Vec<K>),
    /// This one is there, like this.
    Apply(K),
    /// This one is gone.
    Delete(K),
}

/// The last known objects.
#[derive(Debug, Default)]
pub(crate) struct Index {
    node: String,
    /// This node's own addresses, cluster networks whether its Node is there or not.
    own: Vec<IpAddr>,
    addresses: Option<BTreeMap<String, VipAddress>>,
    /// This node's VipAddresses that are being deleted and wait for it to let go.
    leaving: BTreeMap<String, VipAddress>,
    networks: Option<BTreeMap<String, VipNetworkSpec>>,
    config: Option<Option<VipConfigSpec>>,
    /// The mask and the cluster's networks that an earlier agent knew, in force while there is no VipConfig.
    before: (u32, Vec<IpNet>),
    nodes: Option<BTreeMap<String, BTreeSet<IpAddr>>>,
    gateways: Option<BTreeMap<String, VipGateway>>,
    routes: Option<BTreeMap<String, VipRoute>>,
    guards: Option<BTreeMap<String, VipGuard>>,
    /// Where the API server was found last.
    api_servers: BTreeSet<IpAddr>,
    /// This node's labels.
    labels: BTreeMap<String, String>,
}

impl Index {
    pub(crate) fn new(node: &str, own: &[IpAddr]) -> Self {
        Self { node: node.to_owned(), own: own.to_vec(), ..Self::default() }
    }

    /// Takes from the last known state what stays in force without its object.
    pub(crate) fn remember(&mut self, last: &Facts) {
        self.before = (last.mask, last.cluster_networks.clone());
    }

    /// Whether every kind was listed once. Before that, what is missing may only be unseen.
    pub(crate) fn synced(&self) -> bool {
        self.addresses.is_some()
            && self.networks.is_some()
            && self.config.is_some()
            && self.nodes.is_some()
            && self.gateways.is_some()
            && self.routes.is_some()
            && self.guards.is_some()
    }

    /// VipAddresses; those of other nodes, which a watch without a selector shows, are passed over.
    pub(crate) fn address(&mut self, change: Change<VipAddress>) {
        let node = self.node.clone();
        let mine =
            |address: &VipAddress| address.spec.node == node && address.metadata.deletion_timestamp.is_none();
        self.leave(&change);
        match change {
            Change::Reset(all) => {
                let all = all.into_iter().filter(mine).map(|address| (vips::key_of(&address), address));
                self.addresses = Some(all.collect());
            }
            Change::Apply(address) if mine(&address) => {
                self.addresses.get_or_insert_default().insert(vips::key_of(&address), address);
            }
            Change::Apply(address) | Change::Delete(address) => {
                self.addresses.get_or_insert_default().remove(&vips::key_of(&address));
            }
        }
    }

    fn leave(&mut self, change: &Change<VipAddress>) {
        let leaves = |address: &&VipAddress| address.spec.node == self.node && vips::waits(address);
        match change {
            Change::Reset(all) => {
                let all = all.iter().filter(leaves).map(|address| (vips::key_of(address), address.clone()));
                self.leaving = all.collect();
            }
            Change::Apply(address) if leaves(&address) => {
                self.leaving.insert(vips::key_of(address), address.clone());
            }
            Change::Apply(address) | Change::Delete(address) => {
                self.leaving.remove(&vips::key_of(address));
            }
        }
    }

    /// Whether this node has a VipAddress of that name.
    pub(crate) fn knows(&self, key: &str) -> bool {
        self.addresses.iter().any(|addresses| addresses.contains_key(key))
    }

    /// The VipAddresses that wait for this node to let go, by `namespace/name`.
    pub(crate) fn leaving(&self) -> impl Iterator<Item = (&String, &VipAddress)> {
        self.leaving.iter()
    }

    pub(crate) fn network(&mut self, change: Change<VipNetwork>) {
        match change {
            Change::Reset(all) => {
                self.networks =
                    Some(all.into_iter().map(|network| (network.name_any(), network.spec)).collect());
            }
            Change::Apply(network) => {
                self.networks.get_or_insert_default().insert(network.name_any(), network.spec);
            }
            Change::Delete(network) => {
                self.networks.get_or_insert_default().remove(&network.name_any());
            }
        }
    }

    /// The VipConfig. One that was deleted stays in force: what to do about it is the controller's to decide.
    pub(crate) fn config(&mut self, change: Change<VipConfig>) {
        let force = |config: VipConfig| {
            let accepted = config.status.and_then(|status| status.accepted);
            accepted.unwrap_or(config.spec)
        };
        let known = self.config.take().flatten();
        let next = match change {
            Change::Reset(all) => {
                all.into_iter().find(|config| config.name_any() == names::CONFIG_NAME).map(force)
            }
            Change::Apply(config) if config.name_any() == names::CONFIG_NAME => Some(force(config)),
            Change::Apply(_) | Change::Delete(_) => None,
        };
        self.config = Some(next.or(known));
    }

    pub(crate) fn node(&mut self, change: Change<Node>) {
        let own = |node: &&Node| node.name_any() == self.node;
        let seen = match &change {
            Change::Reset(all) => all.iter().find(own),
            Change::Apply(node) => Some(node).filter(own),
            Change::Delete(_) => None,
        };
        if let Some(labels) = seen.map(|node| node.labels().clone()) {
            self.labels = labels;
        }
        match change {
            Change::Reset(all) => {
                self.nodes = Some(all.iter().map(|node| (node.name_any(), addresses_of(node))).collect());
            }
            Change::Apply(node) => {
                self.nodes.get_or_insert_default().insert(node.name_any(), addresses_of(&node));
            }
            Change::Delete(node) => {
                self.nodes.get_or_insert_default().remove(&node.name_any());
            }
        }
    }

    pub(crate) fn gateway(&mut self, change: Change<VipGateway>) {
        keep(&mut self.gateways, change);
    }

    pub(crate) fn route(&mut self, change: Change<VipRoute>) {
        keep(&mut self.routes, change);
    }

    pub(crate) fn guard(&mut self, change: Change<VipGuard>) {
        keep(&mut self.guards, change);
    }

    /// Where the API server is. One whose name is not found at the moment is where it was.
    pub(crate) fn api_servers(&mut self, found: BTreeSet<IpAddr>) {
        if !found.is_empty() {
            self.api_servers = found;
        }
    }

    /// The gateways, and why those that are not among them cannot be read.
    pub(crate) fn gateways(&self) -> (Vec<Gateway>, BTreeMap<String, String>) {
        let none = BTreeMap::new();
        let routes = self.routes.as_ref().unwrap_or(&none);
        gateways::read(self.gateways.iter().flat_map(BTreeMap::values), routes, &self.node)
    }

    /// The VipNetworks that this node is on, each with its interface here.
    pub(crate) fn interfaces(&self) -> BTreeMap<&str, &str> {
        let here = self.networks.iter().flatten().filter(|(_, spec)| {
            spec.node_selector.as_ref().is_none_or(|selector| selector.matches(&self.labels))
        });
        here.map(|(name, spec)| (name.as_str(), spec.interface_on(&self.node))).collect()
    }

    /// The VipAddresses of this node, by `namespace/name`.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (&String, &VipAddress)> {
        self.addresses.iter().flatten()
    }

    /// The VipAddresses that are not in place because somebody else has the address, as their status says, and who.
    pub(crate) fn conflicts(&self) -> BTreeMap<String, String> {
        let conflicting = self.addresses().filter_map(|(key, address)| {
            let conditions = &address.status.as_ref()?.conditions;
            let holds = |kind: &str, status: &str| {
                conditions.iter().find(|found| found.type_ == kind && found.status == status)
            };
            holds(names::CONDITION_PROGRAMMED, "False")?;
            let conflict = holds(names::CONDITION_ADDRESS_CONFLICT, "True")?;
            Some((key.clone(), conflict.message.clone()))
        });
        conflicting.collect()
    }

    /// What the objects say, and the VipAddresses that cannot be used.
    pub(crate) fn facts(&self) -> (Facts, BTreeMap<String, Unusable>) {
        let (mask, cluster_networks) = self.before.clone();
        let mut facts = Facts { mask, cluster_networks, ..Facts::default() };
        let mut unusable = BTreeMap::new();
        if let Some(Some(config)) = &self.config {
            facts.mask = u32::try_from(config.firewall_mark_mask).unwrap_or_default();
            facts.cluster_networks =
                config.cluster_cidrs.iter().filter_map(|cidr| cidr.parse().ok()).collect();
        }
        let others = self.nodes.iter().flatten().flat_map(|(_, all)| all).copied();
        let nodes: BTreeSet<IpAddr> = others.chain(self.own.iter().copied()).collect();
        facts.node_addresses = nodes.into_iter().collect();
        facts.gateways = self.gateways().0;
        let guard = self.guards.as_ref().and_then(|guards| guards.get(&self.node));
        let pods = guard.into_iter().flat_map(|guard| &guard.spec.pods);
        facts.guarded = pods.filter_map(|pod| pod.address.parse().ok()).collect();
        facts.api_servers.clone_from(&self.api_servers);
        for (key, address) in self.addresses() {
            let network = &address.spec.network;
            let read = if self.networks.as_ref().is_some_and(|networks| networks.contains_key(network)) {
                vips::read(address)
            } else {
                Err(("NetworkMissing", format!("there is no VipNetwork {network}")))
            };
            match read {
                Ok(vip) => facts.vips.push(vip),
                Err(reason) => {
                    unusable.insert(key.clone(), reason);
                }
            }
        }
        (facts, unusable)
    }
}

fn keep<K: ResourceExt>(known: &mut Option<BTreeMap<String, K>>, change: Change<K>) {
    match change {
        Change::Reset(all) => {
            *known = Some(all.into_iter().map(|object| (object.name_any(), object)).collect());
        }
        Change::Apply(object) => {
            known.get_or_insert_default().insert(object.name_any(), object);
        }
        Change::Delete(object) => {
            known.get_or_insert_default().remove(&object.name_any());
        }
    }
}

pub(crate) fn addresses_of(node: &Node) -> BTreeSet<IpAddr> {
    let addresses = node.status.iter().filter_map(|status| status.addresses.as_ref()).flatten();
    addresses
        .filter(|address| address.type_ == "InternalIP")
        .filter_map(|address| address.address.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests;
