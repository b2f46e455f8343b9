//! Facts in, changes with reasons out. No clock, no network, no order of maps: the same facts give the same decision.

use std::collections::{BTreeMap, BTreeSet};

use super::allocate::Allocator;
use super::board::{Table, Totals, Why};
use super::changes::{self, Changes};
use super::claims::Claims;
use super::config;
use super::decision::{Action, Decision, Note, NoteKind, Subject};
use super::egress::{self, Exit};
use super::endpoints;
use super::facts::{AddressFact, Facts, ServiceFact};
use super::guard;
use super::marks::{Ledger, Slot, Slots};
use super::memory::Memory;
use super::names;
use super::networks;
use super::refusal::Refusal;
use super::release;
use super::report;

/// Decides where every VIP belongs and what has to change for it.
pub fn decide(facts: &Facts, memory: &Memory) -> Decision {
    let judged = config::judge(facts);
    let networks = networks::judge(facts, memory);
    let mut services: Vec<&ServiceFact> = facts.services.iter().collect();
    services.sort_by_key(|service| (service.created, &service.key));
    let claims = Claims::new(facts, &services, &networks, judged.rules.is_some(), memory);
    let mut tables: Vec<Table<'_>> = services
        .into_iter()
        .map(|service| Table::new(service, endpoints::count(service), claims.of(service)))
        .collect();

    let mut allocator = Allocator {
        now: facts.now,
        rules: judged.rules.as_ref(),
        nodes: facts.nodes.iter().map(|node| (node.name.as_str(), node)).collect(),
        memory,
        next: Memory::default(),
        totals: Totals::default(),
        wake: None,
    };
    for address in facts.addresses.iter().filter(|address| !address.managed) {
        allocator.totals.add(&address.spec.node);
    }
    allocator.run(&mut tables);
    number(facts, &mut tables);
    slots(facts, judged.rules.as_ref().map(|rules| &rules.slots), &mut tables);

    let services = tables.iter().map(|table| report::service(table, &allocator)).collect();
    let networks = facts.networks.iter().map(|fact| report::network(fact, &networks, facts)).collect();
    let Allocator { mut next, wake, .. } = allocator;
    let releases = release::decide(facts, memory, &mut next);
    let changes = changes::compare(facts, &tables, &releases.gone, &mut next);
    let Changes { actions: changed, stay } = changes;
    let mut actions = guard::changes(facts);
    actions.extend(releases.actions);
    actions.extend(changed);
    actions.extend(mappings(facts, &tables, &stay));
    let mut decision = Decision {
        actions,
        notes: releases.notes,
        config: facts.config.as_ref().map(|fact| report::config(fact, &judged)),
        networks,
        services,
        wake: wake.into_iter().chain(releases.wake).chain(facts.silence).min(),
        memory: next,
    };
    decision.networks.sort_by(|a, b| a.name.cmp(&b.name));
    notes(&tables, memory, &mut decision);
    decision
}

/// Gives each new place the lowest free index of its Service.
fn number(facts: &Facts, tables: &mut [Table<'_>]) {
    for table in tables {
        let service = &table.fact.key;
        let mut used: BTreeSet<u32> = changes::foreign_names(facts, &service.namespace)
            .into_iter()
            .filter_map(|name| names::index(&service.name, name))
            .collect();
        let mut places: Vec<_> =
            table.seats.iter_mut().filter_map(|seat| seat.outcome.as_mut().ok()).collect();
        for place in &mut places {
            place.index = place.index.filter(|&index| used.insert(index));
        }
        let mut free = 1..;
        for place in places {
            if place.index.is_none() {
                place.index = free.by_ref().find(|&index| used.insert(index));
            }
        }
    }
}

/// Gives each place a mark, a table and a priority of its own on its node; first those that have theirs already.
fn slots(facts: &Facts, slots: Option<&Slots>, tables: &mut [Table<'_>]) {
    let mut ledger = Ledger::default();
    for address in facts.addresses.iter().filter(|address| !address.managed) {
        ledger.take(&address.spec.node, of(address));
    }
    let Some(slots) = slots else { return };
    let mut missing = Vec::new();
    for (number, table) in tables.iter_mut().enumerate() {
        for (position, seat) in table.seats.iter_mut().enumerate() {
            let object = seat.claim.and_then(|claim| claim.object);
            let Ok(place) = &mut seat.outcome else { continue };
            if place.why == Why::Frozen {
                place.slot.map(|slot| ledger.take(&place.node, slot));
                continue;
            }
            let stays = object.is_none_or(|object| object.spec.node == place.node);
            let kept =
                place.slot.filter(|&slot| stays && slots.allows(slot) && ledger.take(&place.node, slot));
            if kept.is_none() {
                missing.push((number, position));
            }
        }
    }
    for (table, position) in missing {
        let seat = &mut tables[table].seats[position];
        let Ok(place) = &mut seat.outcome else { continue };
        match ledger.give(slots, &place.node, place.slot) {
            Some(slot) => place.slot = Some(slot),
            None => seat.outcome = Err(Refusal::NodeFull),
        }
    }
}

fn of(address: &AddressFact) -> Slot {
    Slot {
        mark: address.spec.firewall_mark,
        table: address.spec.route_table,
        priority: address.spec.routing_priority,
    }
}

/// The pods of the VIPs that stay, where they differ from what is written.
fn mappings(facts: &Facts, tables: &[Table<'_>], stay: &BTreeMap<&str, &ServiceFact>) -> Vec<Action> {
    let mut exits = Vec::new();
    for table in tables.iter().filter(|table| table.fact.egress) {
        let own = facts.addresses.iter().filter(|address| {
            address.spec.egress_enabled
                && stay.get(address.uid.as_str()).is_some_and(|service| service.key == table.fact.key)
        });
        exits.extend(own.map(|address| Exit { service: table.fact, address }));
    }
    let mapped = egress::map(&exits);
    let mut actions: Vec<(String, Action)> = Vec::new();
    for address in facts.addresses.iter().filter(|address| stay.contains_key(address.uid.as_str())) {
        let endpoints = mapped.get(address.uid.as_str()).cloned().unwrap_or_default();
        if endpoints != address.endpoints {
            let action = Action::Map {
                namespace: address.namespace.clone(),
                name: address.name.clone(),
                uid: address.uid.clone(),
                endpoints,
            };
            actions.push((format!("{}/{}", address.namespace, address.name), action));
        }
    }
    actions.sort_by(|a, b| a.0.cmp(&b.0));
    actions.into_iter().map(|(_, action)| action).collect()
}

/// Events for what has no place, once for each change of the reason.
fn notes(tables: &[Table<'_>], memory: &Memory, decision: &mut Decision) {
    for table in tables {
        for seat in &table.seats {
            let Err(refusal) = &seat.outcome else { continue };
            let key = (Some(table.fact.key.clone()), seat.text.clone());
            let text = format!("{}: {refusal}", seat.text);
            if memory.said.get(&key) != Some(&text) {
                decision.notes.push(Note {
                    subject: Subject::Service(table.fact.key.clone(), table.fact.uid.clone()),
                    kind: refusal.note(),
                    message: text.clone(),
                });
            }
            decision.memory.said.insert(key, text);
        }
    }
    for network in decision.networks.iter().filter(|network| !network.ready.good) {
        let key = (None, network.name.clone());
        let text = network.ready.message.clone();
        if memory.said.get(&key) != Some(&text) {
            decision.notes.push(Note {
                subject: Subject::Network(network.name.clone(), network.uid.clone()),
                kind: NoteKind::NetworkDisabled,
                message: text.clone(),
            });
        }
        decision.memory.said.insert(key, text);
    }
}

#[cfg(test)]
mod tests;
