//! Which nodes this one watches over, and which of them do not answer. Pure: times are arguments.
//!
//! A node is asked for one of its VIPs on each interface, by three others that all agree on without talking: those that
//! rank first by a hash of both names. Only what has answered once can be missed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use litek8s_crds::VipAddress;
use tokio::time::Instant;

use crate::index::Change;
use crate::vips;

/// How many nodes watch over one.
const WATCHERS: usize = 3;
/// How many questions in a row go without an answer before a node counts as unreachable.
const MISSES: u32 = 3;
/// How long a node stays unreachable when there is nothing to ask it for any more: its VIPs moved.
const MEMORY: Duration = Duration::from_secs(10);

/// A VIP of another node.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    node: String,
    interface: String,
    address: IpAddr,
    uid: String,
}

/// How questions for one VIP went.
#[derive(Debug, Clone, Copy, Default)]
struct Record {
    answered: bool,
    missed: u32,
}

/// What is known of the other nodes.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    own: String,
    nodes: BTreeSet<String>,
    places: BTreeMap<String, Place>,
    /// By our own VIP: the interface and the router of its network.
    routers: BTreeMap<String, (String, IpAddr)>,
    /// How questions for routers went.
    routes: BTreeMap<(String, IpAddr), Record>,
    /// By node and interface: the VIP that is asked for.
    asked: BTreeMap<(String, String), (Place, Record)>,
    unreachable: BTreeMap<String, Instant>,
}

impl Neighbours {
    pub(crate) fn new(own: &str) -> Self {
        Self { own: own.to_owned(), ..Self::default() }
    }

    /// The nodes there are.
    pub(crate) fn set_nodes(&mut self, nodes: impl IntoIterator<Item = String>) {
        self.nodes = nodes.into_iter().collect();
    }

    /// VipAddresses; our own are passed over.
    pub(crate) fn hear(&mut self, change: Change<VipAddress>) {
        match change {
            Change::Reset(all) => {
                self.places.clear();
                self.routers.clear();
                all.iter().for_each(|address| self.apply(address));
            }
            Change::Apply(address) => self.apply(&address),
            Change::Delete(address) => {
                self.places.remove(&vips::key_of(&address));
                self.routers.remove(&vips::key_of(&address));
            }
        }
    }

    fn apply(&mut self, address: &VipAddress) {
        let key = vips::key_of(address);
        let spec = &address.spec;
        match spec.gateway_ip.parse() {
            Ok(router) if spec.node == self.own => {
                self.routers.insert(key.clone(), (spec.interface.clone(), router));
            }
            Ok(_) | Err(_) => {
                self.routers.remove(&key);
            }
        }
        let virtual_cidr: Option<ipnet::IpNet> = spec.virtual_cidr.parse().ok();
        match virtual_cidr {
            Some(cidr) if spec.node != self.own && address.metadata.deletion_timestamp.is_none() => {
                let place = Place {
                    node: spec.node.clone(),
                    interface: spec.interface.clone(),
                    address: cidr.addr(),
                    uid: address.metadata.uid.clone().unwrap_or_default(),
                };
                self.places.insert(key, place);
            }
            Some(_) | None => {
                self.places.remove(&key);
            }
        }
    }

    /// Somebody said that he has an address.
    pub(crate) fn answered(&mut self, address: IpAddr) {
        for (place, record) in self.asked.values_mut().filter(|(place, _)| place.address == address) {
            *record = Record { answered: true, missed: 0 };
            self.unreachable.remove(&place.node);
        }
        for (_, record) in self.routes.iter_mut().filter(|((_, router), _)| *router == address) {
            *record = Record { answered: true, missed: 0 };
        }
    }

    /// Judges the questions so far and says for what to ask next, by interface.
    pub(crate) fn tick(&mut self, now: Instant) -> BTreeMap<String, Vec<IpAddr>> {
        let mut silent: BTreeMap<String, bool> = BTreeMap::new();
        for ((node, _), (_, record)) in &self.asked {
            let missed = record.answered && record.missed >= MISSES;
            let all = silent.entry(node.clone()).or_insert(true);
            *all &= missed;
        }
        let nodes = silent.into_iter().filter(|(_, silent)| *silent).map(|(node, _)| (node, now));
        self.unreachable.extend(nodes);
        self.unreachable.retain(|_, since| *since + MEMORY > now);

        let mut chosen: BTreeMap<(String, String), &Place> = BTreeMap::new();
        for place in self.places.values().filter(|place| self.watches(&place.node)) {
            chosen.entry((place.node.clone(), place.interface.clone())).or_insert(place);
        }
        let mut asked = BTreeMap::new();
        let mut questions: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
        for (key, place) in chosen {
            let mut record = match self.asked.get(&key) {
                Some((before, record)) if before == place => *record,
                Some(_) | None => Record::default(),
            };
            record.missed = record.missed.saturating_add(1);
            questions.entry(place.interface.clone()).or_default().push(place.address);
            asked.insert(key, (place.clone(), record));
        }
        self.asked = asked;
        let mut routes = BTreeMap::new();
        for route in self.routers.values() {
            let mut record = self.routes.get(route).copied().unwrap_or_default();
            record.missed = record.missed.saturating_add(1);
            if routes.insert(route.clone(), record).is_none() {
                questions.entry(route.0.clone()).or_default().push(route.1);
            }
        }
        self.routes = routes;
        questions
    }

    /// Questions that could not be asked are none without an answer.
    pub(crate) fn unasked(&mut self, interface: &str) {
        for ((_, asked_on), (_, record)) in &mut self.asked {
            if asked_on == interface {
                *record = Record::default();
            }
        }
        for ((asked_on, _), record) in &mut self.routes {
            if asked_on == interface {
                record.missed = 0;
            }
        }
    }

    /// Whether nobody answers any more, neighbour or router, of whom at least one did.
    pub(crate) fn alone(&self) -> bool {
        let records = || self.asked.values().map(|(_, record)| record).chain(self.routes.values());
        records().any(|record| record.answered) && records().all(|record| record.missed > MISSES)
    }

    /// The nodes that do not answer.
    pub(crate) fn unreachable(&self) -> BTreeSet<String> {
        self.unreachable.keys().cloned().collect()
    }

    fn watches(&self, node: &str) -> bool {
        let rank = |watcher: &str| (hash(watcher, node), watcher.to_owned());
        let own = rank(&self.own);
        let others = self.nodes.iter().filter(|other| *other != node && **other != self.own);
        others.filter(|other| rank(other) < own).count() < WATCHERS
    }
}

/// FNV-1a: the same in every version of every agent.
fn hash(watcher: &str, node: &str) -> u64 {
    let bytes = watcher.bytes().chain([0]).chain(node.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn vip(name: &str, node: &str, ip: &str) -> VipAddress {
        serde_json::from_value(json!({
            "apiVersion": "netwrangler.dev/v1", "kind": "VipAddress",
            "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}-{node}")},
            "spec": {"service": {"namespace": "default", "name": "web"}, "index": 1, "network": "public",
                "node": node, "interface": "eth1", "virtualCIDR": format!("{ip}/24"), "gatewayIP": "203.0.113.1",
                "firewallMark": 1, "routeTable": 1, "routingPriority": 1},
        }))
        .unwrap()
    }

    fn neighbours() -> Neighbours {
        let mut neighbours = Neighbours::new("a");
        neighbours.set_nodes(["a", "b", "c"].map(str::to_owned));
        let all = vec![vip("x", "a", "203.0.113.10"), vip("y", "b", "203.0.113.11")];
        neighbours.hear(Change::Reset(all));
        neighbours
    }

    const Y: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 11));

    #[test]
    fn a_node_that_answered_once_and_missed_three_is_unreachable_until_it_answers() {
        let mut neighbours = neighbours();
        let now = Instant::now();
        for _ in 0..9 {
            let router = IpAddr::from([203, 0, 113, 1]);
            assert_eq!(neighbours.tick(now), BTreeMap::from([("eth1".to_owned(), vec![Y, router])]));
        }
        assert!(neighbours.unreachable().is_empty(), "it was never there");
        neighbours.answered(Y);
        for _ in 0..3 {
            neighbours.tick(now);
            assert!(neighbours.unreachable().is_empty());
        }
        neighbours.tick(now);
        assert_eq!(neighbours.unreachable(), BTreeSet::from(["b".to_owned()]));
        // Its VIP moves to c: it stays unreachable for a while.
        neighbours.hear(Change::Apply(vip("y", "c", "203.0.113.11")));
        neighbours.tick(now + Duration::from_secs(1));
        assert_eq!(neighbours.unreachable(), BTreeSet::from(["b".to_owned()]));
        neighbours.tick(now + Duration::from_secs(12));
        assert!(neighbours.unreachable().is_empty());
    }

    #[test]
    fn a_node_is_alone_when_neither_neighbour_nor_router_answers_any_more() {
        let mut neighbours = neighbours();
        let router = IpAddr::from([203, 0, 113, 1]);
        let ask = |neighbours: &mut Neighbours, times: u32| {
            (0..times).for_each(|_| drop(neighbours.tick(Instant::now())));
        };
        ask(&mut neighbours, 9);
        assert!(!neighbours.alone(), "nobody ever answered");
        neighbours.answered(router);
        neighbours.answered(Y);
        ask(&mut neighbours, 9);
        assert!(neighbours.alone());
        neighbours.answered(router);
        assert!(!neighbours.alone(), "the router answers");
    }

    #[test]
    fn what_cannot_be_asked_is_not_missed() {
        let mut neighbours = neighbours();
        neighbours.tick(Instant::now());
        neighbours.answered(Y);
        for _ in 0..9 {
            neighbours.tick(Instant::now());
            neighbours.unasked("eth1");
        }
        assert!(neighbours.unreachable().is_empty());
    }

    #[test]
    fn three_nodes_watch_over_each_whoever_asks() {
        let nodes: Vec<String> = (0..20).map(|number| format!("node-{number}")).collect();
        for node in &nodes {
            let watchers = nodes.iter().filter(|watcher| *watcher != node).filter(|watcher| {
                let mut neighbours = Neighbours::new(watcher);
                neighbours.set_nodes(nodes.clone());
                neighbours.watches(node)
            });
            assert_eq!(watchers.count(), WATCHERS);
        }
    }
}
