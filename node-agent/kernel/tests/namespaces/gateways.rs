//! Gateways in a real kernel: what is written reads back, pods come and go, and packets go through a pod or nowhere.
//!
//! ```text
//! pod 10.42.0.5 ─┐
//!                ├─ cni0 10.42.0.1 ── node ── eth0 192.0.2.1 ── lan 192.0.2.254   (default route)
//! gw  10.42.0.N ─┘      each gateway pod has an uplink of its own to 172.30.0.1, and masquerades
//! ```
//! The same in IPv6: fd42::N, fd00:192::N and 3fff:30::1.

use std::collections::BTreeSet;
use std::net::IpAddr;

use litek8s_kernel::{Kernel, Links, Notice};
use litek8s_plan::{Desired, Facts, Gateway, GatewayPod, Observed, Op, compile, diff, free_mark};

use crate::scratch::Scratch;

/// The addresses of a place, and the words for them.
struct Numbers {
    /// What `ip` is told before `rule` and `route`.
    flag: &'static str,
    destination: &'static str,
    /// Who answers there.
    end: &'static str,
    /// What a pod's number follows, and how long its network's prefix is.
    pods: &'static str,
    length: u8,
    lan: &'static str,
    /// The length of one address.
    whole: u8,
    forwarding: &'static str,
    refused: &'static str,
    /// What the metric of a route that asks for none is printed as.
    metric: &'static str,
}

const FOUR: Numbers = Numbers {
    flag: "-4",
    destination: "172.30.0.0/16",
    end: "172.30.0.1",
    pods: "10.42.0.",
    length: 24,
    lan: "192.0.2.",
    whole: 32,
    forwarding: "net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0",
    refused: "Destination Host Unreachable",
    metric: "",
};

const SIX: Numbers = Numbers {
    flag: "-6",
    destination: "3fff:30::/32",
    end: "3fff:30::1",
    pods: "fd42::",
    length: 64,
    lan: "fd00:192::",
    whole: 128,
    forwarding: "net.ipv6.conf.all.forwarding=1",
    refused: "Destination unreachable: No route",
    metric: " metric 1024",
};

impl Numbers {
    fn pod(&self, number: u8) -> String {
        format!("{}{number}", self.pods)
    }

    /// Without it an address of IPv6 is of no use for a second.
    fn nodad(&self) -> &'static str {
        if self.whole == 128 { " nodad" } else { "" }
    }

    fn fallback(&self) -> String {
        let device = if self.whole == 128 { " dev lo" } else { "" };
        format!("unreachable {}{device} proto 110 metric 4294967295", self.destination)
    }
}

/// A node with a bridge for pods, a client pod, and a LAN where the default route leads.
struct Place {
    node: Scratch,
    client: Scratch,
    lan: Scratch,
    pods: Vec<Scratch>,
    kernel: Kernel,
    links: Links,
    numbers: Numbers,
}

impl Place {
    async fn new() -> Self {
        Self::of(FOUR).await
    }

    async fn of(numbers: Numbers) -> Self {
        let [node, client, lan] = [Scratch::new(), Scratch::new(), Scratch::new()];
        let links = Links::open(&node.netns).unwrap();
        links.set_up("lo").await.unwrap();
        links.add_bridge("cni0").await.unwrap();
        links.set_up("cni0").await.unwrap();
        let Numbers { pods, lan: net, length, whole, end, forwarding, .. } = numbers;
        links.add_address("cni0", format!("{pods}1/{length}").parse().unwrap()).await.unwrap();
        links.add_veth("eth0", "eth0", &lan.netns).await.unwrap();
        links.set_up("eth0").await.unwrap();
        links.add_address("eth0", format!("{net}1/{length}").parse().unwrap()).await.unwrap();
        let nodad = numbers.nodad();
        lan.sh(&format!("ip addr add {net}254/{length} dev eth0{nodad}; ip link set eth0 up; ip link set lo up; ip addr add {end}/{whole} dev lo{nodad}"));
        node.sh(&format!("ip route add default via {net}254; sysctl -qw {forwarding}"));
        lan.sh(&format!("ip route add {pods}0/{length} via {net}1"));
        let kernel = Kernel::open(node.reopen()).unwrap();
        let place = Self { node, client, lan, pods: Vec::new(), kernel, links, numbers };
        place.plug(&place.client, "client", 5).await;
        place
    }

    async fn plug(&self, pod: &Scratch, port: &str, number: u8) {
        self.links.add_veth(port, "eth0", &pod.netns).await.unwrap();
        self.links.attach(port, "cni0").await.unwrap();
        let (numbers, nodad) = (&self.numbers, self.numbers.nodad());
        let (address, router) = (numbers.pod(number), numbers.pod(1));
        pod.sh(&format!("ip addr add {address}/{} dev eth0{nodad}; ip link set eth0 up; ip link set lo up; ip route add default via {router}", numbers.length));
    }

    /// A pod that leads to the destination by an uplink of its own, where it is the answering end itself.
    async fn add_pod(&mut self, number: u8) {
        let pod = Scratch::new();
        self.plug(&pod, &format!("gw{number}"), number).await;
        let Numbers { end, whole, .. } = self.numbers;
        let nodad = self.numbers.nodad();
        pod.sh(&format!(
            "ip addr add {end}/{whole} dev lo{nodad}; sysctl -qw net.ipv4.conf.all.accept_redirects=0"
        ));
        self.pods.push(pod);
    }

    async fn plan(&self, pods: &[u8], wanted: bool) -> (Desired, Observed) {
        let observed = self.kernel.observe().await.unwrap();
        let pods = pods.iter().map(|number| GatewayPod {
            name: format!("edge/gw{number}"),
            address: self.numbers.pod(*number).parse().unwrap(),
            local: true,
        });
        let gateway = Gateway {
            name: "g".into(),
            destination: self.numbers.destination.parse().unwrap(),
            table: 200,
            priority: 100,
            pods: pods.collect(),
        };
        let addresses: BTreeSet<IpAddr> = gateway.pods.iter().map(|pod| pod.address).collect();
        let tables = observed.rules.iter().map(|rule| rule.table).filter(|table| *table != 254).collect();
        let mark = free_mark(0x7f, &BTreeSet::new());
        let facts = Facts {
            mask: 0x7f,
            cluster_networks: ["10.42.0.0/16", "fd42::/56"].map(|network| network.parse().unwrap()).into(),
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
        // A table that never had a route is unknown to IPv6.
        self.node.sh(&format!("ip {} route show table 200 2>/dev/null || true", self.numbers.flag))
    }

    /// What a ping of the destination from a pod ends with.
    fn ping(&self, from: &Scratch) -> Result<(), String> {
        let mut ping = from.netns.command("ping").unwrap();
        let output = ping.args(["-n", "-c1", "-W5", self.numbers.end]).output().unwrap();
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8(output.stdout).unwrap()),
        }
    }
}

#[tokio::test]
async fn pods_come_and_go_by_one_route_and_the_fallback_stays() {
    come_and_go(Place::of(FOUR).await).await;
}

#[tokio::test]
async fn pods_of_ipv6_come_and_go_by_one_route_and_the_fallback_stays() {
    come_and_go(Place::of(SIX).await).await;
}

async fn come_and_go(mut place: Place) {
    let Numbers { flag, destination, metric, .. } = place.numbers;
    let fallback = place.numbers.fallback();
    let [router, six, seven] = [1, 6, 7].map(|number| place.numbers.pod(number));
    place.add_pod(6).await;
    place.add_pod(7).await;
    place.settle(&[6, 7], true).await;
    let rules = || place.node.sh(&format!("ip {flag} rule show"));
    for line in [
        format!("100:\tfrom all to {destination} fwmark 0/0x7f lookup 200 proto 110"),
        format!("99:\tfrom {six} to {destination} fwmark 0/0x7f lookup main proto 110"),
    ] {
        assert!(rules().contains(&line), "{}", rules());
    }
    let words =
        |text: &str| text.replace(" pref medium", "").split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(
        words(&place.routes()),
        format!(
            "{destination} proto 110 src {router}{metric} nexthop via {six} dev cni0 weight 1 \
             nexthop via {seven} dev cni0 weight 1 {fallback}"
        )
    );
    let mut monitor = place.kernel.monitor().unwrap();
    place.settle(&[7], true).await;
    assert_eq!(
        words(&place.routes()),
        format!("{destination} via {seven} dev cni0 proto 110 src {router}{metric} {fallback}")
    );
    assert_eq!(monitor.next().await, Some(Notice::Route));
    place.settle(&[], true).await;
    assert_eq!(words(&place.routes()), fallback);
    place.settle(&[6], true).await;
    assert!(place.routes().contains(&format!("via {six}")));
    // Somebody's deletion of the pod's route leaves the fallback, and ours does when the route is gone already.
    place.node.sh(&format!("ip {flag} route del {destination} table 200 proto 110 via {six}"));
    let (desired, mut observed) = place.plan(&[], true).await;
    observed.routes.extend(place.plan(&[6], true).await.0.routes);
    let applied = place.kernel.apply(&diff(&desired, &observed)).await;
    assert!(applied.failed.is_none(), "{applied:?}");
    assert_eq!(words(&place.routes()), fallback);
    place.settle(&[], false).await;
    assert_eq!(place.routes(), "");
    assert!(!rules().contains("110"));
}

#[tokio::test]
async fn packets_go_through_a_pod_or_nowhere_and_never_by_the_default_route() {
    through_a_pod_or_nowhere(Place::of(FOUR).await).await;
}

#[tokio::test]
async fn packets_of_ipv6_go_through_a_pod_or_nowhere_and_never_by_the_default_route() {
    through_a_pod_or_nowhere(Place::of(SIX).await).await;
}

async fn through_a_pod_or_nowhere(mut place: Place) {
    let Numbers { destination, refused: words, whole, .. } = place.numbers;
    let word = if whole == 128 { "ip6" } else { "ip" };
    assert_eq!(place.ping(&place.client), Ok(()), "the default route leads there before");
    place.lan.sh(&format!("nft 'table inet w {{ counter leaked {{ }}; chain c {{ type filter hook prerouting priority 0; {word} daddr {destination} counter name leaked; }}; }}'"));
    let leaked = |place: &Place| place.lan.sh("nft list counter inet w leaked").contains("packets 0");
    place.settle(&[], true).await;
    let refused = place.ping(&place.client).unwrap_err();
    assert!(refused.contains(words), "{refused}");
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

#[tokio::test]
async fn the_way_to_a_pod_of_ipv6_is_the_kernels_own_without_defaults() {
    let place = Place::of(SIX).await;
    place.node.sh(
        "ip -6 route add fd42:0:0:1::/64 via fd00:192::3; ip -6 route add unreachable fd42:0:0:2::/64; \
         ip -6 route add fd42:0:0:3::/64 via fd00:192::3 table 200; \
         ip -6 rule add to fd42:0:0:3::/64 fwmark 0/0x7f lookup 200 priority 100",
    );
    let pods = ["fd42::9", "fd42:0:0:1::5", "fd42:0:0:2::5", "fd42:0:0:3::5", "fd42::1"];
    let addresses: BTreeSet<IpAddr> = pods.iter().map(|pod| pod.parse().unwrap()).collect();
    let found = place.kernel.resolve(&addresses, 1, &BTreeSet::from([200])).await.unwrap();
    let text = |pod: &str| match &found[&pod.parse::<IpAddr>().unwrap()] {
        Ok(way) => format!("via {} dev {} src {}", way.gateway, way.interface, way.source),
        Err(why) => why.clone(),
    };
    assert_eq!(text("fd42::9"), "via fd42::9 dev cni0 src fd42::1");
    assert_eq!(text("fd42:0:0:1::5"), "via fd00:192::3 dev eth0 src fd00:192::1");
    assert_eq!(text("fd42:0:0:2::5"), "No route to host (os error 113)");
    assert_eq!(text("fd42:0:0:3::5"), "only the default route leads to it");
    assert_eq!(text("fd42::1"), "its address is this node's own: a gateway's pod needs a network of its own");
}
