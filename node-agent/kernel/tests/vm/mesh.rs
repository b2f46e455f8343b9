//! Three nodes whose pods reach each other by WireGuard, set up by somebody else: `ip` and `wg` alone.
//!
//! ```text
//! node 198.51.100.1 ─┐         wg0 10.42.1.1, pods 10.42.1.0/24
//! east 198.51.100.2 ─┼─ hub    wg0 10.42.2.1, pods 10.42.2.0/24
//! west 198.51.100.3 ─┘         wg0 10.42.3.1, pods 10.42.3.0/24
//! ```
//! The fifth address of each pod network is a pod there, and it has 172.30.0.1 behind it.

use litek8s_kernel::Links;

use crate::scratch::Scratch;

/// Everything between the nodes.
pub(crate) struct Mesh {
    pub(crate) node: Node,
    pub(crate) east: Node,
    pub(crate) west: Node,
    _hub: Scratch,
}

/// One of them.
pub(crate) struct Node {
    pub(crate) place: Scratch,
    /// The public key, as `wg` writes it.
    pub(crate) key: String,
    number: u8,
}

impl Mesh {
    /// Three nodes; the two remote ones are peers of the first.
    pub(crate) async fn new() -> Self {
        let hub = Scratch::new();
        let links = Links::open(&hub.netns).unwrap();
        links.add_bridge("hub").await.unwrap();
        links.set_up("hub").await.unwrap();
        let mut nodes = Vec::new();
        for number in 1..=3 {
            nodes.push(Node::new(&links, number).await);
        }
        let [node, east, west] = <[Node; 3]>::try_from(nodes).ok().unwrap();
        for remote in [&east, &west] {
            node.know(remote);
            remote.know(&node);
            remote
                .place
                .sh(&format!("ip addr add {}/32 dev lo; ip addr add 172.30.0.1/32 dev lo", remote.pod()));
        }
        Self { node, east, west, _hub: hub }
    }
}

impl Node {
    async fn new(hub: &Links, number: u8) -> Self {
        let place = Scratch::new();
        let port = format!("port{number}");
        hub.add_veth(&port, "eth0", &place.netns).await.unwrap();
        hub.attach(&port, "hub").await.unwrap();
        let private = place.file("key").display().to_string();
        let key = place.sh(&format!(
            "ip link set lo up; ip link set eth0 up; ip addr add 198.51.100.{number}/24 dev eth0
            umask 077; wg genkey >{private}
            ip link add wg0 type wireguard; wg set wg0 listen-port 51820 private-key {private}
            ip addr add 10.42.{number}.1/32 dev wg0; ip link set wg0 up
            wg pubkey <{private}"
        ));
        Self { place, key: key.trim().to_owned(), number }
    }

    /// Its pod.
    pub(crate) fn pod(&self) -> String {
        format!("10.42.{}.5", self.number)
    }

    /// Its pod network.
    pub(crate) fn pods(&self) -> String {
        format!("10.42.{}.0/24", self.number)
    }

    fn know(&self, other: &Self) {
        let (key, number, pods) = (&other.key, other.number, other.pods());
        self.place.sh(&format!(
            "wg set wg0 peer {key} endpoint 198.51.100.{number}:51820 allowed-ips {pods}; ip route add {pods} dev wg0"
        ));
    }

    /// The allowed IPs that this node has for a peer, as `wg` shows them, in order.
    pub(crate) fn allowed(&self, peer: &Self) -> Vec<String> {
        let all = self.place.sh("wg show wg0 allowed-ips");
        let line = all.lines().find_map(|line| line.strip_prefix(&peer.key)).unwrap();
        let mut allowed: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        allowed.sort();
        allowed
    }

    /// Whether a packet from here comes back from there.
    pub(crate) fn reaches(&self, address: &str) -> bool {
        let mut ping = self.place.netns.command("ping").unwrap();
        ping.args(["-n", "-q", "-c1", "-W3", address]).output().unwrap().status.success()
    }
}
