//! Which tracked connections to forget.
//!
//! Connection tracking keeps the source a connection began with. When that is no longer right, forgetting it makes the
//! next packet a new connection: the peer resets it and the application knows at once, instead of hanging for minutes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use super::marks::{bindings, mark_of};
use crate::family::network_between;
use crate::nft::{Part, Table, both, names};
use crate::{Desired, Family, Flow, Observed, Op};

/// Where a pod's marked connections go, and with which source.
#[derive(Default, PartialEq, Eq)]
struct Egress {
    networks: Vec<IpNet>,
    sources: BTreeSet<IpAddr>,
}

/// Connections of VIPs whose marks were withdrawn because they mean something else from now on.
pub(super) fn of_retired(desired: &Desired, observed: &Observed, retired: &BTreeSet<u32>) -> Vec<Op> {
    let bound = bindings(observed.nft.as_ref());
    let addresses: BTreeSet<IpAddr> =
        retired.iter().filter_map(|mark| bound.get(mark)).map(|(_, address)| *address).collect();
    let leaving = leaving(desired, observed);
    addresses.intersection(&leaving).map(|address| Op::Forget(Flow::Address(*address))).collect()
}

/// Connections of the other VIPs that leave, and of pods whose VIP is another one from now on.
pub(super) fn of_changed(desired: &Desired, observed: &Observed, retired: &BTreeSet<u32>) -> Vec<Op> {
    let bound = bindings(observed.nft.as_ref());
    let done: BTreeSet<IpAddr> =
        retired.iter().filter_map(|mark| bound.get(mark)).map(|(_, address)| *address).collect();
    let leaving = leaving(desired, observed);
    let mut flows: Vec<Flow> = leaving.difference(&done).map(|address| Flow::Address(*address)).collect();

    let (before, after) = (egress(observed.nft.as_ref()), egress(desired.nft.as_ref()));
    for (&pod, now) in &after {
        if before.get(&pod) != Some(now) {
            flows.push(Flow::Pod {
                pod,
                networks: now.networks.clone(),
                except: unmarked(desired, Family::of(pod)),
                keep: now.sources.clone(),
            });
        }
    }
    for family in [Family::V4, Family::V6] {
        let destinations = |table| networks_of(table, names(family).gateway_destinations);
        let (led, known) = (destinations(desired.nft.as_ref()), destinations(observed.nft.as_ref()));
        let without = |these: &[IpNet], those: &[IpNet]| -> Vec<IpNet> {
            these.iter().filter(|network| !those.contains(network)).copied().collect()
        };
        let (new, freed) = (without(&led, &known), without(&known, &led));
        // Connections to a destination that a gateway took over keep a VIP as their source, and would not come back.
        if !new.is_empty() {
            flows.extend(before.keys().filter(|pod| Family::of(**pod) == family).map(|&pod| Flow::Pod {
                pod,
                networks: new.clone(),
                except: Vec::new(),
                keep: BTreeSet::from([pod]),
            }));
        }
        // Those that went through a gateway have no VIP as their source, and from now on nothing else is let through.
        if !freed.is_empty() {
            flows.extend(after.iter().filter(|(pod, _)| Family::of(**pod) == family).map(|(&pod, now)| {
                Flow::Pod {
                    pod,
                    networks: freed.clone(),
                    except: unmarked(desired, family),
                    keep: now.sources.clone(),
                }
            }));
        }
    }
    for (&pod, was) in &before {
        let kept = after.get(&pod).map(|now| now.sources.clone()).unwrap_or_default();
        for &source in was.sources.difference(&kept) {
            if !leaving.contains(&source) {
                flows.push(Flow::PodSource { pod, source });
            }
        }
    }
    flows.into_iter().map(Op::Forget).collect()
}

/// What an agent does once after its start, when the one before may have died between marking and forgetting:
/// connections of mapped pods that leave with another source than their VIPs are forgotten.
pub fn recheck(desired: &Desired) -> Vec<Op> {
    egress(desired.nft.as_ref())
        .into_iter()
        .map(|(pod, now)| {
            let (networks, keep) = (now.networks, now.sources);
            Op::Forget(Flow::Pod { pod, networks, except: unmarked(desired, Family::of(pod)), keep })
        })
        .collect()
}

/// Where connections of pods go without a mark.
fn unmarked(desired: &Desired, family: Family) -> Vec<IpNet> {
    let table = desired.nft.as_ref();
    let mut networks = networks_of(table, names(family).cluster_networks);
    networks.extend(networks_of(table, names(family).gateway_destinations));
    networks
}

/// Addresses that were VIPs on an interface and will not be there any more.
fn leaving(desired: &Desired, observed: &Observed) -> BTreeSet<IpAddr> {
    let staying: BTreeSet<(String, IpAddr)> = desired
        .addresses
        .keys()
        .map(|key| (key.interface.clone(), key.address.addr()))
        .chain(bindings(desired.nft.as_ref()).into_values())
        .collect();
    observed
        .addresses
        .keys()
        .map(|key| (key.interface.clone(), key.address.addr()))
        .chain(bindings(observed.nft.as_ref()).into_values())
        .filter(|binding| !staying.contains(binding))
        .map(|(_, address)| address)
        .collect()
}

fn egress(table: Option<&Table>) -> BTreeMap<IpAddr, Egress> {
    let bound = bindings(table);
    let mut pods: BTreeMap<IpAddr, Egress> = BTreeMap::new();
    let maps = both().into_iter().flat_map(|names| [names.egress_marks, names.egress_marks_default]);
    let sets = maps.filter_map(|map| table?.sets.get(map));
    for (key, value) in sets.flat_map(|set| &set.elements) {
        let Some(Part::Addresses(pod, _)) = key.first() else { continue };
        let network = match key.get(1) {
            Some(part) => network_of(part),
            None => Some(Family::of(*pod).everywhere()),
        };
        let source = mark_of(value).and_then(|mark| bound.get(&mark)).map(|(_, address)| *address);
        let egress = pods.entry(*pod).or_default();
        egress.networks.extend(network);
        egress.sources.extend(source);
    }
    pods
}

fn networks_of(table: Option<&Table>, set: &str) -> Vec<IpNet> {
    let set = table.and_then(|table| table.sets.get(set));
    set.into_iter().flat_map(|set| set.elements.keys()).filter_map(|key| network_of(key.first()?)).collect()
}

fn network_of(part: &Part) -> Option<IpNet> {
    let Part::Addresses(first, last) = part else { return None };
    network_between(*first, *last)
}
