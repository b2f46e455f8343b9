//! What the marks in a table mean, and which of them have to be withdrawn before anything else changes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::nft::{Part, Table, Value, Verdict, both, mark_chain, mark_of_chain};
use crate::{Desired, Observed, Rule};

/// The interface and address a mark stands for.
pub(super) type Binding = (String, IpAddr);

/// What every mark stands for, by the source NAT maps.
pub(super) fn bindings(table: Option<&Table>) -> BTreeMap<u32, Binding> {
    let maps = both().into_iter().filter_map(|names| table?.sets.get(names.snat_addresses));
    maps.flat_map(|map| &map.elements)
        .filter_map(|(key, value)| match (key.as_slice(), value) {
            ([Part::Mark(mark), Part::Interface(name)], Value::Address(address)) => {
                Some((*mark, (name.clone(), *address)))
            }
            _ => None,
        })
        .collect()
}

/// The mark an element of a verdict map gives.
pub(super) fn mark_of(value: &Value) -> Option<u32> {
    match value {
        Value::Verdict(Verdict::Goto(chain) | Verdict::Jump(chain)) => mark_of_chain(chain),
        Value::Verdict(_) | Value::Nothing | Value::Address(_) => None,
    }
}

/// The marks that packets are given now.
pub(super) fn active(table: Option<&Table>) -> BTreeSet<u32> {
    let sets = table.into_iter().flat_map(|table| table.sets.values());
    sets.flat_map(|set| set.elements.values()).filter_map(mark_of).collect()
}

/// The marks in use whose meaning, or whose table, belongs to another VIP from now on.
pub(super) fn retired(desired: &Desired, observed: &Observed, active: &BTreeSet<u32>) -> BTreeSet<u32> {
    let before = bindings(observed.nft.as_ref());
    let after = bindings(desired.nft.as_ref());
    let owners: BTreeMap<u32, u32> = desired.rules.iter().map(|rule| (rule.table, rule.mark)).collect();
    let of_vips = |rule: &&Rule| rule.mark != 0;
    let mask_changed = observed
        .rules
        .iter()
        .filter(of_vips)
        .any(|rule| desired.rules.iter().filter(of_vips).any(|wanted| wanted.mask != rule.mask));
    active
        .iter()
        .copied()
        .filter(|mark| {
            let rebound = after.get(mark).is_some_and(|binding| before.get(mark) != Some(binding));
            let table_taken = observed
                .rules
                .iter()
                .filter(|rule| rule.mark == *mark)
                .any(|rule| owners.get(&rule.table).is_some_and(|owner| owner != mark));
            rebound || table_taken || mask_changed
        })
        .collect()
}

/// The table without the elements that give or translate these marks.
pub(super) fn without(table: Option<&Table>, marks: &BTreeSet<u32>) -> Option<Table> {
    let mut table = table?.clone();
    if marks.is_empty() {
        return Some(table);
    }
    for set in table.sets.values_mut() {
        set.elements.retain(|key, value| {
            let given = mark_of(value).is_some_and(|mark| marks.contains(&mark));
            let translated = matches!(key.first(), Some(Part::Mark(mark)) if marks.contains(mark));
            !given && !translated
        });
    }
    for mark in marks {
        table.chains.remove(&mark_chain(*mark));
    }
    Some(table)
}

/// Leaves only those destinations of gateways that stay.
pub(super) fn keep_destinations(table: Option<&mut Table>, desired: Option<&Table>) {
    let Some(table) = table else { return };
    for name in both().map(|names| names.gateway_destinations) {
        let staying = desired.and_then(|desired| desired.sets.get(name));
        if let Some(set) = table.sets.get_mut(name) {
            set.elements.retain(|key, _| staying.is_some_and(|staying| staying.elements.contains_key(key)));
        }
    }
}
