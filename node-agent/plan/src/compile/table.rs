//! The nftables table of a node.
//!
//! Every lookup is alone in a chain of its own, so that a map can be made anew and its one rule with it. A mark chain
//! ends in `accept`: what came first stays, and a reply of a VIP's connection is not marked again for another VIP.

use std::collections::BTreeMap;

use ipnet::Ipv4Net;

use super::{Accepted, egress_claims};
use crate::nft::{Base, Chain, Field, Kind, Part, Rule, Selector, Set, Table, Value, Verdict, mark_chain};
use crate::{Facts, MarkNetworks, merged};

const PREROUTING: Base = Base { kind: "filter", hook: 0, priority: 0 };
/// Of type `route`, so that the kernel routes a packet again after its mark changed.
const OUTPUT: Base = Base { kind: "route", hook: 3, priority: -150 };
/// For what the node itself says.
const LOCAL: Base = Base { kind: "filter", hook: 3, priority: 0 };
/// Before the usual source NAT at 100.
const POSTROUTING: Base = Base { kind: "nat", hook: 4, priority: 90 };
/// After all source NAT: what a packet looks like here is how it leaves.
const LAST: Base = Base { kind: "filter", hook: 4, priority: 200 };

pub(super) fn table(facts: &Facts, accepted: &[Accepted<'_>], destinations: &[Ipv4Net]) -> Table {
    let mut table = Table { sets: sets(), chains: fixed_chains(facts.mask) };
    let nodes = facts.node_addresses.iter().copied().map(Ipv4Net::from);
    for network in merged(facts.cluster_networks.iter().copied().chain(nodes)) {
        add(&mut table, "cluster-networks", vec![network.into()], Value::Nothing);
    }
    for network in merged(destinations.iter().copied()) {
        add(&mut table, "gateway-destinations", vec![network.into()], Value::Nothing);
    }
    if !destinations.is_empty() {
        // A pod that shares a link with a gateway pod is told to go there directly, and would stay there when it is gone.
        let redirect = Rule::Redirect("cluster-networks".to_owned(), Verdict::Drop);
        table.chains.insert("filter-output".to_owned(), Chain { base: Some(LOCAL), rules: vec![redirect] });
    }
    super::guard::add(&mut table, facts);
    for Accepted { vip, networks } in accepted {
        let chain = mark_chain(vip.mark);
        let rules = vec![Rule::SetMark { keep: !facts.mask, mark: vip.mark }, Rule::Always(Verdict::Accept)];
        table.chains.insert(chain.clone(), Chain { base: None, rules });
        let verdict = Value::Verdict(Verdict::Goto(chain));
        let address = Part::from(vip.address());
        match &networks.marks {
            MarkNetworks::Specific(marks) => {
                for &network in marks {
                    let key = vec![address.clone(), network.into()];
                    add(&mut table, "ingress-marks-ipv4", key, verdict.clone());
                }
            }
            MarkNetworks::CatchAll => {
                add(&mut table, "ingress-marks-default-ipv4", vec![address], verdict.clone());
                // In the order of the marks: a pod that two catch-alls claim stays with the first.
                for &pod in &vip.endpoints {
                    let map = table.sets.get_mut("egress-marks-default-ipv4");
                    if let Some(map) = map {
                        map.elements.entry(vec![pod.into()]).or_insert_with(|| verdict.clone());
                    }
                }
            }
        }
        let key = vec![Part::Mark(vip.mark), Part::Interface(vip.interface.clone())];
        add(&mut table, "snat-addresses", key, Value::Address(vip.address()));
        add(&mut table, "vip-marks", vec![Part::Mark(vip.mark)], Value::Nothing);
        let exit = vec![Part::Mark(vip.mark), vip.address().into(), Part::Interface(vip.interface.clone())];
        add(&mut table, "vip-exits", exit, Value::Verdict(Verdict::Accept));
    }
    for ((pod, network), mark) in egress_claims(accepted) {
        let key = vec![pod.into(), network.into()];
        add(&mut table, "egress-marks-ipv4", key, Value::Verdict(Verdict::Goto(mark_chain(mark))));
    }
    table
}

fn add(table: &mut Table, set: &str, key: Vec<Part>, value: Value) {
    if let Some(set) = table.sets.get_mut(set) {
        set.elements.insert(key, value);
    }
}

fn sets() -> BTreeMap<String, Set> {
    let set =
        |key: &[Field], kind, interval| Set { key: key.to_vec(), kind, interval, elements: BTreeMap::new() };
    let pair = [Field::Address, Field::Address];
    [
        ("cluster-networks", set(&[Field::Address], Kind::Set, true)),
        ("gateway-destinations", set(&[Field::Address], Kind::Set, true)),
        ("ingress-marks-ipv4", set(&pair, Kind::VerdictMap, true)),
        ("egress-marks-ipv4", set(&pair, Kind::VerdictMap, true)),
        ("ingress-marks-default-ipv4", set(&[Field::Address], Kind::VerdictMap, false)),
        ("egress-marks-default-ipv4", set(&[Field::Address], Kind::VerdictMap, false)),
        ("snat-addresses", set(&[Field::Mark, Field::Interface], Kind::AddressMap, false)),
        ("vip-marks", set(&[Field::Mark], Kind::Set, false)),
        ("vip-exits", set(&[Field::Mark, Field::Address, Field::Interface], Kind::VerdictMap, false)),
    ]
    .into_iter()
    .map(|(name, set)| (name.to_owned(), set))
    .collect()
}

/// The chains that are there whatever the VIPs are.
fn fixed_chains(mask: u32) -> BTreeMap<String, Chain> {
    use Selector::{Destination, OriginalDestination, OriginalSource, Source};
    let within = |selector, set: &str| Rule::InSet(selector, set.to_owned(), Verdict::Return);
    let jump = |chain: &str| Rule::Always(Verdict::Jump(chain.to_owned()));
    let lookup = |key: &[Selector], map: &str| Chain {
        base: None,
        rules: vec![Rule::Lookup(key.to_vec(), map.to_owned())],
    };
    let base = |base, rules| Chain { base: Some(base), rules };
    let snat_key = vec![Selector::MaskedMark(mask), Selector::OutputInterface];
    let exit_key = [Selector::MaskedMark(mask), Source, Selector::OutputInterface];
    let ingress = [OriginalDestination, OriginalSource];
    let egress = [OriginalSource, OriginalDestination];
    [
        (
            "filter-prerouting",
            base(
                PREROUTING,
                vec![
                    within(Destination, "cluster-networks"),
                    jump("ingress"),
                    jump("ingress-default"),
                    within(OriginalDestination, "cluster-networks"),
                    within(OriginalDestination, "gateway-destinations"),
                    jump("egress"),
                    jump("egress-default"),
                ],
            ),
        ),
        (
            "mangle-output",
            base(OUTPUT, vec![within(Destination, "cluster-networks"), jump("reply"), jump("reply-default")]),
        ),
        ("nat-postrouting", base(POSTROUTING, vec![Rule::Snat(snat_key, "snat-addresses".to_owned())])),
        (
            "filter-postrouting",
            base(
                LAST,
                vec![Rule::InSet(
                    Selector::MaskedMark(mask),
                    "vip-marks".to_owned(),
                    Verdict::Goto("exits".to_owned()),
                )],
            ),
        ),
        // A connection that has another source since before it was marked is dropped, not leaked.
        (
            "exits",
            Chain {
                base: None,
                rules: vec![
                    Rule::Lookup(exit_key.to_vec(), "vip-exits".to_owned()),
                    Rule::Always(Verdict::Drop),
                ],
            },
        ),
        ("ingress", lookup(&ingress, "ingress-marks-ipv4")),
        ("ingress-default", lookup(&ingress[..1], "ingress-marks-default-ipv4")),
        ("egress", lookup(&egress, "egress-marks-ipv4")),
        ("egress-default", lookup(&egress[..1], "egress-marks-default-ipv4")),
        ("reply", lookup(&[Source, Destination], "ingress-marks-ipv4")),
        ("reply-default", lookup(&[Source], "ingress-marks-default-ipv4")),
    ]
    .into_iter()
    .map(|(name, chain)| (name.to_owned(), chain))
    .collect()
}
