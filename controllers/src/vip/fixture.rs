//! Facts for tests: a VipNetwork `public`, nodes `a` to `d`, Services and their VipAddresses.

use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};
use litek8s_crds::{VipAddressSpec, VipConfigSpec, VipNetworkSpec, VipService};

use super::decide::decide;
use super::decision::{Action, Decision};
use super::facts::{
    AddressFact, ConfigFact, EndpointFact, Facts, GuardFact, NetworkFact, NodeFact, ServiceFact, Terminating,
};
use super::memory::Memory;

/// A time, in seconds.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1_700_000_000 + seconds)
}

/// Nodes, the network `public` and a VipConfig; nothing asked for.
pub(crate) fn facts() -> Facts {
    Facts {
        now: at(1_000),
        manager: "netwrangler".into(),
        config: Some(ConfigFact { generation: 1, spec: config(), status: Default::default() }),
        networks: vec![network("public", "203.0.113.0/24", 0)],
        gateway_tables: Default::default(),
        nodes: ["a", "b", "c", "d"].map(node).into(),
        services: Vec::new(),
        guards: Vec::new(),
        addresses: Vec::new(),
        silence: None,
    }
}

pub(crate) fn config() -> VipConfigSpec {
    VipConfigSpec {
        firewall_mark: 1,
        firewall_mark_mask: 0x7f,
        route_table: 20_001,
        routing_priority: 20_001,
        max_address_count: 127,
        cluster_cidrs: vec!["10.42.0.0/16".into()],
        rebalance: Default::default(),
        withdraw_delay_seconds: 30,
    }
}

pub(crate) fn network(name: &str, cidr: &str, age: i64) -> NetworkFact {
    let gateway = cidr.parse::<ipnet::IpNet>().map_or_else(
        |_| cidr.to_owned(),
        |net| net.hosts().find(|host| *host != net.network()).unwrap().to_string(),
    );
    NetworkFact {
        name: name.into(),
        uid: format!("uid-{name}"),
        created: at(age),
        generation: 1,
        spec: VipNetworkSpec {
            interface: "eth1".into(),
            gateway_ip: gateway,
            network_cidr: cidr.into(),
            source_cidrs: vec![if cidr.contains("::") { "::/0" } else { "0.0.0.0/0" }.into()],
            node_selector: None,
            node_interfaces: Vec::new(),
        },
    }
}

pub(crate) fn node(name: &str) -> NodeFact {
    NodeFact { name: name.into(), ..NodeFact::default() }
}

/// A ready endpoint, told apart by a number.
pub(crate) fn endpoint(node: &str, number: u8) -> EndpointFact {
    EndpointFact {
        address: IpAddr::from([10, 42, 1, number]),
        uid: None,
        pod: None,
        node: Some(node.into()),
        ready: true,
        serving: true,
        terminating: false,
    }
}

/// A Service in the namespace `default` with so many ready endpoints on each node.
pub(crate) fn service(name: &str, ips: &[&str], endpoints: &[(&str, u8)]) -> ServiceFact {
    let mut number = 0;
    let mut all = Vec::new();
    for &(node, count) in endpoints {
        for _ in 0..count {
            number += 1;
            all.push(endpoint(node, number));
        }
    }
    ServiceFact {
        key: VipService { namespace: "default".into(), name: name.into() },
        uid: format!("uid-{name}"),
        created: at(10),
        requested: ips.iter().map(|ip| (*ip).to_owned()).collect(),
        families: Vec::new(),
        egress: false,
        guarded: false,
        terminating: Terminating::Keep,
        endpoints: all,
    }
}

/// A VipAddress as the controller makes it, with the slot of its index.
pub(crate) fn address(service: &str, index: u32, ip: &str, node: &str) -> AddressFact {
    AddressFact {
        namespace: "default".into(),
        name: format!("{service}-{index}"),
        uid: format!("uid-{service}-{index}-{node}"),
        deleting: false,
        finalizers: Vec::new(),
        released: false,
        managed: true,
        spec: VipAddressSpec {
            service: VipService { namespace: "default".into(), name: service.into() },
            index,
            network: "public".into(),
            node: node.into(),
            interface: "eth1".into(),
            virtual_cidr: format!("{ip}/{}", if ip.contains(':') { 64 } else { 24 }),
            gateway_ip: "203.0.113.1".into(),
            source_cidrs: vec!["0.0.0.0/0".into()],
            firewall_mark: index,
            route_table: 20_000 + index,
            routing_priority: 20_000 + index,
            egress_enabled: false,
        },
        endpoints: Vec::new(),
        ready: true,
        owners: [format!("uid-{service}"), "uid-public".to_owned()].into(),
    }
}

/// Does what a decision says, as a cluster would.
pub(crate) fn execute(facts: &mut Facts, actions: &[Action]) {
    for action in actions {
        match action {
            // Its node lets go at once.
            Action::Delete { uid, finalizers, .. } => {
                let waits = finalizers.as_ref().is_none_or(|left| !left.is_empty());
                facts.addresses.retain(|address| address.uid != *uid || address.held() && waits);
                for address in facts.addresses.iter_mut().filter(|address| address.uid == *uid) {
                    (address.deleting, address.released) = (true, true);
                }
            }
            Action::Release { uid, .. } => facts.addresses.retain(|address| address.uid != *uid),
            Action::Create { address, .. } => {
                let name = address.metadata.name.clone().unwrap();
                let taken = facts
                    .addresses
                    .iter()
                    .any(|other| other.namespace == address.spec.service.namespace && other.name == name);
                assert!(!taken, "{name} is there already");
                facts.addresses.push(AddressFact {
                    namespace: address.metadata.namespace.clone().unwrap(),
                    uid: format!("uid-{name}-{}-{}", address.spec.node, address.spec.virtual_cidr),
                    name,
                    deleting: false,
                    finalizers: address.metadata.finalizers.clone().unwrap_or_default(),
                    released: false,
                    managed: true,
                    spec: address.spec.clone(),
                    endpoints: Vec::new(),
                    ready: true,
                    owners: address
                        .metadata
                        .owner_references
                        .iter()
                        .flatten()
                        .map(|owner| owner.uid.clone())
                        .collect(),
                });
            }
            Action::Guard { node, pods } => {
                facts.guards.retain(|guard| guard.node != *node);
                if !pods.is_empty() {
                    facts.guards.push(GuardFact { node: node.clone(), pods: pods.clone() });
                }
            }
            Action::Map { uid, endpoints, .. } => {
                for address in facts.addresses.iter_mut().filter(|address| address.uid == *uid) {
                    address.endpoints.clone_from(endpoints);
                }
            }
        }
        one_holder(facts);
    }
}

/// Asserts that no address has two VipAddresses.
pub(crate) fn one_holder(facts: &Facts) {
    let mut seen = std::collections::BTreeSet::new();
    for address in &facts.addresses {
        assert!(seen.insert(address.ip()), "{} is held twice", address.spec.virtual_cidr);
    }
}

/// Decides and does until nothing is to do.
pub(crate) fn settle(facts: &mut Facts, memory: &mut Memory) -> Decision {
    for _ in 0..8 {
        let decision = decide(facts, memory);
        memory.clone_from(&decision.memory);
        if decision.actions.is_empty() {
            return decision;
        }
        execute(facts, &decision.actions);
    }
    panic!("never settled: {}", decide(facts, memory));
}

/// `node: .10#1 .12#3; …`, as the documentation writes placements.
pub(crate) fn placements(facts: &Facts) -> String {
    let mut nodes: std::collections::BTreeMap<&str, Vec<(u8, u32)>> = Default::default();
    for address in &facts.addresses {
        let Some(IpAddr::V4(ip)) = address.ip() else { continue };
        nodes.entry(&address.spec.node).or_default().push((ip.octets()[3], address.spec.index));
    }
    let mut lines = Vec::new();
    for (node, mut held) in nodes {
        held.sort_unstable();
        let held: Vec<String> = held.iter().map(|(ip, index)| format!(".{ip}#{index}")).collect();
        lines.push(format!("{node}: {}", held.join(" ")));
    }
    lines.join("; ")
}
