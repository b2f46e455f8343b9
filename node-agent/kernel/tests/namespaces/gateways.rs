//! Gateways in a real kernel: what is written reads back, pods come and go, and packets go through a pod or nowhere.
//!
//! ```text
//! pod 10.42.0.5 ─┐
//!                ├─ cni0 10.42.0.1 ── node ── eth0 192.0.2.1 ── lan 192.0.2.254   (default route)
//! gw  10.42.0.N ─┘      each gateway pod has an uplink of its own to 172.30.0.1, and masquerades
//! ```

use std::collections::BTreeSet;
use std::net::IpAddr;

use litek8s_kernel::{Kernel, Links, Notice};
use litek8s_plan::{Desired, Facts, Gateway, GatewayPod, Observed, Op, compile, diff, free_mark};

use crate::scratch::Scratch;

const DESTINATION: &str = "172.30.0.0/16";

/// A node with a bridge for pods, a client pod, and a LAN where the default route leads.
struct Place {
    node: Scratch,
    client: Scratch,
    lan: Scratch,
    pods: Vec<Scratch>,
    kernel: Kernel,
    links: Links,
}

impl Place {
    async fn new() -> Self {
        let [node, client, lan] = [Scratch::new(), Scratch::new(), Scratch::new()];
        let links = Links::open(&node.netns).unwrap();
        links.set_up("lo").await.unwrap();
        links.add_bridge("cni0").await.unwrap();
        links.set_up("cni0").await.unwrap();
        links.add_address("cni0", "10.42.0.1/24".parse().unwrap()).await.unwrap();
        links.add_veth("eth0", "eth0", &lan.netns).await.unwrap();
        links.set_up("eth0").await.unwrap();
        links.add_address("eth0", "192.0.2.1/24".parse().unwrap()).await.unwrap();
        lan.sh("ip addr add 192.0.2.254/24 dev eth0; ip link set eth0 up; ip link set lo up; ip addr add 172.30.0.1/32 dev lo");
        node.sh("ip route add default via 192.0.2.254; sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0");
        lan.sh("ip route add 10.42.0.0/24 via 192.0.2.1");
        let kernel = Kernel::open(node.reopen()).unwrap();
        let place = Self { node, client, lan, pods: Vec::new(), kernel, links };
        place.plug(&place.client, "client", "10.42.0.5").await;
        place
    }

    async fn plug(&self, pod: &Scratch, port: &str, address: &str) {
        self.links.add_veth(port, "eth0", &pod.netns).await.unwrap();
        self.links.attach(port, "cni0").await.unwrap();
        pod.sh(&format!("ip addr add {address}/24 dev eth0; ip link set eth0 up; ip link set lo up; ip route add default via 10.42.0.1"));
    }

    /// A pod that leads to 172.30.0.1 by an uplink of its own, where it is the answering end itself.
    async fn add_pod(&mut self, number: u8) {
        let pod = Scratch::new();
        self.plug(&pod, &format!("gw{number}"), &format!("10.42.0.{number}")).await;
        pod.sh("ip addr add 172.30.0.1/32 dev lo; sysctl -qw net.ipv4.conf.all.accept_redirects=0");
        self.pods.push(pod);
    }

    async fn plan(&self, pods: &[u8], wanted: bool) -> (Desired, Observed) {
        let observed = self.kernel.observe().await.unwrap();
        let pods = pods.iter().map(|number| GatewayPod {
            name: format!("edge/gw{number}"),
            address: [10, 42, 0, *number].into(),
            local: true,
        });
        let gateway = Gateway {
            name: "g".into(),
            destination: DESTINATION.parse().unwrap(),
            table: 200,
            priority: 100,
            pods: pods.collect(),
        };
        let addresses: BTreeSet<IpAddr> = gateway.pods.iter().map(|pod| pod.address).collect();
        let tables = observed.rules.iter().map(|rule| rule.table).filter(|table| *table != 254).collect();
        let mark = free_mark(0x7f, &BTreeSet::new());
        let facts = Facts {
            mask: 0x7f,
            cluster_networks: vec!["10.42.0.0/16".parse().unwrap()],
            hops: self.kernel.resolve(&addresses, mark, &tables).await.unwrap(),
            gateways: if wanted { vec![gateway] } else { Vec::new() },
            interfaces: observed.interfaces.clone(),
            ..Facts::default()
        };
        let plan = compile(&facts);
        if let Some(standing) = plan.gateways.get("g") {
            assert!(standing.refused.is_none() && standing.unusable.is_empty(), "{standing:?}");
        }
        (plan.desired, observed)
    }

    async fn settle(&self, pods: &[u8], wanted: bool) -> Vec<Op> {
        let (desired, observed) = self.plan(pods, wanted).await;
        let ops = diff(&desired, &observed);
        let applied = self.kernel.apply(&ops).await;
        assert!(applied.failed.is_none() && applied.warnings.is_empty(), "{applied:?}");
        let (desired, observed) = self.plan(pods, wanted).await;
        assert_eq!(observed.nft, desired.nft);
        assert_eq!(diff(&desired, &observed), [], "a settled node is not written to");
        ops
    }

    fn routes(&self) -> String {
        self.node.sh("ip route show table 200")
    }

    /// What a ping of the destination from a pod ends with.
    fn ping(&self, from: &Scratch) -> Result<(), String> {
        let mut ping = from.netns.command("ping").unwrap();
        let output = ping.args(["-n", "-c1", "-W5", "172.30.0.1"]).output().unwrap();
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8(output.stdout).unwrap()),
        }
    }
}

const FALLBACK: &str = "unreachable 172.30.0.0/16 proto 110 metric 4294967295";

#[tokio::test]
async fn pods_come_and_go_by_one_route_and_the_fallback_stays() {
    let mut place = Place::new().await;
    place.add_pod(6).await;
    place.add_pod(7).await;
    place.settle(&[6, 7], true).await;
    let rules = place.node.sh("ip rule show");
    for line in [
        "100:\tfrom all to 172.30.0.0/16 fwmark 0/0x7f lookup 200 proto 110",
        "99:\tfrom 10.42.0.6 to 172.30.0.0/16 fwmark 0/0x7f lookup main proto 110",
    ] {
        assert!(rules.contains(line), "{rules}");
    }
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(
        words(&place.routes()),
        format!(
            "172.30.0.0/16 proto 110 src 10.42.0.1 nexthop via 10.42.0.6 dev cni0 weight 1 \
             nexthop via 10.42.0.7 dev cni0 weight 1 {FALLBACK}"
        )
    );
    let mut monitor = place.kernel.monitor().unwrap();
    place.settle(&[7], true).await;
    assert_eq!(
        words(&place.routes()),
        format!("172.30.0.0/16 via 10.42.0.7 dev cni0 proto 110 src 10.42.0.1 {FALLBACK}")
    );
    assert_eq!(monitor.next().await, Some(Notice::Route));
    place.settle(&[], true).await;
    assert_eq!(words(&place.routes()), FALLBACK);
    place.settle(&[6], true).await;
    assert!(place.routes().contains("via 10.42.0.6"));
    // Somebody's deletion of the pod's route leaves the fallback, and ours does when the route is gone already.
    place.node.sh("ip route del 172.30.0.0/16 table 200 proto 110 via 10.42.0.6");
    let (desired, mut observed) = place.plan(&[], true).await;
    observed.routes.extend(place.plan(&[6], true).await.0.routes);
    let applied = place.kernel.apply(&diff(&desired, &observed)).await;
    assert!(applied.failed.is_none(), "{applied:?}");
    assert_eq!(words(&place.routes()), FALLBACK);
    place.settle(&[], false).await;
    assert_eq!(place.routes(), "");
    assert!(!place.node.sh("ip rule show").contains("110"));
}

#[tokio::test]
async fn packets_go_through_a_pod_or_nowhere_and_never_by_the_default_route() {
    let mut place = Place::new().await;
    assert_eq!(place.ping(&place.client), Ok(()), "the default route leads there before");
    place.lan.sh("nft 'table inet w { counter leaked { }; chain c { type filter hook prerouting priority 0; ip daddr 172.30.0.0/16 counter name leaked; }; }'");
    let leaked = |place: &Place| place.lan.sh("nft list counter inet w leaked").contains("packets 0");
    place.settle(&[], true).await;
    let refused = place.ping(&place.client).unwrap_err();
    assert!(refused.contains("Destination Host Unreachable"), "{refused}");
    place.add_pod(6).await;
    place.settle(&[6], true).await;
    assert_eq!(place.ping(&place.client), Ok(()));
    // The node's own packets, too.
    assert_eq!(place.ping(&place.node), Ok(()));
    place.settle(&[], true).await;
    assert!(place.ping(&place.client).is_err());
    assert!(place.ping(&place.node).is_err());
    assert!(leaked(&place), "something left by the default route");
}

#[tokio::test]
async fn what_a_gateway_pod_sends_there_itself_is_not_sent_back_to_it() {
    let mut place = Place::new().await;
    place.add_pod(6).await;
    // It sends on what it gets by its only way, which is its node, and with its own address.
    place.pods[0].sh("ip addr del 172.30.0.1/32 dev lo; sysctl -qw net.ipv4.ip_forward=1; nft 'table ip m { chain p { type nat hook postrouting priority srcnat; ip daddr 172.30.0.0/16 masquerade; }; }'");
    place.node.sh("nft 'table inet w { counter seen { }; chain c { type filter hook prerouting priority -400; iifname cni0 ip daddr 172.30.0.1 counter name seen; }; }'");
    place.settle(&[6], true).await;
    assert_eq!(place.ping(&place.client), Ok(()));
    let seen = place.node.sh("nft list counter inet w seen");
    assert!(seen.contains("packets 2 "), "once from the client, once from the pod: {seen}");
}

#[tokio::test]
async fn a_client_beside_the_pod_is_not_told_to_go_there_directly() {
    let mut place = Place::new().await;
    place.add_pod(6).await;
    place.client.sh("sysctl -qw net.ipv4.conf.all.accept_redirects=1 net.ipv4.conf.eth0.accept_redirects=1 net.ipv4.conf.all.secure_redirects=0 net.ipv4.conf.eth0.secure_redirects=0");
    place.settle(&[6], true).await;
    // The kernel tells it ever more seldom: one packet after the other would not be enough.
    let told = || {
        place.client.sh("ping -n -c5 -i0.3 -W5 172.30.0.1 >/dev/null; ip route get 172.30.0.1; nstat -asz IcmpInRedirects")
    };
    let text = told();
    assert!(text.contains("via 10.42.0.1") && !text.contains("redirected"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("IcmpInRedirects") && line.contains(" 0 ")), "{text}");
    // It is our chain that keeps them away.
    place.node.sh("nft flush chain inet netwrangler filter-output");
    let text = told();
    assert!(!text.lines().any(|line| line.starts_with("IcmpInRedirects") && line.contains(" 0 ")), "{text}");
}

#[tokio::test]
async fn the_way_to_a_pod_is_the_kernels_own_without_defaults_and_our_tables() {
    let place = Place::new().await;
    place.node.sh(
        "ip route add 10.42.1.0/24 via 192.0.2.3; ip route add unreachable 10.42.2.0/24; ip route add 10.42.3.0/24 via 192.0.2.3 table 200; \
         ip rule add to 10.42.3.0/24 fwmark 0/0x7f lookup 200 priority 100; ip rule add to 10.42.4.0/24 lookup 201 priority 101; \
         ip route add 10.42.4.0/24 via 192.0.2.4 table 201",
    );
    let pods = ["10.42.0.9", "10.42.1.5", "10.42.2.5", "10.42.3.5", "10.42.4.5", "10.42.0.1", "198.18.0.1"];
    let addresses: BTreeSet<IpAddr> = pods.iter().map(|pod| pod.parse().unwrap()).collect();
    let tables = BTreeSet::from([200]);
    let found = place.kernel.resolve(&addresses, 1, &tables).await.unwrap();
    let text = |pod: &str| match &found[&pod.parse::<IpAddr>().unwrap()] {
        Ok(way) => format!("via {} dev {} src {}", way.gateway, way.interface, way.source),
        Err(why) => why.clone(),
    };
    assert_eq!(text("10.42.0.9"), "via 10.42.0.9 dev cni0 src 10.42.0.1");
    assert_eq!(text("10.42.1.5"), "via 192.0.2.3 dev eth0 src 192.0.2.1");
    assert_eq!(text("10.42.2.5"), "No route to host (os error 113)");
    // With a mark our rule does not lead it to our table; somebody else's table is as good as the main one.
    assert_eq!(text("10.42.3.5"), "only the default route leads to it");
    assert_eq!(text("10.42.4.5"), "via 192.0.2.4 dev eth0 src 192.0.2.1");
    assert_eq!(
        text("10.42.0.1"),
        "its address is this node's own: a gateway's pod needs a network of its own"
    );
    assert_eq!(text("198.18.0.1"), "only the default route leads to it");
    let ours = place.kernel.resolve(&addresses, 0, &tables).await.unwrap();
    let why = ours[&"10.42.3.5".parse::<IpAddr>().unwrap()].clone().unwrap_err();
    assert_eq!(why, "the way to it leads through our own route table 200");
}
