//! From a VipGateway to the allowed IPs of somebody else's WireGuard interface, and back.

use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::api::{Api, eventually};
use crate::node::{Place, api};

const DESTINATION: &str = "172.30.0.0/16";

/// A WireGuard interface with two peers; a pod 10.42.2.5 is behind the first.
struct Tunnel<'a> {
    place: &'a Place,
    peers: [String; 2],
}

impl<'a> Tunnel<'a> {
    fn new(place: &'a Place) -> Self {
        place
            .sh("ip addr add 198.51.100.1/24 dev eth1; ip link add wg0 type wireguard; ip link set wg0 up; \
                  ip addr add 10.42.1.1/32 dev wg0; ip route add 10.42.2.0/24 dev wg0");
        let key = || place.sh("wg genkey | wg pubkey").trim().to_owned();
        let tunnel = Self { place, peers: [key(), key()] };
        tunnel.owner_sets(0, "10.42.2.0/24,192.0.2.128/25");
        tunnel.owner_sets(1, "10.42.3.0/24");
        tunnel
    }

    fn owner_sets(&self, peer: usize, networks: &str) {
        let key = &self.peers[peer];
        self.place.sh(&format!("wg set wg0 peer {key} endpoint 198.51.100.9:51820 allowed-ips {networks}"));
    }

    /// What each peer is allowed, in order.
    fn allowed(&self) -> [Vec<String>; 2] {
        let all = self.place.sh("wg show wg0 allowed-ips");
        self.peers.clone().map(|key| {
            let line = all.lines().find_map(|line| line.strip_prefix(&key)).unwrap();
            let mut networks: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            networks.sort();
            networks
        })
    }

    fn given(&self) -> [bool; 2] {
        self.allowed().map(|networks| networks.iter().any(|network| network == DESTINATION))
    }
}

fn put_gateway(api: &Api) {
    api.put(
        "vipgateways",
        json!({"apiVersion": "netwrangler.dev/v1", "kind": "VipGateway", "metadata": {"name": "office"},
            "spec": {"destinationCIDR": DESTINATION, "routeTable": 200, "routingPriority": 100,
                "podSelector": {"matchLabels": {"app": "vpn"}}}}),
    );
    api.put(
        "viproutes",
        json!({"apiVersion": "netwrangler.dev/v1", "kind": "VipRoute", "metadata": {"name": "vpn-office"},
            "spec": {"gateway": "office", "pod": {"namespace": "edge", "name": "vpn"}, "podIP": "10.42.2.5",
                "node": "n2", "destinationCIDR": DESTINATION, "routeTable": 200, "routingPriority": 100}}),
    );
}

#[test]
fn the_destination_is_given_to_the_pods_peer_for_as_long_as_the_gateway_is_there() {
    Place::run(|place| async move {
        let tunnel = Tunnel::new(&place);
        let before = tunnel.allowed();
        let api = api();
        put_gateway(&api);
        let end = CancellationToken::new();
        let server = api.serve(end.clone()).await;
        let agent = place.agent(server);
        eventually("the pod's peer has the destination", || tunnel.given() == [true, false]).await;
        eventually("and its route", || place.sh("ip route show table 200").contains("dev wg0")).await;

        // The kernel reports nothing of this.
        let started = std::time::Instant::now();
        tunnel.owner_sets(1, "10.42.2.0/24,10.42.3.0/24");
        eventually("it follows the pod", || tunnel.given() == [false, true]).await;
        assert!(started.elapsed().as_secs() < 10, "long before the next full pass");

        // An agent that was not there when it was added, and what its end leaves.
        agent.stop().await;
        assert_eq!(tunnel.given(), [false, true], "the agent's end leaves traffic running");
        let agent = place.agent(server);
        api.delete("viproutes", "vpn-office");
        api.delete("vipgateways", "office");
        tunnel.owner_sets(0, "10.42.2.0/24,192.0.2.128/25");
        eventually("it goes with the gateway", || tunnel.given() == [false, false]).await;
        assert_eq!(tunnel.allowed(), before, "all else is as its owner left it");

        // The same without an API.
        put_gateway(&api);
        eventually("it is back", || tunnel.given() == [true, false]).await;
        agent.stop().await;
        place.cleanup().await;
        assert_eq!(tunnel.allowed(), before);
        end.cancel();
    });
}

#[test]
fn a_destination_around_the_tunnels_endpoint_is_refused_and_told() {
    Place::run(|place| async move {
        let tunnel = Tunnel::new(&place);
        // No address of the node itself is there.
        place.sh("ip addr del 198.51.100.1/24 dev eth1; ip addr add 198.51.100.129/25 dev eth1");
        let api = api();
        put_gateway(&api);
        let mut gateway = api.get("vipgateways", "office").unwrap();
        gateway["spec"]["destinationCIDR"] = json!("198.51.100.0/25");
        api.put("vipgateways", gateway);
        let agent = place.agent(api.serve(CancellationToken::new()).await);
        let said = || {
            let lease = api
                .all("leases")
                .into_iter()
                .find(|lease| lease["metadata"]["annotations"]["netwrangler.dev/gateways"].is_string());
            lease.map(|lease| lease["metadata"]["annotations"]["netwrangler.dev/gateways"].to_string())
        };
        let why = "overlaps the endpoint 198.51.100.9 of a peer of wg0";
        eventually("it is told", || said().is_some_and(|said| said.contains(why))).await;
        assert!(!place.sh("ip rule show").contains("lookup 200 "));
        assert_eq!(tunnel.given(), [false, false]);
        agent.stop().await;
    });
}
