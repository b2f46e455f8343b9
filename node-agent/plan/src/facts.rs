//! What a plan may know: the VIPs of this node, the cluster's networks and the node's interfaces.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::{AllowedIp, Family, Gateway, NextHop, Observed, PeerKey, Tunnel};

/// Where kube-proxy in IPVS mode puts the addresses of all Services, VIPs among them. It is on no network and answers nobody.
pub const IPVS_INTERFACE: &str = "kube-ipvs0";

/// Everything a plan depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The bits of the packet mark that are ours (`VipConfig.spec.firewallMarkMask`).
    pub mask: u32,
    /// `VipConfig.spec.clusterCIDRs`: traffic to them never takes a VIP.
    pub cluster_networks: Vec<IpNet>,
    /// The addresses of all nodes. They count as cluster networks, so that a pod's way to the API server or to an
    /// endpoint in a node's own network does not lead through a VIP.
    pub node_addresses: Vec<IpAddr>,
    /// The VIPs placed on this node.
    pub vips: Vec<Vip>,
    /// The gateways of the cluster.
    #[serde(default)]
    pub gateways: Vec<Gateway>,
    /// Where the agent reaches the API server: no gateway may take that way.
    #[serde(default)]
    pub api_servers: BTreeSet<IpAddr>,
    /// The way to each gateway pod as the kernel has it now, or why there is none.
    #[serde(skip)]
    pub hops: BTreeMap<IpAddr, Result<NextHop, String>>,
    /// Pods of this node that never leave with the node's address.
    #[serde(default)]
    pub guarded: BTreeSet<IpAddr>,
    /// The interfaces of this node, by name.
    #[serde(skip)]
    pub interfaces: BTreeMap<String, Interface>,
    /// Whether addresses may be renewed: somebody else is there, the API or a neighbour. On a node that is alone they end.
    #[serde(skip)]
    pub in_company: bool,
    /// VIPs (`namespace/name`) whose address others on the network have, or may have.
    #[serde(skip)]
    pub contested: BTreeMap<String, Contest>,
    /// The WireGuard interfaces of others, without what we added to them.
    #[serde(skip)]
    pub tunnels: BTreeMap<String, Tunnel>,
    /// What we added to them, and at which peer it is now.
    #[serde(skip)]
    pub allowed_ips: BTreeMap<AllowedIp, PeerKey>,
    /// VIPs (`namespace/name`) and gateways (`name`) the kernel would not take on an earlier try, with what it said. They
    /// are left out until their time to be tried again has come.
    #[serde(skip)]
    pub excluded: BTreeMap<String, String>,
    /// Gateways whose route over their pods the kernel would not take, with what it said: closed until then.
    #[serde(skip)]
    pub closed: BTreeMap<String, String>,
}

impl Facts {
    /// Takes in what a plan may know of the kernel's state; the ways to pods are asked for apart.
    pub fn see(&mut self, observed: &Observed) {
        self.interfaces.clone_from(&observed.interfaces);
        self.tunnels.clone_from(&observed.tunnels);
        self.allowed_ips.clone_from(&observed.allowed_ips);
    }
}

/// One VIP as its VipAddress says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vip {
    /// `namespace/name` of the VipAddress.
    pub name: String,
    /// Its number within its Service; it makes the address label.
    pub index: u32,
    /// The interface it belongs on.
    pub interface: String,
    /// The address with the prefix length of its network.
    pub virtual_cidr: IpNet,
    /// The router of its network; without one only the network itself is reached.
    pub gateway: Option<IpAddr>,
    /// The networks beyond the router that use this VIP.
    pub source_cidrs: Vec<IpNet>,
    /// The packet mark, within the mask.
    pub mark: u32,
    /// The route table.
    pub table: u32,
    /// The priority of the rule that leads to the table.
    pub priority: u32,
    /// The pods that leave with this VIP as their source; empty unless egress is on. Those of the other family do not.
    pub endpoints: BTreeSet<IpAddr>,
}

impl Vip {
    /// The address alone.
    pub fn address(&self) -> IpAddr {
        self.virtual_cidr.addr()
    }

    /// The family of the address.
    pub fn family(&self) -> Family {
        Family::of(self.address())
    }

    /// The pods that leave with this VIP as their source.
    pub fn pods(&self) -> impl Iterator<Item = IpAddr> {
        self.endpoints.iter().copied().filter(|pod| Family::of(*pod) == self.family())
    }
}

/// A hardware address.
pub type Mac = [u8; 6];

/// How an address of ours stands with the others on its network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contest {
    /// Whether anybody has it is being asked.
    Asking,
    /// That one has it.
    Held(Mac),
    /// That one says that he has it too, since it was put in place here.
    Claimed(Mac),
}

/// What is known of an interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    /// Administratively up.
    pub up: bool,
    /// Has a carrier.
    pub carrier: bool,
    /// How often it got one, by which a short interruption is seen.
    pub carrier_ups: u32,
    /// The kernel's number for it.
    pub index: u32,
    /// Its hardware address, where it has one of six bytes.
    pub mac: Option<Mac>,
    /// The reverse path filter in force for IPv4: the larger of `all` and the interface's own.
    pub rp_filter: u8,
    /// Whether the next IPv4 address of a subnet takes over when the first is deleted (`all` or the interface's own).
    pub promote_secondaries: bool,
    /// To whom ARP is answered: the larger of `all` and the interface's own `arp_ignore`; 0 answers on every interface
    /// for every address of the node, 8 answers nobody.
    pub arp_ignore: u8,
    /// Addresses that are not ours.
    pub foreign: BTreeSet<IpNet>,
}
