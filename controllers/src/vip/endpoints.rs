//! Where a Service's endpoints are.

use std::collections::BTreeMap;

use super::cidr;
use super::facts::{EndpointFact, ServiceFact};

/// The endpoints of one node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Presence {
    /// Ready ones that stay.
    pub(crate) ready: u64,
    /// Ones that still answer on their way out.
    pub(crate) leaving: u64,
}

/// The endpoints of one Service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Endpoints {
    /// By node.
    pub(crate) nodes: BTreeMap<String, Presence>,
    /// Whether all are ready and none is terminating: only then do VIPs move for balance.
    pub(crate) settled: bool,
    /// How many do not say on which node they are; they count nowhere.
    pub(crate) nowhere: u64,
}

/// Counts the endpoints, of the families that the Service lists VIPs of. A pod with addresses of both counts once, as
/// does one that several EndpointSlices list: as the same pod, else as the same address.
pub(crate) fn count(service: &ServiceFact) -> Endpoints {
    let listed = |four: bool| {
        service.requested.iter().filter_map(|text| cidr::address(text)).any(|ip| ip.is_ipv4() == four)
    };
    let mut endpoints = Endpoints { settled: true, ..Endpoints::default() };
    for four in [true, false].into_iter().filter(|four| listed(*four)) {
        let found = count_family(service, four);
        endpoints.settled &= found.settled;
        endpoints.nowhere = endpoints.nowhere.max(found.nowhere);
        for (node, presence) in found.nodes {
            let most = endpoints.nodes.entry(node).or_default();
            most.ready = most.ready.max(presence.ready);
            most.leaving = most.leaving.max(presence.leaving);
        }
    }
    endpoints
}

fn count_family(service: &ServiceFact, four: bool) -> Endpoints {
    let mut unique: BTreeMap<String, &EndpointFact> = BTreeMap::new();
    for endpoint in service.endpoints.iter().filter(|endpoint| endpoint.address.is_ipv4() == four) {
        let best = unique.entry(identity(endpoint)).or_insert(endpoint);
        if rank(endpoint) > rank(best) {
            *best = endpoint;
        }
    }
    let mut endpoints = Endpoints { settled: true, ..Endpoints::default() };
    for endpoint in unique.values() {
        endpoints.settled &= endpoint.ready && !endpoint.terminating;
        let Some(node) = &endpoint.node else {
            endpoints.nowhere += 1;
            continue;
        };
        let presence = endpoints.nodes.entry(node.clone()).or_default();
        presence.ready += u64::from(endpoint.ready && !endpoint.terminating);
        presence.leaving += u64::from(endpoint.terminating && endpoint.serving);
    }
    endpoints
}

/// What makes an endpoint the same in two EndpointSlices.
pub(crate) fn identity(endpoint: &EndpointFact) -> String {
    endpoint.uid.clone().unwrap_or_else(|| endpoint.address.to_string())
}

/// Which of two entries of one endpoint counts.
fn rank(endpoint: &EndpointFact) -> (bool, bool, bool, Option<&String>) {
    (
        endpoint.ready && !endpoint.terminating,
        endpoint.serving,
        endpoint.node.is_some(),
        endpoint.node.as_ref(),
    )
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{endpoint, service};
    use super::*;

    #[test]
    fn only_ready_endpoints_with_a_node_count() {
        let mut service = service("web", &["203.0.113.10"], &[]);
        let base = endpoint("a", 1);
        service.endpoints = vec![
            base.clone(),
            EndpointFact { ready: false, serving: false, ..endpoint("a", 2) },
            EndpointFact { ready: false, terminating: true, ..endpoint("b", 3) },
            EndpointFact { node: None, ..endpoint("a", 4) },
            EndpointFact { address: "fd00::5".parse().unwrap(), ..endpoint("a", 5) },
            base,
        ];
        let found = count(&service);
        assert_eq!(found.nodes["a"], Presence { ready: 1, leaving: 0 });
        assert_eq!(found.nodes["b"], Presence { ready: 0, leaving: 1 });
        assert_eq!((found.settled, found.nowhere), (false, 1));
    }

    #[test]
    fn a_pod_in_two_slices_counts_once_whatever_its_address() {
        let mut service = service("web", &["203.0.113.10"], &[]);
        let uid = Some("pod-uid".to_owned());
        service.endpoints = vec![
            EndpointFact { uid: uid.clone(), ready: false, ..endpoint("a", 1) },
            EndpointFact { uid, ..endpoint("a", 2) },
            EndpointFact { uid: None, ..endpoint("a", 3) },
            EndpointFact { uid: None, ..endpoint("a", 3) },
        ];
        let found = count(&service);
        assert_eq!((found.nodes["a"].ready, found.settled), (2, true));
    }

    #[test]
    fn a_pod_of_both_families_counts_once_and_families_nobody_asked_for_do_not() {
        let mut service = service("web", &["203.0.113.10"], &[]);
        let six = |number: u8| EndpointFact {
            address: format!("fd42::{number}").parse().unwrap(),
            ..endpoint("a", number)
        };
        service.endpoints = vec![endpoint("a", 1), six(1), six(2)];
        assert_eq!(count(&service).nodes["a"].ready, 1);
        service.requested.push("2001:db8::10".into());
        assert_eq!(count(&service).nodes["a"].ready, 2);
        service.requested.remove(0);
        service.endpoints.truncate(1);
        assert!(count(&service).nodes.is_empty());
    }
}
