//! Gateway pods behind somebody else's WireGuard: what is sent to the destination arrives, and of the owner's allowed IPs
//! nothing is changed, whenever an agent dies.

use std::collections::BTreeSet;
use std::net::IpAddr;

use litek8s_kernel::Kernel;
use litek8s_plan::{
    Claims, Facts, Gateway, GatewayPod, GatewayStanding, Observed, PeerKey, Plan, compile, diff,
};

use crate::mesh::{Mesh, Node};

const DESTINATION: &str = "172.30.0.0/16";
/// Behind every remote pod.
const THERE: &str = "172.30.0.1";

/// An agent of the mesh's first node, and what it keeps on disk.
struct Agent {
    kernel: Kernel,
    claims: Claims,
}

impl Agent {
    fn start(node: &Node, claims: Claims) -> Self {
        Self { kernel: Kernel::open(node.place.reopen()).unwrap(), claims }
    }

    /// What a pass begins with; without pods there is no gateway.
    async fn plan(&self, pods: &[&Node]) -> (Plan, Observed) {
        let mut observed = self.kernel.observe().await.unwrap();
        self.claims.sort_out(&mut observed);
        let addresses: BTreeSet<IpAddr> = pods.iter().map(|node| node.pod().parse().unwrap()).collect();
        let gateway = Gateway {
            name: "g".into(),
            destination: DESTINATION.parse().unwrap(),
            table: 200,
            priority: 100,
            pods: addresses
                .iter()
                .map(|&address| GatewayPod { name: format!("edge/{address}"), address, local: false })
                .collect(),
        };
        let mut facts = Facts {
            mask: 0x7f,
            cluster_networks: vec!["10.42.0.0/16".parse().unwrap()],
            hops: self.kernel.resolve(&addresses, 1, &BTreeSet::from([200])).await.unwrap(),
            gateways: if pods.is_empty() { Vec::new() } else { vec![gateway] },
            ..Facts::default()
        };
        facts.see(&observed);
        (compile(&facts), observed)
    }

    /// A pass that is cut short after so many changes; how many it would have made.
    async fn die_after(&mut self, steps: usize, pods: &[&Node]) -> usize {
        let (plan, observed) = self.plan(pods).await;
        let ops = diff(&plan.desired, &observed);
        self.claims = Claims::before(&observed, &ops);
        let applied = self.kernel.apply(&ops[..steps.min(ops.len())]).await;
        assert!(applied.failed.is_none() && applied.warnings.is_empty(), "{applied:?}");
        ops.len()
    }

    /// A whole pass, after which nothing is left to do.
    async fn settle(&mut self, pods: &[&Node]) -> GatewayStanding {
        let before = self.plan(pods).await;
        self.die_after(usize::MAX, pods).await;
        self.claims = Claims::after(&before.0.desired, &before.1, [].iter());
        let (plan, observed) = self.plan(pods).await;
        assert_eq!(diff(&plan.desired, &observed), [], "a settled node is not written to");
        plan.gateways.get("g").cloned().unwrap_or_default()
    }
}

/// The allowed IPs of both peers, and which of them has the destination.
fn allowed(mesh: &Mesh) -> (Vec<String>, [bool; 2]) {
    let mut all = mesh.node.allowed(&mesh.east);
    all.push("|".into());
    all.extend(mesh.node.allowed(&mesh.west));
    let has = [&mesh.east, &mesh.west].map(|peer| mesh.node.allowed(peer).contains(&DESTINATION.into()));
    all.retain(|network| network != DESTINATION);
    (all, has)
}

/// As the owner of the interface does it: a whole list at once.
fn owner_sets(mesh: &Mesh, peer: &Node, networks: &str) {
    mesh.node.place.sh(&format!("wg set wg0 peer {} allowed-ips {networks}", peer.key));
}

/// The owner leads the pods of the east through the west: a relay took over, or the pod's node changed.
fn relay(mesh: &Mesh) {
    owner_sets(mesh, &mesh.west, "10.42.3.0/24,10.42.2.0/24,fd42:3::/64");
}

#[tokio::test]
async fn the_destination_is_reached_through_the_pods_peer_follows_it_and_goes_with_the_gateway() {
    let mesh = Mesh::new().await;
    owner_sets(&mesh, &mesh.east, "10.42.2.0/24,192.0.2.0/24,fd42:2::/64");
    let (before, _) = allowed(&mesh);
    let mut agent = Agent::start(&mesh.node, Claims::default());
    assert!(!mesh.node.reaches(THERE));

    assert_eq!(agent.settle(&[&mesh.east]).await.pods, 1);
    assert_eq!(allowed(&mesh), (before.clone(), [true, false]));
    assert!(mesh.node.reaches(THERE));

    relay(&mesh);
    let (relayed, _) = allowed(&mesh);
    assert_eq!(agent.settle(&[&mesh.east]).await.pods, 1);
    assert_eq!(allowed(&mesh), (relayed.clone(), [false, true]));
    assert!(mesh.node.reaches(THERE), "by the other peer");

    // A list that its owner writes anew is without it.
    relay(&mesh);
    assert_eq!(allowed(&mesh).1, [false, false]);
    assert!(!mesh.node.reaches(THERE), "refused, and not sent elsewhere");
    agent.settle(&[&mesh.east]).await;
    assert!(mesh.node.reaches(THERE));

    agent.settle(&[]).await;
    assert_eq!(allowed(&mesh), (relayed, [false, false]), "exactly what was added is gone");
    assert!(agent.kernel.observe().await.unwrap().routes.is_empty());
}

#[tokio::test]
async fn an_agent_that_dies_between_two_steps_leaves_nothing_unknown() {
    let mesh = Mesh::new().await;
    let node = &mesh.node;
    let (theirs, _) = allowed(&mesh);
    let (none, east, west): (&[&Node], &[&Node], &[&Node]) = (&[], &[&mesh.east], &[&mesh.west]);
    // From no gateway to one, and back; and to the other peer.
    for (from, to) in [(none, east), (east, none), (east, west)] {
        let (mut steps, mut crash) = (usize::MAX, 0);
        while crash <= steps {
            let mut agent = Agent::start(node, Claims::default());
            agent.settle(from).await;
            steps = agent.die_after(crash, to).await;
            // The next one finishes it, and another one clears everything away.
            let mut next = Agent::start(node, agent.claims);
            assert_eq!(next.settle(to).await.pods, to.len());
            assert_eq!(node.reaches(THERE), !to.is_empty(), "after {crash} of {steps} steps");
            let mut last = Agent::start(node, next.claims);
            last.settle(&[]).await;
            assert_eq!(allowed(&mesh), (theirs.clone(), [false, false]), "after {crash} of {steps} steps");
            assert_eq!(last.claims, Claims::default());
            crash += 1;
        }
        assert!(steps > 0);
    }
}

#[tokio::test]
async fn an_entry_of_its_owner_is_used_where_it_leads_and_never_moved_or_removed() {
    let mesh = Mesh::new().await;
    let mut agent = Agent::start(&mesh.node, Claims::default());
    owner_sets(&mesh, &mesh.west, "10.42.3.0/24,172.30.0.0/16");
    let before = allowed(&mesh);
    let standing = agent.settle(&[&mesh.east]).await;
    assert_eq!((standing.pods, &standing.refused), (0, &None));
    assert!(standing.unusable[0].contains("wg0 leads 172.30.0.0/16 to another peer"), "{standing:?}");
    assert!(!mesh.node.reaches(THERE), "closed");
    assert_eq!(allowed(&mesh), before);

    // Two pods: the one behind the peer that has it.
    assert_eq!(agent.settle(&[&mesh.east, &mesh.west]).await.pods, 1);
    assert!(mesh.node.reaches(THERE));
    agent.settle(&[]).await;
    assert_eq!(allowed(&mesh), before);
}

#[tokio::test]
async fn a_peer_with_more_than_one_message_of_allowed_ips_is_read_whole() {
    let mesh = Mesh::new().await;
    let many: Vec<String> = (0..1500u16).map(|n| format!("100.64.{}.{}/32", n / 256, n % 256)).collect();
    owner_sets(&mesh, &mesh.east, &many.join(","));
    let mut agent = Agent::start(&mesh.node, Claims::default());
    agent.settle(&[&mesh.west]).await;
    let (_, observed) = agent.plan(&[&mesh.west]).await;
    let tunnel = &observed.tunnels["wg0"];
    let of = |node: &Node| tunnel.peers[&node.key.parse::<PeerKey>().unwrap()].clone();
    assert_eq!(of(&mesh.east).allowed_ips.len(), many.len());
    assert_eq!(of(&mesh.east).endpoint, "198.51.100.2".parse().ok());
    assert_eq!(of(&mesh.west).allowed_ips.len(), 1, "ours is told apart");
    agent.settle(&[]).await;
    assert_eq!(mesh.node.allowed(&mesh.east).len(), many.len());
}
