//! Which pods of a node leave with which VIP as source. A pod keeps its VIP while it lives, and has one for each network.

use std::collections::{BTreeMap, BTreeSet};

use litek8s_crds::VipEndpoint;

use super::endpoints::identity;
use super::facts::{AddressFact, EndpointFact, ServiceFact};

/// A VIP that pods may leave with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exit<'a> {
    pub(crate) service: &'a ServiceFact,
    pub(crate) address: &'a AddressFact,
}

/// The pods of each VipAddress, by UID of the VipAddress. All endpoints count, ready or not, so that the first packet of
/// a new pod has its VIP already. `exits` are in the order in which Services choose.
pub(crate) fn map<'a>(exits: &[Exit<'a>]) -> BTreeMap<&'a str, Vec<VipEndpoint>> {
    let mut mapped: BTreeMap<&str, Vec<VipEndpoint>> =
        exits.iter().map(|exit| (exit.address.uid.as_str(), Vec::new())).collect();
    let mut groups: BTreeMap<(&str, &str), Vec<Exit<'a>>> = BTreeMap::new();
    for exit in exits {
        let spec = &exit.address.spec;
        groups.entry((&spec.node, &spec.network)).or_default().push(*exit);
    }
    for ((node, _), exits) in groups {
        let mut taken: BTreeSet<String> = BTreeSet::new();
        let mut services: Vec<&ServiceFact> = Vec::new();
        for exit in &exits {
            if !services.iter().any(|service| service.key == exit.service.key) {
                services.push(exit.service);
            }
        }
        for service in services {
            let mut own: Vec<&AddressFact> = exits
                .iter()
                .filter(|exit| exit.service.key == service.key)
                .map(|exit| exit.address)
                .collect();
            own.sort_by_key(|address| address.spec.index);
            distribute(node, service, &own, &mut taken, &mut mapped);
        }
    }
    for endpoints in mapped.values_mut() {
        endpoints.sort();
    }
    mapped
}

/// Shares out the pods of one Service on one node over its VIPs there.
fn distribute<'a>(
    node: &str,
    service: &ServiceFact,
    addresses: &[&'a AddressFact],
    taken: &mut BTreeSet<String>,
    mapped: &mut BTreeMap<&'a str, Vec<VipEndpoint>>,
) {
    // All are of one network, and so of one family.
    let Some(vip) = addresses.iter().find_map(|address| address.ip()) else { return };
    let mut pods: BTreeMap<String, &EndpointFact> = BTreeMap::new();
    for endpoint in &service.endpoints {
        if endpoint.node.as_deref() == Some(node)
            && endpoint.address.is_ipv4() == vip.is_ipv4()
            && !taken.contains(&endpoint.address.to_string())
        {
            let known = pods.entry(identity(endpoint)).or_insert(endpoint);
            if endpoint.address < known.address {
                *known = endpoint;
            }
        }
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut new = Vec::new();
    for (pod, endpoint) in pods {
        let text = endpoint.address.to_string();
        if !taken.insert(text.clone()) {
            continue;
        }
        let holder = addresses.iter().find(|address| {
            address.endpoints.iter().any(|known| known.uid.as_ref().unwrap_or(&known.address) == &pod)
        });
        match holder {
            Some(address) => {
                *counts.entry(&address.uid).or_default() += 1;
                mapped.entry(&address.uid).or_default().push(entry(endpoint));
            }
            None => new.push(endpoint),
        }
    }
    for endpoint in new {
        let fewest = addresses.iter().min_by_key(|address| {
            (counts.get(address.uid.as_str()).copied().unwrap_or(0), address.spec.index)
        });
        if let Some(address) = fewest {
            *counts.entry(&address.uid).or_default() += 1;
            mapped.entry(&address.uid).or_default().push(entry(endpoint));
        }
    }
}

fn entry(endpoint: &EndpointFact) -> VipEndpoint {
    VipEndpoint {
        address: endpoint.address.to_string(),
        uid: endpoint.uid.clone(),
        name: endpoint.pod.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{address, endpoint, service};
    use super::*;

    fn pods(numbers: &[u8]) -> Vec<EndpointFact> {
        numbers
            .iter()
            .map(|&number| EndpointFact { uid: Some(format!("uid-{number}")), ..endpoint("a", number) })
            .collect()
    }

    /// The last byte of each pod's address, by VIP.
    fn shared(service: &ServiceFact, addresses: &[AddressFact]) -> Vec<Vec<String>> {
        let exits: Vec<Exit<'_>> = addresses.iter().map(|address| Exit { service, address }).collect();
        let mapped = map(&exits);
        addresses
            .iter()
            .map(|address| {
                let pods = &mapped[address.uid.as_str()];
                pods.iter().map(|pod| pod.address.rsplit('.').next().unwrap().to_owned()).collect()
            })
            .collect()
    }

    #[test]
    fn pods_are_spread_and_keep_their_vip_while_they_live() {
        let mut web = service("web", &[], &[]);
        let mut vips = vec![address("web", 1, "203.0.113.10", "a"), address("web", 2, "203.0.113.11", "a")];
        web.endpoints = pods(&[3, 1, 2]);
        assert_eq!(shared(&web, &vips), [vec!["1", "3"], vec!["2"]]);
        vips[1].endpoints =
            vec![VipEndpoint { address: "10.42.1.3".into(), uid: Some("uid-3".into()), name: None }];
        assert_eq!(shared(&web, &vips), [vec!["1", "2"], vec!["3"]]);
    }

    #[test]
    fn a_pod_with_a_new_address_keeps_its_vip() {
        let mut web = service("web", &[], &[]);
        let mut vips = vec![address("web", 1, "203.0.113.10", "a"), address("web", 2, "203.0.113.11", "a")];
        vips[1].endpoints =
            vec![VipEndpoint { address: "10.42.1.3".into(), uid: Some("uid-3".into()), name: None }];
        web.endpoints = vec![EndpointFact { uid: Some("uid-3".into()), ..endpoint("a", 77) }];
        assert_eq!(shared(&web, &vips), [vec![], vec!["77"]]);
    }

    #[test]
    fn a_pod_has_one_vip_for_each_network_and_none_on_another_node() {
        let mut web = service("web", &[], &[]);
        let mut vips = vec![
            address("web", 1, "203.0.113.10", "a"),
            address("web", 2, "198.51.100.10", "a"),
            address("web", 3, "203.0.113.12", "b"),
        ];
        vips[1].spec.network = "other".into();
        web.endpoints = pods(&[1]);
        assert_eq!(shared(&web, &vips), [vec!["1"], vec!["1"], vec![]]);
    }

    #[test]
    fn a_pod_behind_two_services_has_the_vip_of_the_first() {
        let (mut one, mut two) = (service("one", &[], &[]), service("two", &[], &[]));
        one.endpoints = pods(&[1]);
        two.endpoints = pods(&[1, 2]);
        let (first, second) =
            (address("one", 1, "203.0.113.10", "a"), address("two", 1, "203.0.113.11", "a"));
        let mapped =
            map(&[Exit { service: &one, address: &first }, Exit { service: &two, address: &second }]);
        let of = |vip: &AddressFact| -> Vec<String> {
            mapped[vip.uid.as_str()].iter().map(|pod| pod.address.clone()).collect()
        };
        assert_eq!((of(&first), of(&second)), (vec!["10.42.1.1".into()], vec!["10.42.1.2".into()]));
    }

    #[test]
    fn a_pod_of_both_families_leaves_with_a_vip_of_each() {
        let mut web = service("web", &[], &[]);
        let mut vips = vec![address("web", 1, "203.0.113.10", "a"), address("web", 2, "2001:db8::10", "a")];
        vips[1].spec.network = "long".into();
        web.endpoints = pods(&[1]);
        let six = EndpointFact { address: "fd42::1".parse().unwrap(), ..web.endpoints[0].clone() };
        web.endpoints.push(six);
        assert_eq!(shared(&web, &vips), [vec!["1"], vec!["fd42::1"]]);
    }
}
