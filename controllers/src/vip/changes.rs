//! The difference between the places that were decided and the VipAddresses there are.
//!
//! A VipAddress is never changed: what differs is deleted, and made again once it is gone, for which its node has to let
//! go of it. Nothing is made while an address, a name or a slot it needs is still somewhere, so at no time do two objects
//! hold one VIP.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ObjectMeta;
use litek8s_crds::{VipAddress, VipAddressSpec, VipService, names as labels};

use super::board::{Place, Seat, Table, Why};
use super::cidr;
use super::claims::Claim;
use super::decision::{Action, Note, NoteKind, Subject};
use super::facts::{AddressFact, Facts, ServiceFact};
use super::marks::Slot;
use super::memory::{Intent, Memory};
use super::names;
use super::networks::Network;
use super::release;

/// What to do, the VipAddresses that stay (by UID), and the places that have to wait.
#[derive(Debug, Default)]
pub(crate) struct Changes<'a> {
    pub(crate) actions: Vec<Action>,
    pub(crate) stay: BTreeMap<&'a str, &'a ServiceFact>,
}

/// Compares. Places that cannot be made yet are remembered in `next`.
pub(crate) fn compare<'a>(
    facts: &'a Facts,
    tables: &[Table<'a>],
    gone: &BTreeSet<&str>,
    next: &mut Memory,
) -> Changes<'a> {
    let mut changes = Changes::default();
    let mut wanted: Vec<(&Table<'a>, &Seat<'a>, &Place, Claim<'a>)> = Vec::new();
    let mut deleted: BTreeMap<&str, String> = BTreeMap::new();
    let mut anew: BTreeSet<&str> = BTreeSet::new();
    for table in tables {
        for seat in &table.seats {
            let Some(claim) = seat.claim else { continue };
            match &seat.outcome {
                Ok(place) => match (claim.object, difference(facts, table.fact, &claim, place)) {
                    (Some(object), None) => {
                        changes.stay.insert(&object.uid, table.fact);
                    }
                    (Some(object), Some(why)) => {
                        deleted.insert(&object.uid, why);
                        if object.spec.node == place.node {
                            anew.insert(&object.uid);
                        }
                        wanted.push((table, seat, place, claim));
                    }
                    (None, _) => wanted.push((table, seat, place, claim)),
                },
                Err(refusal) => {
                    if let Some(object) = claim.object {
                        let cause = seat.left.as_ref().map(|(_, cause)| cause.clone());
                        deleted.insert(&object.uid, cause.unwrap_or_else(|| refusal.to_string()));
                    }
                }
            }
        }
    }
    let refusals = refusals(tables);
    for address in facts.addresses.iter().filter(|address| address.managed && !address.deleting) {
        if changes.stay.contains_key(address.uid.as_str()) {
            continue;
        }
        let why =
            deleted.remove(address.uid.as_str()).unwrap_or_else(|| unclaimed(address, facts, &refusals));
        changes.actions.push(Action::Delete {
            namespace: address.namespace.clone(),
            name: address.name.clone(),
            uid: address.uid.clone(),
            why,
            finalizers: (address.held()
                && (anew.contains(address.uid.as_str())
                    || release::dead(facts, &address.spec.node).is_some()))
            .then(|| release::others(address)),
        });
    }
    // What its own node has again goes at once, and comes in the same breath.
    let gone: BTreeSet<&str> = gone.iter().copied().chain(freed(facts, &anew)).collect();
    changes.actions.sort_by_key(ToString::to_string);
    let mut creates = Vec::new();
    for (table, seat, place, claim) in wanted {
        let (Some(index), Some(slot)) = (place.index, place.slot) else { continue };
        let moved = match &place.why {
            Why::Moved { from, cause } => Some((from.clone(), cause.clone())),
            Why::Kept | Why::Frozen | Why::Leaving(_) | Why::Stuck(_) | Why::Bare(_) | Why::Assigned => None,
        };
        let intent = Intent {
            network: claim.network.map(|network| network.fact.name.clone()),
            node: place.node.clone(),
            index,
            slot,
            replaces: claim.object.map(|object| object.uid.clone()),
            moved,
        };
        if let Some(network) = claim.network {
            let address = object(facts, table.fact, network, &claim, &intent);
            let there = facts.addresses.iter().filter(|address| !gone.contains(address.uid.as_str()));
            if !occupied(there, &address) {
                let note = note(table, seat, place, &intent);
                creates.push(Action::Create { address: Box::new(address), note });
            }
        }
        next.intents.insert(table.key(&claim), intent);
    }
    changes.actions.extend(creates);
    changes
}

/// How a VipAddress differs from its place; nothing when it does not.
fn difference(facts: &Facts, service: &ServiceFact, claim: &Claim<'_>, place: &Place) -> Option<String> {
    let object = claim.object?;
    let network = claim.network?;
    let (Some(index), Some(slot)) = (place.index, place.slot) else {
        return Some("it has no mark, table and priority".to_owned());
    };
    if object.spec.node != place.node {
        return Some(match &place.why {
            Why::Moved { cause, .. } => format!("it moves to {}, {cause}", place.node),
            Why::Kept | Why::Frozen | Why::Leaving(_) | Why::Stuck(_) | Why::Bare(_) | Why::Assigned => {
                format!("it belongs on {}", place.node)
            }
        });
    }
    if object.spec != spec(service, network, claim, &place.node, index, slot)
        || object.name != names::address(&service.key.name, index)
    {
        return Some("its Service, VipNetwork or VipConfig changed".to_owned());
    }
    let owners = [&service.uid, &network.fact.uid];
    (facts.manager.is_empty() || !owners.into_iter().all(|owner| object.owners.contains(owner)))
        .then(|| "its Service or VipNetwork was made anew".to_owned())
}

/// Those of these VipAddresses on which nothing is left that anybody waits for.
fn freed<'a>(facts: &'a Facts, anew: &BTreeSet<&str>) -> impl Iterator<Item = &'a str> {
    let free =
        |address: &&AddressFact| anew.contains(address.uid.as_str()) && release::others(address).is_empty();
    facts.addresses.iter().filter(free).map(|address| address.uid.as_str())
}

/// Whether one of those VipAddresses is in the way of a new one: it has its address, its name or, on the same node, its
/// mark, table or priority.
pub(crate) fn occupied<'a>(mut there: impl Iterator<Item = &'a AddressFact>, new: &VipAddress) -> bool {
    let wanted = &new.spec;
    let ip = cidr::network(&wanted.virtual_cidr).map(|net| net.addr());
    there.any(|address| {
        let spec = &address.spec;
        address.ip() == ip
            || (Some(&address.namespace), Some(&address.name))
                == (new.metadata.namespace.as_ref(), new.metadata.name.as_ref())
            || (spec.node == wanted.node
                && (spec.firewall_mark == wanted.firewall_mark
                    || spec.route_table == wanted.route_table
                    || spec.routing_priority == wanted.routing_priority))
    })
}

fn refusals(tables: &[Table<'_>]) -> BTreeMap<(VipService, String), String> {
    let seats = tables.iter().flat_map(|table| table.seats.iter().map(move |seat| (table, seat)));
    seats
        .filter_map(|(table, seat)| {
            let refusal = seat.outcome.as_ref().err()?;
            Some(((table.fact.key.clone(), seat.text.clone()), refusal.to_string()))
        })
        .collect()
}

/// Why a VipAddress that no place needs is there no longer.
fn unclaimed(
    address: &AddressFact,
    facts: &Facts,
    refusals: &BTreeMap<(VipService, String), String>,
) -> String {
    let Some(ip) = address.ip() else { return "its address cannot be read".to_owned() };
    if let Some(refusal) = refusals.get(&(address.spec.service.clone(), ip.to_string())) {
        return refusal.clone();
    }
    let key = &address.spec.service;
    if !facts.services.iter().any(|service| service.key == *key) {
        return format!("Service {}/{} asks for no VIPs", key.namespace, key.name);
    }
    let listed = facts.services.iter().any(|service| {
        service.key == *key && service.requested.iter().any(|text| super::cidr::address(text) == Some(ip))
    });
    if listed {
        "another VipAddress of its Service holds the address".to_owned()
    } else {
        format!("Service {}/{} does not list it", key.namespace, key.name)
    }
}

fn note(table: &Table<'_>, seat: &Seat<'_>, place: &Place, intent: &Intent) -> Note {
    let subject = Subject::Service(table.fact.key.clone(), table.fact.uid.clone());
    let text = &seat.text;
    match &intent.moved {
        Some((from, cause)) => Note {
            subject,
            kind: NoteKind::VipMoved,
            message: format!("{text} moved from {from} to {}: {cause}", place.node),
        },
        None => Note {
            subject,
            kind: NoteKind::VipAssigned,
            message: format!("{text} assigned to {}: {}", place.node, table.shares.describe(&place.node)),
        },
    }
}

fn spec(
    service: &ServiceFact,
    network: &Network<'_>,
    claim: &Claim<'_>,
    node: &str,
    index: u32,
    slot: Slot,
) -> VipAddressSpec {
    VipAddressSpec {
        service: service.key.clone(),
        index,
        network: network.fact.name.clone(),
        node: node.to_owned(),
        interface: network.interface(node).to_owned(),
        virtual_cidr: format!("{}/{}", claim.ip, network.cidr.prefix_len()),
        gateway_ip: network.gateway.to_string(),
        source_cidrs: network.sources.iter().map(ToString::to_string).collect(),
        firewall_mark: slot.mark,
        route_table: slot.table,
        routing_priority: slot.priority,
        egress_enabled: service.egress,
    }
}

/// The whole VipAddress, with labels and both owners.
fn object(
    facts: &Facts,
    service: &ServiceFact,
    network: &Network<'_>,
    claim: &Claim<'_>,
    intent: &Intent,
) -> VipAddress {
    let spec = spec(service, network, claim, &intent.node, intent.index, intent.slot);
    let mut metadata = ObjectMeta {
        name: Some(names::address(&service.key.name, intent.index)),
        namespace: Some(service.key.namespace.clone()),
        ..ObjectMeta::default()
    };
    let mut set = BTreeMap::from([(labels::LABEL_MANAGED_BY.to_owned(), facts.manager.clone())]);
    let mut full = BTreeMap::new();
    for (label, value) in [
        (labels::LABEL_NAMESPACE, &service.key.namespace),
        (labels::LABEL_NETWORK, &network.fact.name),
        (labels::LABEL_SERVICE, &service.key.name),
        (labels::LABEL_NODE_NAME, &intent.node),
    ] {
        let short = names::label(value);
        if short != *value
            && let Some((_, name)) = label.split_once('/')
        {
            full.insert(format!("{}{name}", labels::ANNOTATION_FULL_PREFIX), value.clone());
        }
        set.insert(label.to_owned(), short);
    }
    metadata.finalizers = Some(vec![labels::FINALIZER_RELEASE.to_owned()]);
    metadata.labels = Some(set);
    metadata.annotations = (!full.is_empty()).then_some(full);
    metadata.owner_references = Some(vec![
        OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Service".to_owned(),
            name: service.key.name.clone(),
            uid: service.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        },
        OwnerReference {
            api_version: format!("{}/v1", labels::GROUP),
            kind: "VipNetwork".to_owned(),
            name: network.fact.name.clone(),
            uid: network.fact.uid.clone(),
            controller: None,
            block_owner_deletion: Some(true),
        },
    ]);
    VipAddress { metadata, spec, status: None }
}

/// The names of VipAddresses of a namespace that are not ours to use.
pub(crate) fn foreign_names<'a>(facts: &'a Facts, namespace: &str) -> BTreeSet<&'a str> {
    facts
        .addresses
        .iter()
        .filter(|address| address.namespace == namespace && !address.managed)
        .map(|address| address.name.as_str())
        .collect()
}
