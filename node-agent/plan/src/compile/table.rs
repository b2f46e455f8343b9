//! The nftables table of a node.
//!
//! Every lookup is alone in a chain of its own, so that a map can be made anew and its one rule with it. A mark chain
//! ends in `accept`: what came first stays, and a reply of a VIP's connection is not marked again for another VIP.
//!
//! IPv4's sets and chains are always there, those of IPv6 while the node has a VIP, a gateway or a guarded pod of that
//! family. A rule of one family lets the packets of the other pass.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use super::{Accepted, egress_claims};
use crate::nft::{
    Base, Chain, Field, Kind, Names, Part, Rule, Selector, Set, Table, VIP_MARKS, Value, Verdict, mark_chain,
    names,
};
use crate::{Facts, Family, MarkNetworks, merged};

const PREROUTING: Base = Base { kind: "filter", hook: 0, priority: 0 };
/// Of type `route`, so that the kernel routes a packet again after its mark changed.
const OUTPUT: Base = Base { kind: "route", hook: 3, priority: -150 };
/// For what the node itself says.
const LOCAL: Base = Base { kind: "filter", hook: 3, priority: 0 };
/// Before the usual source NAT at 100.
const POSTROUTING: Base = Base { kind: "nat", hook: 4, priority: 90 };
/// After all source NAT: what a packet looks like here is how it leaves.
const LAST: Base = Base { kind: "filter", hook: 4, priority: 200 };

pub(super) fn table(facts: &Facts, accepted: &[Accepted<'_>], destinations: &[IpNet]) -> Table {
    let vips = accepted.iter().map(|accepted| accepted.vip.address());
    let gateways = destinations.iter().map(IpNet::addr);
    let six = vips.chain(gateways).chain(super::guard::pods(facts)).any(|address| address.is_ipv6());
    let families: &[Family] = if six { &[Family::V4, Family::V6] } else { &[Family::V4] };
    let mut table = Table { sets: sets(families), chains: fixed_chains(facts.mask, families) };
    for &family in families {
        let nodes = facts.node_addresses.iter().copied().map(IpNet::from);
        let all = facts.cluster_networks.iter().copied().chain(nodes).chain(family.unmarked());
        for network in merged(all.filter(|network| Family::of(network.addr()) == family)) {
            add(&mut table, names(family).cluster_networks, vec![network.into()], Value::Nothing);
        }
    }
    for network in merged(destinations.iter().copied()) {
        add(
            &mut table,
            names(Family::of(network.addr())).gateway_destinations,
            vec![network.into()],
            Value::Nothing,
        );
    }
    // A pod that shares a link with a gateway pod is told to go there directly, and would stay there when it is gone.
    let led: BTreeSet<Family> = destinations.iter().map(|network| Family::of(network.addr())).collect();
    let redirect = |family| Rule::Redirect(family, names(family).cluster_networks.to_owned(), Verdict::Drop);
    if !led.is_empty() {
        let rules = led.into_iter().map(redirect).collect();
        table.chains.insert("filter-output".to_owned(), Chain { base: Some(LOCAL), rules });
    }
    super::guard::add(&mut table, facts, families);
    for Accepted { vip, networks } in accepted {
        let names = names(vip.family());
        let chain = mark_chain(vip.mark);
        let rules = vec![Rule::SetMark { keep: !facts.mask, mark: vip.mark }, Rule::Always(Verdict::Accept)];
        table.chains.insert(chain.clone(), Chain { base: None, rules });
        let verdict = Value::Verdict(Verdict::Goto(chain));
        let address = Part::from(vip.address());
        match &networks.marks {
            MarkNetworks::Specific(marks) => {
                for &network in marks {
                    let key = vec![address.clone(), network.into()];
                    add(&mut table, names.ingress_marks, key, verdict.clone());
                }
            }
            MarkNetworks::CatchAll => {
                add(&mut table, names.ingress_marks_default, vec![address], verdict.clone());
                // In the order of the marks: a pod that two catch-alls claim stays with the first.
                for pod in vip.pods() {
                    let map = table.sets.get_mut(names.egress_marks_default);
                    if let Some(map) = map {
                        map.elements.entry(vec![pod.into()]).or_insert_with(|| verdict.clone());
                    }
                }
            }
        }
        let key = vec![Part::Mark(vip.mark), Part::Interface(vip.interface.clone())];
        add(&mut table, names.snat_addresses, key, Value::Address(vip.address()));
        add(&mut table, VIP_MARKS, vec![Part::Mark(vip.mark)], Value::Nothing);
        let exit = vec![Part::Mark(vip.mark), vip.address().into(), Part::Interface(vip.interface.clone())];
        add(&mut table, names.vip_exits, exit, Value::Verdict(Verdict::Accept));
    }
    for ((pod, network), mark) in egress_claims(accepted) {
        let key = vec![pod.into(), network.into()];
        let map = names(Family::of(pod)).egress_marks;
        add(&mut table, map, key, Value::Verdict(Verdict::Goto(mark_chain(mark))));
    }
    table
}

fn add(table: &mut Table, set: &str, key: Vec<Part>, value: Value) {
    if let Some(set) = table.sets.get_mut(set) {
        set.elements.insert(key, value);
    }
}

fn sets(families: &[Family]) -> BTreeMap<String, Set> {
    let set =
        |key: &[Field], kind, interval| Set { key: key.to_vec(), kind, interval, elements: BTreeMap::new() };
    let mut sets = vec![(VIP_MARKS, set(&[Field::Mark], Kind::Set, false))];
    for &family in families {
        let names = names(family);
        let address = Field::Address(family);
        let one = [address];
        let pair = [address, address];
        let exit = [Field::Mark, address, Field::Interface];
        sets.extend([
            (names.cluster_networks, set(&one, Kind::Set, true)),
            (names.gateway_destinations, set(&one, Kind::Set, true)),
            (names.ingress_marks, set(&pair, Kind::VerdictMap, true)),
            (names.egress_marks, set(&pair, Kind::VerdictMap, true)),
            (names.ingress_marks_default, set(&one, Kind::VerdictMap, false)),
            (names.egress_marks_default, set(&one, Kind::VerdictMap, false)),
            (names.snat_addresses, set(&[Field::Mark, Field::Interface], Kind::AddressMap(family), false)),
            (names.vip_exits, set(&exit, Kind::VerdictMap, false)),
        ]);
    }
    sets.into_iter().map(|(name, set)| (name.to_owned(), set)).collect()
}

/// The chains that are there whatever the VIPs are.
fn fixed_chains(mask: u32, families: &[Family]) -> BTreeMap<String, Chain> {
    let rules = |of: &dyn Fn(Family, &Names) -> Vec<Rule>| -> Vec<Rule> {
        families.iter().flat_map(|&family| of(family, names(family))).collect()
    };
    let base = |base, rules| Chain { base: Some(base), rules };
    let marked =
        Rule::InSet(Selector::MaskedMark(mask), VIP_MARKS.to_owned(), Verdict::Goto("exits".to_owned()));
    let exits = |family, names: &Names| {
        let key = vec![Selector::MaskedMark(mask), Selector::Source(family), Selector::OutputInterface];
        vec![Rule::Lookup(key, names.vip_exits.to_owned())]
    };
    let snat = |family, names: &Names| {
        let key = vec![Selector::MaskedMark(mask), Selector::OutputInterface];
        vec![Rule::Snat(family, key, names.snat_addresses.to_owned())]
    };
    // A VIP whose address has ended is another node's by now. A connection that has another source since before it was
    // marked is dropped, not leaked.
    let mut leaving = vec![Rule::NotLocal(Verdict::Drop)];
    leaving.extend(rules(&exits));
    leaving.push(Rule::Always(Verdict::Drop));
    // What the node says to itself has a VIP as its source where it talks to one, and stays on the loopback interface.
    let mut said = vec![Rule::Loopback(Verdict::Return)];
    said.extend(rules(&output));
    let mut chains = vec![
        ("filter-prerouting", base(PREROUTING, rules(&prerouting))),
        ("mangle-output", base(OUTPUT, said)),
        ("nat-postrouting", base(POSTROUTING, rules(&snat))),
        ("filter-postrouting", base(LAST, vec![marked])),
        ("exits", Chain { base: None, rules: leaving }),
    ];
    chains.extend(families.iter().flat_map(|&family| lookups(family, names(family))));
    chains.into_iter().map(|(name, chain)| (name.to_owned(), chain)).collect()
}

fn within(selector: Selector, set: &str) -> Rule {
    Rule::InSet(selector, set.to_owned(), Verdict::Return)
}

fn jump(chain: &str) -> Rule {
    Rule::Always(Verdict::Jump(chain.to_owned()))
}

fn prerouting(family: Family, names: &Names) -> Vec<Rule> {
    vec![
        within(Selector::Destination(family), names.cluster_networks),
        jump(names.ingress),
        jump(names.ingress_default),
        within(Selector::OriginalDestination(family), names.cluster_networks),
        within(Selector::OriginalDestination(family), names.gateway_destinations),
        jump(names.egress),
        jump(names.egress_default),
    ]
}

fn output(family: Family, names: &Names) -> Vec<Rule> {
    vec![
        within(Selector::Destination(family), names.cluster_networks),
        jump(names.reply),
        jump(names.reply_default),
        // A reply of an endpoint with the node's own address: the VIP is its source only after the source NAT.
        jump(names.ingress),
        jump(names.ingress_default),
    ]
}

/// The chains with one lookup each.
fn lookups(family: Family, names: &Names) -> [(&'static str, Chain); 6] {
    use Selector::{Destination, OriginalDestination, OriginalSource, Source};
    let lookup = |key: &[fn(Family) -> Selector], map: &str| Chain {
        base: None,
        rules: vec![Rule::Lookup(key.iter().map(|of| of(family)).collect(), map.to_owned())],
    };
    [
        (names.ingress, lookup(&[OriginalDestination, OriginalSource], names.ingress_marks)),
        (names.ingress_default, lookup(&[OriginalDestination], names.ingress_marks_default)),
        (names.egress, lookup(&[OriginalSource, OriginalDestination], names.egress_marks)),
        (names.egress_default, lookup(&[OriginalSource], names.egress_marks_default)),
        (names.reply, lookup(&[Source, Destination], names.ingress_marks)),
        (names.reply_default, lookup(&[Source], names.ingress_marks_default)),
    ]
}
