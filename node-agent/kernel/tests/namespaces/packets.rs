//! What packets do: replies and egress take the VIP's way, and its connections end with it.
//!
//! ```text
//! pod 10.42.0.5 ── node ─┬─ eth0 192.0.2.1 ── lan 192.0.2.254   (default route)
//!     fd42::5            │       fd00:192::1      fd00:192::254
//!                        └─ eth1 VIPs      ── outside 203.0.113.254, 10.9.0.1
//!                                                     2001:db8:113::254, 2001:db8:9::1
//! ```

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use litek8s_kernel::Links;
use litek8s_plan::{Op, recheck};

use crate::node::{Node, dual, golden, long_vip};
use crate::scratch::Scratch;

pub(crate) struct Network {
    pub(crate) node: Node,
    pub(crate) pod: Scratch,
    pub(crate) lan: Scratch,
}

impl Network {
    pub(crate) async fn new() -> Self {
        let node = Node::new().await;
        let (pod, lan) = (Scratch::new(), Scratch::new());
        node.links.add_veth("cni0", "eth0", &pod.netns).await.unwrap();
        node.links.add_veth("eth0", "eth0", &lan.netns).await.unwrap();
        for (name, address) in [
            ("cni0", "10.42.0.1/24"),
            ("cni0", "fd42::1/64"),
            ("eth0", "192.0.2.1/24"),
            ("eth0", "fd00:192::1/64"),
        ] {
            node.links.set_up(name).await.unwrap();
            node.links.add_address(name, address.parse().unwrap()).await.unwrap();
        }
        for (inside, address, router) in [
            (&pod, "10.42.0.5/24", Some(("0.0.0.0/0", "10.42.0.1"))),
            (&pod, "fd42::5/64", Some(("::/0", "fd42::1"))),
            (&lan, "192.0.2.254/24", None),
            (&lan, "fd00:192::254/64", Some(("fd42::/64", "fd00:192::1"))),
        ] {
            let links = Links::open(&inside.netns).unwrap();
            links.set_up("eth0").await.unwrap();
            links.add_address("eth0", address.parse().unwrap()).await.unwrap();
            if let Some((to, router)) = router {
                links.add_route(to.parse().unwrap(), router.parse().ok(), "eth0").await.unwrap();
            }
        }
        for (everywhere, router) in [("0.0.0.0/0", "192.0.2.254"), ("::/0", "fd00:192::254")] {
            node.links.add_route(everywhere.parse().unwrap(), router.parse().ok(), "eth0").await.unwrap();
        }
        node.scratch.sh(
            "sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.eth1.rp_filter=0 \
             net.ipv6.conf.all.forwarding=1",
        );
        // Both ends of the world have the far address; who answers tells which way a packet went.
        for outside in [&node.outside, &lan] {
            outside.sh(
                "ip link set lo up; ip addr add 10.9.0.1/32 dev lo; ip addr add 2001:db8:9::1/128 dev lo; sysctl -qw net.ipv4.conf.all.rp_filter=0",
            );
        }
        // What the node's own source NAT does for pods.
        node.scratch.sh("nft 'add table ip lan; add chain ip lan post { type nat hook postrouting priority srcnat; }; add rule ip lan post oifname \"eth0\" masquerade'");
        Self { node, pod, lan }
    }
}

/// A server that tells every client the address it came from, and echoes after that.
pub(crate) fn serve(place: &Scratch) -> SocketAddr {
    serve_at(place, "10.9.0.1:0")
}

fn serve_at(place: &Scratch, at: &str) -> SocketAddr {
    let listener = place.netns.run(|| TcpListener::bind(at).unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let from = stream.peer_addr().unwrap().ip().to_string();
                let _ = stream.write_all(format!("{from:>20}").as_bytes());
                let mut byte = [0; 1];
                while stream.read_exact(&mut byte).is_ok() && stream.write_all(&byte).is_ok() {}
            });
        }
    });
    address
}

pub(crate) fn connect(place: &Scratch, to: SocketAddr) -> (TcpStream, String) {
    let connect = || TcpStream::connect_timeout(&to, Duration::from_secs(20)).unwrap();
    let mut stream = place.netns.run(connect).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut from = [0; 20];
    stream.read_exact(&mut from).unwrap();
    (stream, String::from_utf8_lossy(&from).trim().to_owned())
}

#[tokio::test]
async fn egress_leaves_with_the_vip_and_ends_at_once_when_the_vip_leaves() {
    let network = Network::new().await;
    let node = &network.node;
    let port = serve(&node.outside);
    node.settle(&golden()).await;
    let (mut stream, from) = connect(&network.pod, port);
    assert_eq!(from, "203.0.113.10");
    stream.write_all(b"x").unwrap();
    stream.read_exact(&mut [0; 1]).unwrap();

    node.settle(&golden()[1..]).await;
    let tracked = node.scratch.sh("conntrack -L 2>/dev/null || true");
    assert!(!tracked.contains("203.0.113.10"), "{tracked}");
    // The next packet is a new connection by the default route, where nobody knows it: the peer resets it.
    let error = stream.write_all(b"x").and_then(|()| stream.read_exact(&mut [0; 1])).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    // A new one leaves as the node.
    let (_, from) = connect(&network.pod, serve(&network.lan));
    assert_eq!(from, "192.0.2.1");
}

#[tokio::test]
async fn a_pod_that_gets_a_vip_while_connected_never_mixes_the_two_ways() {
    let network = Network::new().await;
    let node = &network.node;
    let port = serve(&network.lan);
    let mut unmapped = golden();
    unmapped[0].endpoints.clear();
    node.settle(&unmapped).await;
    let (mut stream, from) = connect(&network.pod, port);
    assert_eq!(from, "192.0.2.1");
    node.settle(&golden()).await;
    let error = stream.write_all(b"x").and_then(|()| stream.read_exact(&mut [0; 1])).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    // The packet that was reset left with the VIP as its source.
    let (_, from) = connect(&network.pod, serve(&node.outside));
    assert_eq!(from, "203.0.113.10");
}

#[tokio::test]
async fn a_ping_and_a_connection_to_the_vip_are_answered_by_the_vips_interface() {
    let network = Network::new().await;
    let node = &network.node;
    node.outside.sh("ip addr add 198.51.100.1/32 dev lo");
    node.settle(&golden()).await;
    // The first VIP answers its source network, the second everybody; both by eth1, or no answer would come.
    node.outside.sh("ping -c2 -W5 -I 10.9.0.1 203.0.113.10; ping -c2 -W5 -I 198.51.100.1 203.0.113.11");
    let listener = node.scratch.netns.run(|| TcpListener::bind("203.0.113.11:0").unwrap()).unwrap();
    let to = listener.local_addr().unwrap();
    let connect = || TcpStream::connect_timeout(&to, Duration::from_secs(20)).map(drop);
    node.outside.netns.run(connect).unwrap().unwrap();
}

#[tokio::test]
async fn while_the_interface_is_down_egress_is_refused_and_does_not_leave_as_the_node() {
    let network = Network::new().await;
    let node = &network.node;
    let port = serve(&network.lan);
    node.settle(&golden()).await;
    for line in ["ip link set eth1 down", "true"] {
        node.scratch.sh(line);
        let connect = || TcpStream::connect_timeout(&port, Duration::from_secs(20)).map(drop);
        let error = network.pod.netns.run(connect).unwrap().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(nix::errno::Errno::EHOSTUNREACH as i32), "{error}");
        node.settle(&golden()).await;
    }
}

#[tokio::test]
async fn egress_of_ipv6_leaves_with_the_vip_and_ends_at_once_when_the_vip_leaves() {
    let network = Network::new().await;
    let node = &network.node;
    let port = serve_at(&node.outside, "[2001:db8:9::1]:0");
    node.settle(&dual()).await;
    let (mut stream, from) = connect(&network.pod, port);
    assert_eq!(from, "2001:db8:113::10");
    stream.write_all(b"x").unwrap();
    stream.read_exact(&mut [0; 1]).unwrap();

    node.settle(&golden()).await;
    let tracked = node.scratch.sh("conntrack -f ipv6 -L 2>/dev/null || true");
    assert!(!tracked.contains("2001:db8:113::10"), "{tracked}");
    // The next packet is a new connection by the default route, where nobody knows it: the peer resets it.
    let error = stream.write_all(b"x").and_then(|()| stream.read_exact(&mut [0; 1])).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    let (_, from) = connect(&network.pod, serve_at(&network.lan, "[2001:db8:9::1]:0"));
    assert_eq!(from, "fd42::5", "without a VIP it leaves as itself");
}

#[tokio::test]
async fn a_ping_and_a_connection_to_a_vip_of_ipv6_are_answered_by_the_vips_interface() {
    let network = Network::new().await;
    let node = &network.node;
    node.outside.sh("ip addr add 3fff::1/128 dev lo");
    let mut everywhere = long_vip(4, &["::/0"]);
    everywhere.virtual_cidr = "2001:db8:113::11/64".parse().unwrap();
    let mut vips = dual();
    vips.push(everywhere);
    node.settle(&vips).await;
    // The first VIP answers its source network, the second everybody; both by eth1, or no answer would come.
    node.outside
        .sh("ping -c2 -W5 -I 2001:db8:9::1 2001:db8:113::10; ping -c2 -W5 -I 3fff::1 2001:db8:113::11");
    let listener = node.scratch.netns.run(|| TcpListener::bind("[2001:db8:113::11]:0").unwrap()).unwrap();
    let to = listener.local_addr().unwrap();
    let connect = || TcpStream::connect_timeout(&to, Duration::from_secs(20)).map(drop);
    node.outside.netns.run(connect).unwrap().unwrap();
}

#[tokio::test]
async fn while_the_interface_is_down_egress_of_ipv6_is_refused_and_does_not_leave_as_the_pod() {
    let network = Network::new().await;
    let node = &network.node;
    let port = serve_at(&network.lan, "[2001:db8:9::1]:0");
    node.settle(&dual()).await;
    for line in ["ip link set eth1 down", "true"] {
        node.scratch.sh(line);
        let connect = || TcpStream::connect_timeout(&port, Duration::from_secs(20)).map(drop);
        let error = network.pod.netns.run(connect).unwrap().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(nix::errno::Errno::ENETUNREACH as i32), "{error}");
        node.settle(&dual()).await;
    }
}

#[tokio::test]
async fn nothing_leaves_with_a_vip_whose_address_has_ended_until_it_is_back() {
    let network = Network::new().await;
    let node = &network.node;
    let ways = ["10.9.0.1:0", "[2001:db8:9::1]:0"].map(|at| serve_at(&node.outside, at));
    let sources = || ways.map(|to| connect(&network.pod, to).1);
    node.settle(&dual()).await;
    assert_eq!(sources(), ["203.0.113.10", "2001:db8:113::10"]);

    // As the kernel ends them: of all that is a VIP's only the address goes.
    node.scratch.sh("ip addr del 203.0.113.10/24 dev eth1; ip addr del 2001:db8:113::10/64 dev eth1");
    node.outside.sh(
        "nft 'add table inet seen; add chain inet seen pre { type filter hook prerouting priority 0; }; \
         add rule inet seen pre ip saddr 203.0.113.10 counter; add rule inet seen pre ip6 saddr 2001:db8:113::10 counter'",
    );
    for to in ways {
        let connect = || TcpStream::connect_timeout(&to, Duration::from_millis(1500)).map(drop);
        let error = network.pod.netns.run(connect).unwrap().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    }
    let seen = node.outside.sh("nft list table inet seen");
    assert_eq!(seen.matches("packets 0").count(), 2, "{seen}");

    let ops = node.settle(&dual()).await;
    assert!(ops.iter().any(|op| matches!(op, Op::Announce { .. })), "{ops:?}");
    assert_eq!(sources(), ["203.0.113.10", "2001:db8:113::10"]);
}

#[tokio::test]
async fn a_node_reaches_its_own_vips() {
    let node = Node::new().await;
    node.settle(&dual()).await;
    for vip in ["203.0.113.10:0", "203.0.113.11:0", "[2001:db8:113::10]:0"] {
        connect(&node.scratch, serve_at(&node.scratch, vip));
    }
}

/// What a Service proxy does for an endpoint with the node's own address.
fn translate(node: &Node, from: &str, to: SocketAddr) {
    let rule = format!("add rule ip proxy pre ip daddr {{ {from} }} tcp dport 80 dnat to {to}");
    let chain = "add chain ip proxy pre { type nat hook prerouting priority dstnat; }";
    node.scratch.sh(&format!("nft 'add table ip proxy; {chain}; {rule}'"));
}

#[tokio::test]
async fn an_endpoint_with_the_nodes_own_address_answers_by_the_vips_interface() {
    let network = Network::new().await;
    let node = &network.node;
    node.settle(&golden()).await;
    translate(node, "203.0.113.10, 203.0.113.11", serve_at(&node.scratch, "192.0.2.1:0"));
    for vip in ["203.0.113.10:80", "203.0.113.11:80"] {
        assert_eq!(connect(&node.outside, vip.parse().unwrap()).1, "203.0.113.254", "{vip}");
    }
}

#[tokio::test]
async fn what_is_answered_inside_the_cluster_is_not_forgotten_when_an_agent_starts() {
    let network = Network::new().await;
    let node = &network.node;
    node.settle(&golden()).await;
    translate(node, "10.9.0.7", serve_at(&node.scratch, "192.0.2.1:0"));
    let (_stream, from) = connect(&network.pod, "10.9.0.7:80".parse().unwrap());
    assert_eq!(from, "10.42.0.5");
    // One that took its place would have another number.
    let numbers = || {
        let tracked = node.scratch.sh("conntrack -L -o id --orig-dst 10.9.0.7 2>/dev/null");
        let words = tracked.split_whitespace().map(str::to_owned);
        words.filter(|word| word.starts_with("id=")).collect::<Vec<_>>()
    };
    let before = numbers();
    assert_eq!(before.len(), 1, "{before:?}");
    let (desired, _) = node.plan(&golden()).await;
    let applied = node.kernel.apply(&recheck(&desired)).await;
    assert!(applied.failed.is_none() && applied.warnings.is_empty(), "{applied:?}");
    assert_eq!(numbers(), before);
}
