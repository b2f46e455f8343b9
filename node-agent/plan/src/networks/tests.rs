//! Normalisation by example and by property.

use ipnet::{IpNet, Ipv4Net};
use proptest::prelude::*;

use super::{MarkNetworks, merged, normalise, subtract};

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn nets(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| net(text)).collect()
}

fn check(sources: &[&str], marks: &[&str], routes: &[&str], warnings: usize) {
    let mut order = nets(sources);
    for _ in 0..2 {
        let result = normalise(net("192.168.111.0/24"), &order);
        assert_eq!(result.marks, MarkNetworks::Specific(nets(marks)), "{sources:?}");
        assert_eq!(result.routes, nets(routes), "{sources:?}");
        assert_eq!(result.warnings.len(), warnings, "{sources:?}: {:?}", result.warnings);
        order.reverse();
    }
}

#[test]
fn a_source_beyond_the_network_is_marked_and_routed_beside_it() {
    check(&["10.0.0.0/8"], &["10.0.0.0/8", "192.168.111.0/24"], &["10.0.0.0/8"], 0);
}

#[test]
fn an_entry_inside_a_broader_one_is_ignored_with_a_warning() {
    let marks = ["10.0.0.0/8", "192.168.111.0/24"];
    check(&["10.0.0.0/8", "10.1.0.0/16"], &marks, &["10.0.0.0/8"], 1);
}

#[test]
fn an_entry_inside_the_network_is_ignored_with_a_warning() {
    check(&["192.168.111.128/25"], &["192.168.111.0/24"], &[], 1);
}

#[test]
fn a_source_around_the_network_is_the_only_key_and_both_are_routed() {
    check(&["192.168.0.0/16"], &["192.168.0.0/16"], &["192.168.0.0/16"], 0);
}

#[test]
fn host_bits_are_masked_with_a_warning() {
    check(&["10.1.2.3/8"], &["10.0.0.0/8", "192.168.111.0/24"], &["10.0.0.0/8"], 1);
}

#[test]
fn the_catch_all_wins_alone() {
    let result = normalise(net("192.168.111.0/24"), &nets(&["10.0.0.0/8", "0.0.0.0/0"]));
    assert_eq!(result.marks, MarkNetworks::CatchAll);
    assert_eq!(result.routes, nets(&["0.0.0.0/0"]));
    assert!(result.warnings.is_empty());
}

#[test]
fn networks_of_ipv6_are_treated_alike_and_those_of_ipv4_are_left_out() {
    let connected = net("2001:db8:113::/64");
    let result = normalise(connected, &nets(&["2001:db8:9::1/48", "2001:db8:9:1::/64", "10.0.0.0/8"]));
    assert_eq!(result.marks, MarkNetworks::Specific(nets(&["2001:db8:9::/48", "2001:db8:113::/64"])));
    assert_eq!((result.routes, result.warnings.len()), (nets(&["2001:db8:9::/48"]), 3));
    let all = normalise(connected, &nets(&["::/0", "2001:db8:9::/48"]));
    assert_eq!((all.marks, all.routes), (MarkNetworks::CatchAll, nets(&["::/0"])));
}

#[test]
fn nested_and_adjacent_networks_merge() {
    let given = nets(&["10.96.0.0/12", "10.42.0.0/16", "10.100.0.0/16", "10.43.0.0/16", "192.0.2.1/32"]);
    assert_eq!(merged(given), nets(&["10.42.0.0/15", "10.96.0.0/12", "192.0.2.1/32"]));
}

fn any_net() -> impl Strategy<Value = IpNet> {
    (any::<[u8; 2]>(), 12u8..=32).prop_map(|([a, b], len)| {
        Ipv4Net::new([10, a & 3, b & 7, b >> 5].into(), len).unwrap().trunc().into()
    })
}

proptest! {
    #[test]
    fn what_is_left_and_the_holes_cover_the_network_once(
        network in any_net(),
        holes in prop::collection::vec(any_net(), 0..4),
        probe in any::<[u8; 2]>(),
    ) {
        let left = subtract(network, &holes);
        let address = std::net::IpAddr::from([10, probe[0] & 3, probe[1] & 7, probe[1] >> 5]);
        let expected = network.contains(&address) && !holes.iter().any(|hole| hole.contains(&address));
        prop_assert_eq!(left.iter().filter(|part| part.contains(&address)).count(), usize::from(expected));
    }

    #[test]
    fn marked_networks_never_overlap(
        connected in any_net(),
        sources in prop::collection::vec(any_net(), 0..6),
    ) {
        if let MarkNetworks::Specific(marks) = normalise(connected, &sources).marks {
            for (i, a) in marks.iter().enumerate() {
                for b in &marks[i + 1..] {
                    prop_assert!(!a.contains(b) && !b.contains(a), "{a} and {b}");
                }
            }
        }
    }
}
