//! Which pods of each node must not leave with the node's address: the endpoints of Services that require a VIP.
//!
//! They are told to the node whether it holds a VIP or not, so a pod without a VIP has no way out instead of another one.

use std::collections::BTreeMap;

use litek8s_crds::VipEndpoint;

use super::decision::Action;
use super::facts::Facts;

/// What differs from what each node was told.
pub(crate) fn changes(facts: &Facts) -> Vec<Action> {
    // By node and address: a pod behind two Services is one pod.
    let mut wanted: BTreeMap<&str, BTreeMap<String, VipEndpoint>> = BTreeMap::new();
    for service in facts.services.iter().filter(|service| service.guarded) {
        // Ready or not: the first packet of a new pod is guarded already.
        for endpoint in service.endpoints.iter().filter(|endpoint| endpoint.address.is_ipv4()) {
            let Some(node) = &endpoint.node else { continue };
            let address = endpoint.address.to_string();
            let pod = VipEndpoint {
                address: address.clone(),
                uid: endpoint.uid.clone(),
                name: endpoint.pod.clone(),
            };
            wanted.entry(node).or_default().entry(address).or_insert(pod);
        }
    }
    let told: BTreeMap<&str, &[VipEndpoint]> =
        facts.guards.iter().map(|guard| (guard.node.as_str(), guard.pods.as_slice())).collect();
    let mut actions = Vec::new();
    for (node, pods) in &wanted {
        let pods: Vec<VipEndpoint> = pods.values().cloned().collect();
        if told.get(node) != Some(&pods.as_slice()) {
            actions.push(Action::Guard { node: (*node).to_owned(), pods });
        }
    }
    let gone = told.keys().filter(|node| !wanted.contains_key(*node));
    actions.extend(gone.map(|node| Action::Guard { node: (*node).to_owned(), pods: Vec::new() }));
    actions
}

#[cfg(test)]
mod tests {
    use super::super::facts::{EndpointFact, GuardFact, ServiceFact};
    use super::super::fixture::{endpoint, facts, service};
    use super::*;

    fn guarded(name: &str, endpoints: Vec<EndpointFact>) -> ServiceFact {
        ServiceFact { guarded: true, endpoints, ..service(name, &[], &[]) }
    }

    fn told(facts: &Facts) -> Vec<String> {
        changes(facts).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_endpoint_of_a_node_is_guarded_once_ready_or_not() {
        let unready = EndpointFact { ready: false, serving: false, ..endpoint("a", 2) };
        let six = EndpointFact { address: "fd00::5".parse().unwrap(), ..endpoint("a", 3) };
        let homeless = EndpointFact { node: None, ..endpoint("a", 4) };
        let mut known = facts();
        known.services = vec![
            guarded("one", vec![endpoint("a", 1), unready, six, homeless, endpoint("b", 5)]),
            guarded("two", vec![endpoint("a", 1)]),
            service("open", &[], &[("a", 1), ("c", 1)]),
        ];
        assert_eq!(told(&known), ["guard on a: 10.42.1.1 10.42.1.2", "guard on b: 10.42.1.5"]);
        let all: Vec<GuardFact> = changes(&known)
            .into_iter()
            .filter_map(|action| match action {
                Action::Guard { node, pods } => Some(GuardFact { node, pods }),
                Action::Delete { .. }
                | Action::Release { .. }
                | Action::Create { .. }
                | Action::Map { .. } => None,
            })
            .collect();
        known.guards = all;
        assert!(told(&known).is_empty(), "told once");
        known.services.truncate(1);
        known.services[0].endpoints.truncate(1);
        assert_eq!(told(&known), ["guard on a: 10.42.1.1", "guard on b:"]);
        known.services.clear();
        assert_eq!(told(&known), ["guard on a:", "guard on b:"]);
    }
}
