//! Who may have an address, and who may not and why.

use super::super::decision::{Decision, NoteKind};
use super::super::facts::{Facts, ServiceFact};
use super::super::fixture::{address, at, facts, network, service, settle};
use super::super::memory::Memory;

fn settled(facts: &mut Facts) -> Decision {
    settle(facts, &mut Memory::default())
}

/// What is said of an address of the Service `web`.
fn said(decision: &Decision, text: &str) -> String {
    let web = decision.services.iter().find(|service| service.key.name == "web").unwrap();
    web.addresses.iter().find(|address| address.text == text).unwrap().explanation.clone()
}

#[test]
fn an_address_is_refused_for_itself_and_the_others_are_placed() {
    let mut facts = facts();
    facts.nodes[1].addresses = vec!["203.0.113.77".parse().unwrap()];
    facts.networks.push(network("inner", "203.0.113.128/25", 5));
    facts.networks.push(network("long", "2001:db8:113::/64", 6));
    facts.addresses = vec![address("web", 1, "203.0.113.10", "a")];
    let wrong = [
        ("010.0.0.1", "InvalidAddress"),
        ("web.example.com", "InvalidAddress"),
        ("192.0.2.1", "NoNetwork"),
        ("2001:db8::1", "NoNetwork"),
        ("2001:db8:113::", "NetworkAddress"),
        ("2001:db8:113::1", "GatewayAddress"),
        ("203.0.113.0", "NetworkAddress"),
        ("203.0.113.255", "BroadcastAddress"),
        ("203.0.113.1", "GatewayAddress"),
        ("203.0.113.77", "NodeAddress"),
    ];
    let mut listed: Vec<&str> = wrong.iter().map(|(text, _)| *text).collect();
    listed.insert(0, "203.0.113.10");
    facts.services = vec![service("web", &listed, &[("a", 1)])];
    let decision = settled(&mut facts);
    for (text, reason) in wrong {
        assert!(said(&decision, text).starts_with(&format!("not placed, {reason}: ")), "{text}");
    }
    assert_eq!(facts.addresses.len(), 1);
    assert_eq!(decision.services[0].verdict.reason, "NotPlaced");
    assert!(decision.services[0].verdict.message.starts_with("1/11 placed: 010.0.0.1: InvalidAddress, "));
}

#[test]
fn an_address_of_a_disabled_network_names_the_network() {
    let mut facts = facts();
    facts.networks = vec![network("wide", "10.9.0.0/16", 0), network("narrow", "10.9.1.0/24", 5)];
    facts.services = vec![service("web", &["10.9.2.7", "10.9.1.7"], &[("a", 1)])];
    let decision = settled(&mut facts);
    assert!(said(&decision, "10.9.2.7").contains("NetworkDisabled: VipNetwork wide is not in force"));
    assert!(said(&decision, "10.9.1.7").starts_with("a: "));
}

#[test]
fn a_service_has_vips_of_its_own_families_only() {
    let mut facts = facts();
    facts.networks.push(network("long", "2001:db8:113::/64", 6));
    let ips = ["203.0.113.10", "2001:db8:113::10"];
    facts.services = vec![service("web", &ips, &[("a", 1)])];
    for (families, refused) in
        [(&["IPv4"][..], Some(ips[1])), (&["IPv6"], Some(ips[0])), (&["IPv4", "IPv6"], None)]
    {
        facts.services[0].families = families.iter().map(|family| (*family).to_owned()).collect();
        let decision = settled(&mut facts);
        for ip in ips {
            let expected = if refused == Some(ip) { "not placed, FamilyNotServed: " } else { "a: " };
            assert!(said(&decision, ip).starts_with(expected), "{families:?} {}", said(&decision, ip));
        }
    }
}

fn two(facts: &mut Facts, ages: (i64, i64)) {
    let base = service("web", &["203.0.113.10"], &[("a", 1)]);
    let other = ServiceFact { created: at(ages.1), ..service("api", &["203.0.113.10"], &[("b", 1)]) };
    facts.services = vec![other, ServiceFact { created: at(ages.0), ..base }];
}

#[test]
fn of_two_services_the_older_has_the_address_and_the_other_gets_it_later() {
    let mut facts = facts();
    two(&mut facts, (1, 2));
    let mut memory = Memory::default();
    let first = super::super::decide(&facts, &memory);
    let conflict: Vec<_> = first.notes.iter().map(|note| (note.kind, note.message.as_str())).collect();
    assert_eq!(conflict, [(NoteKind::VipConflict, "203.0.113.10: Service default/web has it")]);
    settle(&mut facts, &mut memory);
    assert_eq!(facts.addresses[0].spec.service.name, "web");
    facts.services[1].requested.clear();
    settle(&mut facts, &mut memory);
    assert_eq!(facts.addresses[0].spec.service.name, "api");
}

#[test]
fn of_two_services_of_one_age_the_first_by_name_has_the_address() {
    let mut facts = facts();
    two(&mut facts, (1, 1));
    settled(&mut facts);
    assert_eq!(facts.addresses[0].spec.service.name, "api");
}

#[test]
fn a_service_that_holds_an_address_is_not_robbed_by_an_older_one() {
    let mut facts = facts();
    two(&mut facts, (1, 2));
    facts.addresses = vec![address("api", 1, "203.0.113.10", "b")];
    let decision = settled(&mut facts);
    assert_eq!(facts.addresses[0].spec.service.name, "api");
    assert!(said(&decision, "203.0.113.10").contains("AddressInUse: Service default/api has it"));
}

#[test]
fn the_vip_address_of_somebody_else_is_left_alone() {
    let mut facts = facts();
    facts.services = vec![service("web", &["203.0.113.10", "203.0.113.11"], &[("a", 1)])];
    let mut foreign = address("web", 1, "203.0.113.10", "a");
    foreign.managed = false;
    facts.addresses = vec![foreign.clone()];
    let decision = settled(&mut facts);
    assert!(said(&decision, "203.0.113.10").contains("AddressInUse: VipAddress default/web-1"));
    let own = &facts.addresses[1];
    assert_eq!((own.name.as_str(), own.spec.firewall_mark, &facts.addresses[0]), ("web-2", 2, &foreign));
}

#[test]
fn a_reason_is_told_once() {
    let mut facts = facts();
    facts.services = vec![service("web", &["192.0.2.1"], &[("a", 1)])];
    let mut memory = Memory::default();
    let told = |facts: &Facts, memory: &mut Memory| {
        let decision = super::super::decide(facts, memory);
        memory.clone_from(&decision.memory);
        decision.notes.len()
    };
    assert_eq!((told(&facts, &mut memory), told(&facts, &mut memory)), (1, 0));
    facts.services[0].requested = vec!["203.0.113.0".into()];
    assert_eq!(told(&facts, &mut memory), 1);
}

#[test]
fn without_a_config_nothing_is_placed_and_nothing_is_deleted() {
    let mut facts = facts();
    facts.config = None;
    facts.services = vec![service("web", &["203.0.113.10", "203.0.113.11"], &[("b", 1)])];
    facts.addresses = vec![address("web", 1, "203.0.113.10", "a")];
    let before = facts.addresses.clone();
    let decision = settled(&mut facts);
    assert_eq!(facts.addresses, before);
    assert!(said(&decision, "203.0.113.11").contains("NoConfig"));
}
