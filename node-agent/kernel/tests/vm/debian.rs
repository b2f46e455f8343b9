//! What Debian's kernel has, and how its WireGuard behaves before anything of ours is there.

use std::collections::BTreeSet;
use std::net::IpAddr;

use litek8s_kernel::Kernel;

use crate::mesh::Mesh;

#[tokio::test]
async fn debian_lacks_nothing_that_a_plan_may_ask_for() {
    litek8s_kernel::probe().await.unwrap();
}

#[tokio::test]
async fn wireguard_carries_what_a_peer_has_among_its_allowed_ips_and_nothing_else() {
    let mesh = Mesh::new().await;
    let (node, east, west) = (&mesh.node, &mesh.east, &mesh.west);
    assert!(node.reaches(&east.pod()) && node.reaches(&west.pod()));
    node.place.sh("ip route add 172.30.0.0/16 dev wg0");
    assert!(!node.reaches("172.30.0.1"), "no peer has it");
    node.place.sh(&format!("wg set wg0 peer {} allowed-ips {},172.30.0.0/16", east.key, east.pods()));
    assert!(node.reaches("172.30.0.1"));
    // An entry is one peer's: given to another it is taken from the first.
    node.place.sh(&format!("wg set wg0 peer {} allowed-ips {},172.30.0.0/16", west.key, west.pods()));
    assert_eq!(node.allowed(east), [east.pods()]);
    assert_eq!(node.allowed(west), [west.pods(), "172.30.0.0/16".into()]);
    assert!(node.reaches("172.30.0.1"));
}

#[tokio::test]
async fn the_way_to_a_pod_behind_a_peer_is_the_wireguard_interface() {
    let mesh = Mesh::new().await;
    let pod: IpAddr = mesh.east.pod().parse().unwrap();
    let kernel = Kernel::open(mesh.node.place.reopen()).unwrap();
    let ways = kernel.resolve(&BTreeSet::from([pod]), 1, &BTreeSet::new()).await.unwrap();
    let way = ways[&pod].as_ref().unwrap();
    assert_eq!(
        (way.gateway, way.interface.as_str(), way.source.to_string()),
        (pod, "wg0", "10.42.1.1".to_owned())
    );
}
