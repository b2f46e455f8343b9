//! The changes that turn what is there into what should be, in an order that is safe after every single one.
//!
//! Invariant: a packet of a new connection that carries a VIP's mark leaves by that VIP's interface with that VIP as
//! its source, or not at all. So a mark is given only when address, routes and rule are there, and they go only after
//! the mark is no longer given. And a packet to a gateway's destination goes through the gateway's table from the moment
//! it takes no mark until it takes one again.
//!
//! The order: lifetimes of addresses are renewed, which changes nothing else → marks whose meaning changes are withdrawn
//! → their rules and routes, which would mislead the new holder, go → allowed IPs, routes and rules of gateways → addresses
//! → routes → rules of VIPs → one nftables transaction that adds and removes the rest → connections of what left are
//! forgotten → rules, routes, allowed IPs, addresses that are left over → what came in until then is forgotten too →
//! announcement.

mod flows;
mod marks;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

pub use flows::recheck;

use crate::nft::changes;
use crate::{
    Address, AddressKey, Desired, FALLBACK_METRIC, Family, Flow, LIFETIME, Observed, Op, Route, RouteKey,
    Rule,
};

/// The least list of changes that turns `observed` into `desired`; nothing when a node is settled.
pub fn diff(desired: &Desired, observed: &Observed) -> Vec<Op> {
    let mut ops = promotions(desired, observed);
    ops.extend(renewals(desired, observed));

    let stale = Stale::new(desired, observed);
    let mut kept = marks::without(observed.nft.as_ref(), &stale.retired);
    if stale.gateway_displaced {
        marks::keep_destinations(kept.as_mut(), desired.nft.as_ref());
    }
    transaction(&mut ops, changes(kept.as_ref(), observed.nft.as_ref()));
    ops.extend(flows::of_retired(desired, observed, &stale.retired));
    make_way(&mut ops, desired, observed, &stale);

    let tables = gateway_tables(desired);
    let added = add_addresses(&mut ops, desired, observed);
    add_routes(&mut ops, desired, observed, |table| !tables.contains(&table));
    ops.extend(new_rules(desired, observed, false).map(Op::AddRule));
    transaction(&mut ops, changes(desired.nft.as_ref(), kept.as_ref()));
    ops.extend(flows::of_changed(desired, observed, &stale.retired));

    ops.extend(stale.rules_late.iter().map(|rule| Op::DeleteRule(*rule)));
    ops.extend(stale.routes_late.iter().map(|(key, route)| Op::DeleteRoute(*key, route.clone())));
    let unwanted = observed.allowed_ips.iter().filter(|(key, _)| !desired.allowed_ips.contains_key(*key));
    ops.extend(unwanted.map(|(key, peer)| Op::RemoveAllowedIp(key.clone(), *peer)));
    let gone: Vec<&AddressKey> =
        observed.addresses.keys().filter(|key| !desired.addresses.contains_key(*key)).collect();
    ops.extend(gone.iter().map(|key| Op::DeleteAddress((*key).clone())));
    // A connection that came while its VIP was on its way out was answered, without a mark.
    let stays = |address| desired.addresses.keys().any(|key| key.address.addr() == address);
    let left = gone.iter().map(|key| key.address.addr()).filter(|&address| !stays(address));
    ops.extend(left.map(|address| Op::Forget(Flow::Address(address))));

    ops.extend(announcements(&added, observed));
    ops
}

/// Everything early that has to go, and the gateways: after the VIPs whose tables they take, and before the gateways
/// whose tables VIPs take.
fn make_way(ops: &mut Vec<Op>, desired: &Desired, observed: &Observed, stale: &Stale) {
    let (displaced, early): (Vec<&Rule>, Vec<&Rule>) =
        stale.rules_early.iter().partition(|rule| is_gateways(rule));
    let emptied: BTreeSet<u32> = displaced.iter().map(|rule| rule.table).collect();
    let delete_routes = |ops: &mut Vec<Op>, wanted: bool| {
        let routes = stale.routes_early.iter().filter(|(key, _)| emptied.contains(&key.table) == wanted);
        ops.extend(routes.map(|(key, route)| Op::DeleteRoute(*key, route.clone())));
    };
    ops.extend(early.into_iter().map(|rule| Op::DeleteRule(*rule)));
    delete_routes(ops, false);
    // What a gateway pod sends must not come back to it from the moment it is led to.
    let (guards, rules): (Vec<Rule>, Vec<Rule>) =
        new_rules(desired, observed, true).partition(|rule| rule.from.is_some());
    let tables = gateway_tables(desired);
    ops.extend(guards.into_iter().map(Op::AddRule));
    let wanted =
        desired.allowed_ips.iter().filter(|&(key, peer)| observed.allowed_ips.get(key) != Some(peer));
    ops.extend(wanted.map(|(key, peer)| Op::AddAllowedIp(key.clone(), *peer)));
    add_routes(ops, desired, observed, |table| tables.contains(&table));
    ops.extend(rules.into_iter().map(Op::AddRule));
    ops.extend(displaced.into_iter().map(|rule| Op::DeleteRule(*rule)));
    delete_routes(ops, true);
}

/// The rules of gateways, or those of VIPs, that are not there yet.
fn new_rules<'a>(
    desired: &'a Desired,
    observed: &'a Observed,
    gateways: bool,
) -> impl Iterator<Item = Rule> + 'a {
    let new = desired.rules.difference(&observed.rules).filter(move |rule| is_gateways(rule) == gateways);
    new.copied()
}

fn gateway_tables(desired: &Desired) -> BTreeSet<u32> {
    desired.rules.iter().filter(|rule| is_gateways(rule)).map(|rule| rule.table).collect()
}

/// Whether it leads packets without a mark: a gateway's, or the guard of one of its pods.
fn is_gateways(rule: &Rule) -> bool {
    rule.mark == 0
}

/// A lifetime below this many seconds is renewed: an agent looks three times before it ends.
const RENEW_BELOW: u32 = LIFETIME / 4 * 3;
/// For how long, in seconds, addresses outlive an agent that was told to end: long enough to replace it.
const PARTING: u32 = 600;

/// Lifetimes that come to their end, or are longer than an agent's that lives.
fn renewals(desired: &Desired, observed: &Observed) -> Vec<Op> {
    let due = |there: &Address| there.seconds < RENEW_BELOW || there.seconds > LIFETIME;
    let kept = desired.addresses.iter().filter(|(key, address)| {
        observed
            .addresses
            .get(*key)
            .is_some_and(|there| there.no_prefix_route == address.no_prefix_route && due(there))
    });
    kept.filter(|_| desired.renew)
        .map(|(key, address)| Op::RenewAddress(key.clone(), address.clone()))
        .collect()
}

/// What an agent does last: its addresses stay while another one takes its place.
pub fn parting(observed: &Observed) -> Vec<Op> {
    let longer = |address: &Address| Address { seconds: PARTING, ..address.clone() };
    observed.addresses.iter().map(|(key, address)| Op::RenewAddress(key.clone(), longer(address))).collect()
}

fn transaction(ops: &mut Vec<Op>, changes: Vec<crate::nft::Change>) {
    if !changes.is_empty() {
        ops.push(Op::Nft(changes));
    }
}

/// Without it, deleting the first IPv4 address of a subnet deletes the others too, the node's own among them.
fn promotions(desired: &Desired, observed: &Observed) -> Vec<Op> {
    let all = desired.addresses.keys().chain(observed.addresses.keys());
    let used: BTreeSet<&String> =
        all.filter(|key| key.family() == Family::V4).map(|key| &key.interface).collect();
    used.into_iter()
        .filter(|name| observed.interfaces.get(*name).is_some_and(|interface| !interface.promote_secondaries))
        .map(|name| Op::PromoteSecondaries(name.clone()))
        .collect()
}

/// Rules and routes that have to go, and whether before the marks are given or after they are withdrawn.
struct Stale {
    /// Marks that are given now and will mean something else.
    retired: BTreeSet<u32>,
    /// Whether a VIP takes over a gateway's table.
    gateway_displaced: bool,
    rules_early: Vec<Rule>,
    rules_late: Vec<Rule>,
    routes_early: Vec<(RouteKey, Route)>,
    routes_late: Vec<(RouteKey, Route)>,
}

impl Stale {
    fn new(desired: &Desired, observed: &Observed) -> Self {
        let active = marks::active(observed.nft.as_ref());
        let retired = marks::retired(desired, observed, &active);
        let of_vips: BTreeSet<u32> =
            desired.rules.iter().filter(|rule| !is_gateways(rule)).map(|rule| rule.table).collect();
        // What a mark that is given until the transaction still needs goes late, and so does what a gateway has: its
        // destination is marked again first.
        let in_use = |rule: &Rule| match rule.mark {
            0 => !of_vips.contains(&rule.table),
            mark => active.contains(&mark) && !retired.contains(&mark),
        };
        let gateway_displaced = observed.rules.iter().any(|rule| is_gateways(rule) && !in_use(rule));
        let (rules_late, rules_early) =
            observed.rules.difference(&desired.rules).partition(|rule| in_use(rule));
        let tables_in_use: BTreeSet<u32> =
            observed.rules.iter().filter(|rule| in_use(rule)).map(|rule| rule.table).collect();
        let (routes_late, routes_early) = observed
            .routes
            .iter()
            .filter(|(key, _)| !desired.routes.contains_key(*key))
            .map(|(key, route)| (*key, route.clone()))
            // Within one table the fallback goes last.
            .collect::<BTreeMap<_, _>>()
            .into_iter()
            .partition(|(key, _)| tables_in_use.contains(&key.table));
        let mut stale =
            Self { retired, gateway_displaced, rules_early, rules_late, routes_early, routes_late };
        stale.routes_late.sort_by_key(|(key, _)| (key.metric == FALLBACK_METRIC, *key));
        stale.routes_early.sort_by_key(|(key, _)| (key.metric == FALLBACK_METRIC, *key));
        stale
    }
}

/// Adds what is missing; what is there with other flags is deleted first, as its flags cannot be changed.
fn add_addresses(ops: &mut Vec<Op>, desired: &Desired, observed: &Observed) -> Vec<AddressKey> {
    let mut added = Vec::new();
    for (key, address) in &desired.addresses {
        match observed.addresses.get(key) {
            Some(there) if there.no_prefix_route == address.no_prefix_route => continue,
            Some(_) => ops.push(Op::DeleteAddress(key.clone())),
            None => {}
        }
        ops.push(Op::AddAddress(key.clone(), address.clone()));
        added.push(key.clone());
    }
    added
}

/// The fallback first, then what is connected, then what lies behind a gateway that has to be reachable for it.
fn add_routes(ops: &mut Vec<Op>, desired: &Desired, observed: &Observed, of: impl Fn(u32) -> bool) {
    let rank = |route: &Route| match route {
        Route::Unreachable | Route::Other => 0,
        Route::Link { .. } => 1,
        Route::Via { .. } | Route::Multipath { .. } => 2,
    };
    let mut wanted: Vec<(&RouteKey, &Route)> =
        desired.routes.iter().filter(|&(key, route)| observed.routes.get(key) != Some(route)).collect();
    wanted.retain(|(key, _)| of(key.table));
    wanted.sort_by_key(|(key, route)| (rank(route), **key));
    for (&key, route) in wanted {
        ops.push(match observed.routes.get(&key) {
            Some(_) => Op::ReplaceRoute(key, route.clone()),
            None => Op::AddRoute(key, route.clone()),
        });
    }
}

fn announcements(added: &[AddressKey], observed: &Observed) -> Vec<Op> {
    let mut by_interface: BTreeMap<&String, Vec<IpAddr>> = BTreeMap::new();
    for key in added {
        if observed.interfaces.get(&key.interface).is_some_and(|interface| interface.up) {
            by_interface.entry(&key.interface).or_default().push(key.address.addr());
        }
    }
    by_interface
        .into_iter()
        .map(|(interface, addresses)| Op::Announce { interface: interface.clone(), addresses })
        .collect()
}

#[cfg(test)]
mod tests;
