//! Pods that may leave with a VIP only: refused at once without one, and untouched in everything else.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use litek8s_plan::{Facts, Vip, compile, diff};

use crate::node::golden;
use crate::packets::{Network, connect, serve};
use crate::scratch::Scratch;

async fn settle(network: &Network, vips: &[Vip], guarded: &[&str]) {
    for pass in 0..2 {
        let observed = network.node.kernel.observe().await.unwrap();
        let facts = Facts {
            mask: 0x7f,
            cluster_networks: vec!["10.42.0.0/16".parse().unwrap()],
            node_addresses: vec!["192.0.2.1".parse().unwrap()],
            vips: vips.to_vec(),
            guarded: guarded.iter().map(|pod| pod.parse().unwrap()).collect::<BTreeSet<_>>(),
            interfaces: observed.interfaces.clone(),
            ..Facts::default()
        };
        let ops = diff(&compile(&facts).desired, &observed);
        assert!(pass == 0 || ops.is_empty(), "a settled node is not written to: {ops:?}");
        let applied = network.node.kernel.apply(&ops).await;
        assert!(applied.failed.is_none() && applied.warnings.is_empty(), "{applied:?}");
    }
}

fn try_connect(place: &Scratch, to: SocketAddr) -> Result<(), ErrorKind> {
    let connect = || TcpStream::connect_timeout(&to, Duration::from_secs(20)).map(drop);
    place.netns.run(connect).unwrap().map_err(|error| error.kind())
}

#[tokio::test]
async fn a_guarded_pod_is_refused_without_a_vip_and_leaves_with_one() {
    let network = Network::new().await;
    let port = serve(&network.lan);
    assert_eq!(try_connect(&network.pod, port), Ok(()), "it leaves as the node before");
    settle(&network, &[], &["10.42.0.5"]).await;
    assert_eq!(try_connect(&network.pod, port), Err(ErrorKind::ConnectionRefused));
    let ping = network.pod.sh("ping -n -c1 -W5 10.9.0.1 || true");
    assert!(ping.contains("Packet filtered"), "{ping}");
    // Who begins a connection to the pod is answered.
    network.lan.sh("ip route add 10.42.0.0/24 via 192.0.2.1");
    let listener = network.pod.netns.run(|| TcpListener::bind("10.42.0.5:0").unwrap()).unwrap();
    assert_eq!(try_connect(&network.lan, listener.local_addr().unwrap()), Ok(()));

    // What belongs to no connection has no VIP, and does not leave as the pod either.
    network.lan.sh("nft 'add table ip seen; add chain ip seen pre { type filter hook prerouting priority 0; }; add rule ip seen pre ip saddr 10.42.0.5 udp dport 9 counter'");
    let notrack = "nft 'add table ip raw; add chain ip raw pre { type filter hook prerouting priority raw; }; add rule ip raw pre udp dport 9 notrack'";
    network.node.scratch.sh(notrack);
    let send = || {
        let socket = std::net::UdpSocket::bind("10.42.0.5:0").unwrap();
        for _ in 0..3 {
            socket.send_to(b"x", "10.9.0.1:9").unwrap();
        }
    };
    network.pod.netns.run(send).unwrap();
    let seen = || network.lan.sh("nft list table ip seen");
    assert!(seen().contains("packets 0"), "{}", seen());
    settle(&network, &[], &[]).await;
    network.pod.netns.run(send).unwrap();
    assert!(seen().contains("packets 3"), "without a guard it leaves: {}", seen());
    network.node.scratch.sh("nft delete table ip raw");

    let port = serve(&network.node.outside);
    settle(&network, &golden(), &["10.42.0.5"]).await;
    let (mut stream, from) = connect(&network.pod, port);
    assert_eq!(from, "203.0.113.10");
    // Where its VIP has no way to it has none.
    let elsewhere = "198.51.100.7:80".parse().unwrap();
    assert_eq!(try_connect(&network.pod, elsewhere), Err(ErrorKind::ConnectionRefused));
    settle(&network, &[], &["10.42.0.5"]).await;
    let error = stream.write_all(b"x").and_then(|()| stream.read_exact(&mut [0; 1])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    settle(&network, &[], &[]).await;
    assert_eq!(try_connect(&network.pod, serve(&network.lan)), Ok(()));
}
