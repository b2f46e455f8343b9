//! Announcements on the wire.

use std::os::fd::AsRawFd;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, socket};

use crate::node::{Node, dual, golden, vip};

/// Every ARP frame and neighbour advertisement that arrives in the outside namespace, with when.
fn listen(node: &Node) -> mpsc::Receiver<(Instant, Vec<u8>)> {
    let open = || {
        let protocol = Some(SockProtocol::EthAll);
        socket(AddressFamily::Packet, SockType::Raw, SockFlag::empty(), protocol).unwrap()
    };
    let wire = node.outside.netns.run(open).unwrap();
    let (sender, frames) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 1500];
        while let Ok(length) = recv(wire.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
            let arp = buffer[12..14] == [8, 6];
            // Neighbour advertisements: ICMPv6 is the next header.
            let advertisement = buffer[12..14] == [0x86, 0xdd] && buffer[20] == 58 && buffer[54] == 136;
            if (arp || advertisement) && sender.send((Instant::now(), buffer[..length].to_vec())).is_err() {
                return;
            }
        }
    });
    frames
}

/// The announcement's operation and address, when the frame is one.
fn announcement(frame: &[u8]) -> Option<(u8, u8)> {
    let gratuitous = frame[12] == 8 && frame[28..32] == frame[38..42] && frame[28..31] == [203, 0, 113];
    gratuitous.then_some((frame[21], frame[31]))
}

#[tokio::test]
async fn a_new_vip_is_announced_in_both_forms_now_and_three_times_more_and_an_old_one_is_not() {
    let node = Node::new().await;
    let frames = listen(&node);
    node.settle(&golden()).await;
    node.settle(&golden()[..1]).await;
    tokio::time::sleep(Duration::from_millis(5500)).await;
    let seen: Vec<(u8, u8)> = frames.try_iter().filter_map(|(_, frame)| announcement(&frame)).collect();
    let count = |operation, last| seen.iter().filter(|found| **found == (operation, last)).count();
    assert_eq!((count(1, 10), count(2, 10)), (4, 4), "{seen:?}");
    // It left before the first repeat.
    assert_eq!((count(1, 11), count(2, 11)), (1, 1), "{seen:?}");
}

#[tokio::test]
async fn a_vip_of_ipv6_is_advertised_to_all_nodes_as_often() {
    let node = Node::new().await;
    let frames = listen(&node);
    node.settle(&dual()).await;
    tokio::time::sleep(Duration::from_millis(5500)).await;
    let vip: std::net::Ipv6Addr = "2001:db8:113::10".parse().unwrap();
    let mac = node.links.get("eth1").await.unwrap().mac.unwrap();
    let all: Vec<Vec<u8>> = frames.try_iter().map(|(_, frame)| frame).collect();
    let ours = all.iter().filter(|frame| frame.len() > 80 && frame[62..78] == vip.octets());
    let sound = ours.filter(|frame| {
        let to_all = frame[..6] == [0x33, 0x33, 0, 0, 0, 1];
        // Override, not solicited; the hardware address is an option.
        to_all && frame[58] == 0x20 && frame[80..86] == mac
    });
    assert_eq!(sound.count(), 4);
}

#[tokio::test]
async fn the_neighbour_of_a_vip_of_ipv6_learns_the_new_place() {
    let node = Node::new().await;
    node.outside.sh("ip neigh add 2001:db8:113::10 lladdr 02:00:00:00:00:99 dev far nud stale");
    node.settle(&dual()).await;
    let mac = node.links.get("eth1").await.unwrap().mac.unwrap();
    let mac = mac.map(|byte| format!("{byte:02x}")).join(":");
    let deadline = Instant::now() + Duration::from_secs(20);
    while !node.outside.sh("ip neigh show 2001:db8:113::10").contains(&mac) {
        assert!(Instant::now() < deadline, "{}", node.outside.sh("ip neigh show"));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn the_neighbour_learns_the_new_place() {
    let node = Node::new().await;
    node.outside.sh("sysctl -qw net.ipv4.conf.all.arp_accept=1; ip neigh add 203.0.113.10 lladdr 02:00:00:00:00:99 dev far nud stale");
    node.settle(&golden()).await;
    let mac = node.links.get("eth1").await.unwrap().mac.unwrap();
    let mac = mac.map(|byte| format!("{byte:02x}")).join(":");
    let deadline = Instant::now() + Duration::from_secs(20);
    while !node.outside.sh("ip neigh show 203.0.113.10").contains(&mac) {
        assert!(Instant::now() < deadline, "{}", node.outside.sh("ip neigh show"));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn all_vips_of_a_node_are_announced() {
    let node = Node::new().await;
    let frames = listen(&node);
    let vips: Vec<_> = (1..=127).map(|number| vip(number, &[])).collect();
    node.settle(&vips).await;
    let mut left: std::collections::BTreeSet<u8> = (10..137).collect();
    while !left.is_empty() {
        let (_, frame) = frames.recv_timeout(Duration::from_secs(20)).expect("a VIP was not announced");
        if let Some((_, last)) = announcement(&frame) {
            left.remove(&last);
        }
    }
}
