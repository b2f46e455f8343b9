//! Gateways behind WireGuard by example: wg0 is somebody else's, with two peers and the pods 10.42.2.5 and 10.42.3.5.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    AllowedIp, Facts, Gateway, GatewayPod, NextHop, Observed, Peer, PeerKey, Plan, Tunnel, compile, diff,
};

const EAST: PeerKey = PeerKey([2; 32]);
const WEST: PeerKey = PeerKey([3; 32]);
const KEY: &str = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=";

fn gateway(name: &str, table: u32, priority: u32, pods: &[&str]) -> Gateway {
    let pod = |address: &&str| GatewayPod {
        name: format!("edge/{address}"),
        address: address.parse().unwrap(),
        local: false,
    };
    Gateway {
        name: name.into(),
        destination: "172.30.0.0/16".parse().unwrap(),
        table,
        priority,
        pods: pods.iter().map(pod).collect(),
    }
}

fn peer(endpoint: &str, networks: &[&str]) -> Peer {
    Peer {
        endpoint: endpoint.parse().ok(),
        allowed_ips: networks.iter().map(|network| network.parse().unwrap()).collect(),
    }
}

fn facts(gateways: Vec<Gateway>) -> Facts {
    let hop = |pod: &str| NextHop {
        gateway: pod.parse().unwrap(),
        interface: "wg0".into(),
        source: "10.42.1.1".parse().unwrap(),
    };
    let peers =
        [(EAST, peer("198.51.100.2", &["10.42.2.0/24"])), (WEST, peer("198.51.100.3", &["10.42.3.0/24"]))];
    Facts {
        mask: 0x7f,
        hops: ["10.42.2.5", "10.42.3.5", "10.42.4.5"].map(|pod| (pod.parse().unwrap(), Ok(hop(pod)))).into(),
        tunnels: BTreeMap::from([("wg0".to_owned(), Tunnel { index: 7, peers: peers.into() })]),
        gateways,
        ..Facts::default()
    }
}

fn allow(facts: &mut Facts, peer: PeerKey, network: &str) {
    let peers = &mut facts.tunnels.get_mut("wg0").unwrap().peers;
    peers.get_mut(&peer).unwrap().allowed_ips.insert(network.parse().unwrap());
}

fn key() -> AllowedIp {
    AllowedIp { interface: "wg0".into(), network: "172.30.0.0/16".parse().unwrap() }
}

/// The peer that is to have the destination from us.
fn given(plan: &Plan) -> Option<PeerKey> {
    plan.desired.allowed_ips.get(&key()).copied()
}

#[test]
fn the_peer_of_the_pod_gets_the_destination_before_the_route_and_loses_it_after() {
    let facts = facts(vec![gateway("g", 200, 100, &["10.42.2.5"])]);
    let plan = compile(&facts);
    assert_eq!((given(&plan), plan.gateways["g"].pods), (Some(EAST), 1));
    let state = Observed { tunnels: facts.tunnels.clone(), ..Observed::default() };
    let kernel = |ops: Vec<crate::Op>| -> Vec<String> {
        ops.iter().map(ToString::to_string).filter(|op| !op.starts_with("nft")).collect()
    };
    assert_eq!(
        kernel(diff(&plan.desired, &state)),
        [
            format!("wg set wg0 peer {KEY} allowed-ips +172.30.0.0/16"),
            "ip route add unreachable 172.30.0.0/16 proto 110 metric 4294967295 table 200".into(),
            "ip route add 172.30.0.0/16 via 10.42.2.5 dev wg0 proto 110 src 10.42.1.1 table 200".into(),
            "ip rule add to 172.30.0.0/16 fwmark 0x0/0x7f table 200 priority 100 protocol 110".into(),
        ]
    );
    let settled = Observed {
        rules: plan.desired.rules.clone(),
        routes: plan.desired.routes.clone(),
        allowed_ips: plan.desired.allowed_ips.clone(),
        nft: plan.desired.nft.clone(),
        ..state
    };
    assert_eq!(diff(&plan.desired, &settled), []);
    let ops = kernel(diff(&compile(&Facts { gateways: vec![], ..facts }).desired, &settled));
    assert_eq!(ops.last(), Some(&format!("wg set wg0 peer {KEY} allowed-ips -172.30.0.0/16")));
    assert_eq!(ops.len(), 4, "{ops:?}");
}

#[test]
fn the_destination_follows_the_pod_to_another_peer() {
    let mut facts = facts(vec![gateway("g", 200, 100, &["10.42.2.5"])]);
    facts.allowed_ips.insert(key(), EAST);
    let peers = &mut facts.tunnels.get_mut("wg0").unwrap().peers;
    peers.get_mut(&EAST).unwrap().allowed_ips.clear();
    peers.get_mut(&WEST).unwrap().allowed_ips.insert("10.42.2.0/24".parse().unwrap());
    let desired = compile(&facts).desired;
    assert_eq!(desired.allowed_ips[&key()], WEST);
    let state = Observed { allowed_ips: facts.allowed_ips.clone(), ..Observed::default() };
    let moved = diff(&desired, &state);
    let about: Vec<_> = moved.iter().filter(|op| op.to_string().starts_with("wg")).collect();
    assert_eq!(about, [&crate::Op::AddAllowedIp(key(), WEST)], "set at the one peer it leaves the other");
}

#[test]
fn of_pods_behind_two_peers_those_of_one_are_used_and_it_stays_with_it() {
    let mut facts = facts(vec![gateway("g", 200, 100, &["10.42.3.5", "10.42.2.5", "10.42.4.5"])]);
    let plan = compile(&facts);
    assert_eq!((given(&plan), plan.gateways["g"].pods), (Some(EAST), 1));
    let west = WEST.to_string();
    assert_eq!(
        plan.gateways["g"].unusable,
        [
            "pod edge/10.42.4.5 (10.42.4.5): no peer of wg0 is allowed its address".to_owned(),
            format!(
                "pod edge/10.42.3.5 (10.42.3.5): wg0 leads 172.30.0.0/16 to another peer, {KEY}, than {west}"
            ),
        ]
    );
    facts.allowed_ips.insert(key(), WEST);
    assert_eq!(given(&compile(&facts)), Some(WEST), "no connection is cut for another order");
    facts.gateways[0].pods.remove(0);
    assert_eq!(given(&compile(&facts)), Some(EAST), "until none of its pods is left");
}

#[test]
fn what_the_owner_gave_to_a_peer_stays_there() {
    // To the right one, or all around it: nothing is to be added.
    for network in ["172.30.0.0/16", "172.16.0.0/12", "0.0.0.0/0"] {
        let mut facts = facts(vec![gateway("g", 200, 100, &["10.42.2.5"])]);
        allow(&mut facts, EAST, network);
        let plan = compile(&facts);
        assert_eq!((given(&plan), plan.gateways["g"].pods), (None, 1), "{network}");
    }
    // Around it at another peer: ours is the narrower one.
    let mut facts = facts(vec![gateway("g", 200, 100, &["10.42.2.5"])]);
    allow(&mut facts, WEST, "0.0.0.0/0");
    assert_eq!(given(&compile(&facts)), Some(EAST));
    // The very one at another peer: that pod cannot be reached, and one behind that peer can.
    allow(&mut facts, WEST, "172.30.0.0/16");
    let plan = compile(&facts);
    assert_eq!((given(&plan), plan.gateways["g"].pods), (None, 0));
    assert!(plan.gateways["g"].unusable[0].contains("wg0 leads 172.30.0.0/16 to another peer"));
    assert_eq!(plan.desired.routes.len(), 1, "closed: the fallback alone");
    facts.gateways = vec![gateway("g", 200, 100, &["10.42.2.5", "10.42.3.5"])];
    let plan = compile(&facts);
    assert_eq!((given(&plan), plan.gateways["g"].pods), (None, 1));
}

#[test]
fn of_two_gateways_to_one_destination_the_one_that_packets_take_has_its_peer() {
    let plan =
        compile(&facts(vec![gateway("a", 200, 100, &["10.42.2.5"]), gateway("b", 201, 50, &["10.42.3.5"])]));
    assert_eq!(given(&plan), Some(WEST));
    assert_eq!(["a", "b"].map(|name| plan.gateways[name].pods), [0, 1]);
}

#[test]
fn a_destination_with_the_tunnels_own_endpoint_is_refused() {
    let mut around = gateway("g", 200, 100, &["10.42.2.5"]);
    around.destination = "198.51.100.0/25".parse().unwrap();
    let plan = compile(&facts(vec![around]));
    let refused = plan.gateways["g"].refused.as_ref().map(ToString::to_string);
    assert_eq!(refused.as_deref(), Some("overlaps the endpoint 198.51.100.2 of a peer of wg0"));
    assert!(plan.desired.rules.is_empty() && plan.desired.allowed_ips.is_empty());
}

#[test]
fn a_gateway_that_is_closed_adds_nothing() {
    let mut facts = facts(vec![gateway("g", 200, 100, &["10.42.2.5"])]);
    facts.closed = BTreeMap::from([("g".to_owned(), "wg set …: Operation not permitted".to_owned())]);
    let plan = compile(&facts);
    assert_eq!(given(&plan), None);
    assert_eq!(
        plan.desired.routes.keys().map(|key| key.table).collect::<BTreeSet<_>>(),
        BTreeSet::from([200])
    );
}
