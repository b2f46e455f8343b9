//! Gives every address a node: what has a place keeps it while it may, the rest goes where most is missing, and then
//! addresses move for balance when that has been wanted long enough.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::board::{Place, Seat, Table, Totals, Why};
use super::claims::Claim;
use super::config::Rules;
use super::facts::{NodeFact, Terminating};
use super::marks::Slot;
use super::memory::{Memory, SeatKey, Wish};
use super::networks::Network;
use super::quota::Shares;
use super::rebalance::{Movable, Move, moves};
use super::refusal::Refusal;

/// How long a minute's moves are remembered.
const MINUTE: SignedDuration = SignedDuration::from_secs(60);

/// What the steps share.
pub(crate) struct Allocator<'a> {
    pub(crate) now: Timestamp,
    pub(crate) rules: Option<&'a Rules>,
    pub(crate) nodes: BTreeMap<&'a str, &'a NodeFact>,
    pub(crate) memory: &'a Memory,
    /// What is remembered for the next decision.
    pub(crate) next: Memory,
    pub(crate) totals: Totals,
    /// When to decide again though nothing changed.
    pub(crate) wake: Option<Timestamp>,
}

/// Where an address is now.
struct Before {
    node: String,
    index: u32,
    slot: Slot,
    moved: Option<(String, String)>,
}

impl<'a> Allocator<'a> {
    /// Decides on all Services, which are in the order in which they choose.
    pub(crate) fn run(&mut self, tables: &mut [Table<'a>]) {
        for table in tables.iter_mut() {
            table.shares = self.shares(table);
            self.keep(table);
        }
        for table in tables.iter_mut() {
            self.assign(table);
        }
        self.next.moves =
            self.memory.moves.iter().copied().filter(|&made| self.now < later(made, MINUTE)).collect();
        for table in tables.iter_mut() {
            self.rebalance(table);
        }
    }

    /// Why a node may not hold a VIP of a network.
    fn unfit(&self, network: &Network<'_>, node: &str) -> Option<String> {
        let Some(fact) = self.nodes.get(node) else { return Some(format!("Node {node} does not exist")) };
        if let Some(unfit) = &fact.unfit {
            return Some(format!("Node {node} {unfit}"));
        }
        let name = &network.fact.name;
        if !network.reaches(fact) {
            return Some(format!("Node {node} is not on VipNetwork {name}"));
        }
        fact.unserved.get(name).map(|why| format!("Node {node} cannot serve VipNetwork {name}: {why}"))
    }

    /// Whether a node may get something new of a network.
    fn takes(&self, network: &Network<'_>, node: &str) -> bool {
        self.unfit(network, node).is_none() && self.nodes.get(node).is_some_and(|fact| fact.mute.is_none())
    }

    fn shares(&self, table: &Table<'a>) -> Shares {
        let mut endpoints = BTreeMap::new();
        let mut addresses = 0;
        let mut networks: BTreeMap<&str, bool> = BTreeMap::new();
        for network in table.seats.iter().filter_map(|seat| seat.claim.as_ref()?.network) {
            let reachable = *networks.entry(&network.fact.name).or_insert_with(|| {
                let mut any = false;
                for (node, presence) in &table.endpoints.nodes {
                    if presence.ready > 0 && self.unfit(network, node).is_none() {
                        endpoints.insert(node.clone(), presence.ready);
                        any = true;
                    }
                }
                any
            });
            addresses += u64::from(reachable);
        }
        Shares::new(addresses, endpoints)
    }

    /// Whether a node with a ready endpoint may hold VIPs of a network.
    fn anybody(&self, table: &Table<'a>, network: &Network<'_>) -> bool {
        table.shares.nodes().any(|node| self.takes(network, node))
    }

    fn before(&self, key: &SeatKey, claim: &Claim<'_>) -> Option<Before> {
        if let Some(object) = claim.object {
            let spec = &object.spec;
            return Some(Before {
                node: spec.node.clone(),
                index: spec.index,
                slot: Slot {
                    mark: spec.firewall_mark,
                    table: spec.route_table,
                    priority: spec.routing_priority,
                },
                moved: None,
            });
        }
        let intent = self.memory.intents.get(key)?;
        Some(Before {
            node: intent.node.clone(),
            index: intent.index,
            slot: intent.slot,
            moved: intent.moved.clone(),
        })
    }

    fn keep(&mut self, table: &mut Table<'a>) {
        let mut kept: Vec<(usize, Before, Why)> = Vec::new();
        for position in 0..table.seats.len() {
            let Some(claim) = table.seats[position].claim else { continue };
            let key = table.key(&claim);
            let Some(before) = self.before(&key, &claim) else { continue };
            table.seats[position].before = Some((before.index, before.slot));
            match self.stays(table, &claim, &key, &before.node) {
                Ok(Why::Kept) => {
                    let why =
                        before.moved.clone().map_or(Why::Kept, |(from, cause)| Why::Moved { from, cause });
                    kept.push((position, before, why));
                }
                Ok(why) => kept.push((position, before, why)),
                Err(cause) => table.seats[position].left = Some((before.node, cause)),
            }
        }
        kept.sort_by_key(|(position, before, _)| (before.index, *position));
        for (position, before, why) in kept {
            let frozen = why == Why::Frozen;
            let full = self.rules.filter(|_| !frozen).and_then(|rules| {
                let limit = rules.limit;
                if table.count(&before.node) >= limit {
                    Some(format!("Node {} has {limit} addresses of this Service, the limit", before.node))
                } else {
                    (self.totals.of(&before.node) >= rules.slots.capacity())
                        .then(|| format!("Node {} has no free mark, route table and priority", before.node))
                }
            });
            let seat = &mut table.seats[position];
            if let Some(cause) = full {
                seat.left = Some((before.node, cause));
                continue;
            }
            self.totals.add(&before.node);
            seat.outcome =
                Ok(Place { node: before.node, index: Some(before.index), slot: Some(before.slot), why });
        }
    }

    /// Whether an address stays on its node, or why not.
    fn stays(
        &mut self,
        table: &Table<'a>,
        claim: &Claim<'a>,
        key: &SeatKey,
        node: &str,
    ) -> Result<Why, String> {
        let (Some(network), Some(rules)) = (claim.network, self.rules) else { return Ok(Why::Frozen) };
        if let Some(cause) = self.unfit(network, node) {
            // It may come back; elsewhere it would not be, either.
            let passing = self.nodes.get(node).is_some_and(|fact| {
                fact.silent || (fact.unfit.is_none() && fact.unserved.contains_key(&network.fact.name))
            });
            return if passing && !self.anybody(table, network) { Ok(Why::Stuck(cause)) } else { Err(cause) };
        }
        let presence = table.endpoints.nodes.get(node).copied().unwrap_or_default();
        if presence.ready > 0 {
            return Ok(Why::Kept);
        }
        let others = self.anybody(table, network);
        if presence.leaving > 0 {
            if !others {
                return Ok(Why::Leaving(None));
            }
            if table.fact.terminating == Terminating::Keep {
                let since = self.memory.leaving.get(key).copied().unwrap_or(self.now);
                let until = later(since, SignedDuration::from_secs(rules.stabilization));
                if self.now < until {
                    self.next.leaving.insert(key.clone(), since);
                    self.wake_at(until);
                    return Ok(Why::Leaving(Some(until)));
                }
            }
            return Err(format!("Node {node} has only terminating endpoints"));
        }
        if others {
            return Err(format!("Node {node} has no ready endpoint"));
        }
        let since = self.memory.bare.get(key).copied().unwrap_or(self.now);
        self.next.bare.insert(key.clone(), since);
        let until = later(since, SignedDuration::from_secs(rules.withdraw_delay));
        if self.now < until {
            self.wake_at(until);
            return Ok(Why::Bare(until));
        }
        Err("there is no ready endpoint".to_owned())
    }

    fn assign(&mut self, table: &mut Table<'a>) {
        let Some(rules) = self.rules else { return };
        for position in 0..table.seats.len() {
            let seat = &table.seats[position];
            let Some(network) = seat.claim.and_then(|claim| claim.network) else { continue };
            if seat.outcome.is_ok() {
                continue;
            }
            match self.best(table, network, rules) {
                Ok(node) => {
                    self.totals.add(&node);
                    let seat = &mut table.seats[position];
                    let why = match seat.left.take() {
                        Some((from, cause)) if from != node => Why::Moved { from, cause },
                        _ => Why::Assigned,
                    };
                    place_again(seat, node, why);
                }
                Err(refusal) => table.seats[position].outcome = Err(refusal),
            }
        }
    }

    /// The node that is furthest below its share and has room.
    fn best(&self, table: &Table<'a>, network: &Network<'_>, rules: &Rules) -> Result<String, Refusal> {
        let on_network: Vec<&String> =
            table.shares.nodes().filter(|node| self.takes(network, node)).collect();
        if on_network.is_empty() {
            let ready = table.endpoints.nodes.iter().any(|(node, presence)| {
                presence.ready > 0 && self.nodes.get(node.as_str()).is_some_and(|node| node.unfit.is_none())
            });
            return Err(if ready {
                let reasons = table.endpoints.nodes.keys().filter_map(|node| {
                    let fact = self.nodes.get(node.as_str())?;
                    let why = fact.unserved.get(&network.fact.name).or(fact.mute.as_ref())?;
                    Some(format!("{node}: {why}"))
                });
                Refusal::NoNodeForNetwork { network: network.fact.name.clone(), reasons: reasons.collect() }
            } else {
                Refusal::NoReadyEndpoint(table.endpoints.nowhere)
            });
        }
        let below: Vec<&String> =
            on_network.into_iter().filter(|node| table.count(node) < rules.limit).collect();
        if below.is_empty() {
            return Err(Refusal::NodeLimit(rules.limit));
        }
        let capacity = rules.slots.capacity();
        below
            .into_iter()
            .filter(|node| self.totals.of(node) < capacity)
            .min_by_key(|node| table.shares.need(node, table.count(node)))
            .cloned()
            .ok_or(Refusal::NodeFull)
    }

    fn rebalance(&mut self, table: &mut Table<'a>) {
        let Some(rules) = self.rules.filter(|_| table.endpoints.settled) else { return };
        for wanted in self.wanted(table, rules) {
            let seat = &table.seats[wanted.seat];
            let Some(claim) = seat.claim else { continue };
            let wish = Wish { seat: table.key(&claim), from: wanted.from.clone(), to: wanted.to.clone() };
            let since = self.memory.wishes.get(&wish).copied().unwrap_or(self.now);
            let due = later(since, SignedDuration::from_secs(rules.stabilization));
            if self.now < due {
                self.wake_at(due);
                self.next.wishes.insert(wish, since);
                continue;
            }
            if let Some(most) = rules.moves_per_minute
                && self.next.moves.len() as u64 >= most
            {
                if let Some(&oldest) = self.next.moves.iter().min() {
                    self.wake_at(later(oldest, MINUTE));
                }
                self.next.wishes.insert(wish, since);
                continue;
            }
            self.next.moves.push(self.now);
            self.totals.remove(&wanted.from);
            self.totals.add(&wanted.to);
            let cause = format!("balance: {} has {}", wanted.to, table.shares.describe(&wanted.to));
            place_again(&mut table.seats[wanted.seat], wanted.to, Why::Moved { from: wanted.from, cause });
        }
    }

    fn wanted(&self, table: &Table<'a>, rules: &Rules) -> Vec<Move> {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        let mut movable = Vec::new();
        for (position, seat) in table.seats.iter().enumerate() {
            let Ok(place) = &seat.outcome else { continue };
            *counts.entry(place.node.clone()).or_default() += 1;
            if let (Why::Kept, Some(index)) = (&place.why, place.index) {
                movable.push(Movable { seat: position, index, node: &place.node });
            }
        }
        let fit: BTreeSet<(&str, &str)> = table
            .seats
            .iter()
            .filter_map(|seat| seat.claim.as_ref()?.network)
            .flat_map(|network| table.shares.nodes().map(move |node| (network, node.as_str())))
            .filter(|(network, node)| self.takes(network, node))
            .map(|(network, node)| (network.fact.name.as_str(), node))
            .collect();
        let capacity = rules.slots.capacity();
        moves(&table.shares, &counts, &movable, |seat, node, count, given| {
            let network = table.seats[seat].claim.as_ref().and_then(|claim| claim.network);
            network.is_some_and(|network| fit.contains(&(network.fact.name.as_str(), node)))
                && count < rules.limit
                && self.totals.of(node) + given < capacity
        })
    }

    fn wake_at(&mut self, time: Timestamp) {
        self.wake = Some(self.wake.map_or(time, |wake| wake.min(time)));
    }
}

fn place_again(seat: &mut Seat<'_>, node: String, why: Why) {
    let (index, slot) = seat.before.unzip();
    seat.outcome = Ok(Place { node, index, slot, why });
}

/// A time later by a span, or the end of time.
pub(crate) fn later(time: Timestamp, span: SignedDuration) -> Timestamp {
    time.saturating_add(span).unwrap_or(Timestamp::MAX)
}
