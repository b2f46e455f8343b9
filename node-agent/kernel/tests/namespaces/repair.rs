//! Others at the same kernel: what they take comes back, what is theirs stays, what they see is seen.

use std::time::Duration;

use ipnet::IpNet;
use litek8s_kernel::Notice;
use litek8s_plan::{Address, Family, Op, diff, parting};

use crate::node::{Node, dual, golden, vip};

#[tokio::test]
async fn flushed_nftables_deleted_rules_and_an_emptied_table_are_noticed_and_come_back() {
    let node = Node::new().await;
    node.settle(&golden()).await;
    let mut monitor = node.kernel.monitor().unwrap();
    for (line, notice) in [
        ("nft flush ruleset", Notice::Nft),
        ("ip rule flush protocol 110", Notice::Rule),
        ("ip route flush table 20001", Notice::Route),
        ("ip addr del 203.0.113.11/24 dev eth1", Notice::Address),
        ("ip link set eth1 down", Notice::Link),
    ] {
        node.scratch.sh(line);
        let seen = async { while monitor.next().await.unwrap() != notice {} };
        tokio::time::timeout(Duration::from_secs(20), seen).await.unwrap_or_else(|_| panic!("{line}"));
        if line.contains("link") {
            node.settle(&golden()).await;
            node.scratch.sh("ip link set eth1 up");
        }
        assert!(!node.settle(&golden()).await.is_empty(), "{line}");
    }
}

#[tokio::test]
async fn a_vip_of_ipv6_comes_back_when_it_is_taken_and_when_its_link_was_down() {
    let node = Node::new().await;
    node.settle(&dual()).await;
    let mut monitor = node.kernel.monitor().unwrap();
    for (line, notice) in [
        ("ip -6 rule flush protocol 110", Notice::Rule),
        ("ip -6 route flush table 20003", Notice::Route),
        ("ip addr del 2001:db8:113::10/64 dev eth1", Notice::Address),
        ("ip link set eth1 down", Notice::Address),
    ] {
        node.scratch.sh(line);
        let seen = async { while monitor.next().await.unwrap() != notice {} };
        tokio::time::timeout(Duration::from_secs(20), seen).await.unwrap_or_else(|_| panic!("{line}"));
        if line.contains("link") {
            node.settle(&dual()).await;
            node.scratch.sh("ip link set eth1 up");
        }
        assert!(!node.settle(&dual()).await.is_empty(), "{line}");
    }
}

#[tokio::test]
async fn deleting_one_vip_takes_neither_the_others_nor_the_nodes_own_address() {
    let node = Node::new().await;
    node.scratch
        .sh("sysctl -qw net.ipv4.conf.all.promote_secondaries=0 net.ipv4.conf.eth1.promote_secondaries=0");
    let vips = [vip(1, &[]), vip(2, &[]), vip(3, &[])];
    node.settle(&vips).await;
    node.links.add_address("eth1", "203.0.113.200/24".parse().unwrap()).await.unwrap();
    node.settle(&vips[1..]).await;
    node.settle(&[]).await;
    let own: Vec<IpNet> = node.links.addresses("eth1").await.unwrap();
    assert_eq!(own, ["203.0.113.200/24".parse().unwrap()]);
}

#[tokio::test]
async fn rules_routes_and_addresses_of_others_stay() {
    let node = Node::new().await;
    node.settle(&golden()).await;
    let foreign = "ip rule add fwmark 0x3/0xff table 77; ip route add 172.16.0.0/12 dev eth1 table 20001; \
                   ip addr add 203.0.113.99/32 dev eth1; ip rule add fwmark 0x1/0x7f table 20001 priority 20001";
    node.scratch.sh(foreign);
    assert_eq!(node.settle(&golden()).await, []);
    let (_, observed) = node.plan(&golden()).await;
    assert_eq!(observed.mark_conflicts(0x7f).len(), 2);
    assert!(observed.interfaces["eth1"].foreign.contains(&"203.0.113.99/32".parse::<IpNet>().unwrap()));

    let ops = diff(&litek8s_plan::Desired::default(), &observed);
    assert!(node.kernel.apply(&ops).await.failed.is_none());
    let left = node.scratch.sh("ip rule show; ip route show table 20001; ip addr show dev eth1");
    for kept in [
        "fwmark 0x3/0xff lookup 77",
        "172.16.0.0/12 dev eth1",
        "203.0.113.99/32",
        "fwmark 0x1/0x7f lookup 20001",
    ] {
        assert!(left.contains(kept), "{kept}\n{left}");
    }
    assert!(!left.contains("proto 110"), "{left}");
}

#[tokio::test]
async fn a_route_of_somebody_else_in_our_place_is_an_error_and_not_replaced() {
    let node = Node::new().await;
    node.scratch
        .sh("ip addr add 203.0.113.200/24 dev eth1; ip route add 203.0.113.0/24 dev eth1 table 20001");
    let (desired, observed) = node.plan(&[vip(1, &[])]).await;
    let applied = node.kernel.apply(&diff(&desired, &observed)).await;
    let (op, error) = applied.failed.expect("the place is taken");
    assert_eq!(error.raw_os_error(), Some(libc_eexist()));
    assert!(op.to_string().contains("ip route add 203.0.113.0/24"), "{op}");
    assert!(!node.scratch.sh("ip rule show").contains("proto 110"), "nothing after it was tried");
}

fn libc_eexist() -> i32 {
    nix::errno::Errno::EEXIST as i32
}

#[tokio::test]
async fn an_interface_name_of_fifteen_characters_takes_a_vip() {
    let node = Node::with_interface("enp130s0f0np012").await;
    let mut long = vip(1, &["10.9.0.0/16"]);
    long.index = 4_294_967_295;
    long.interface = "enp130s0f0np012".into();
    node.settle(&[long]).await;
}

#[tokio::test]
async fn a_strict_reverse_path_filter_gets_the_prefix_route() {
    let node = Node::new().await;
    node.settle(&golden()).await;
    node.scratch.sh("sysctl -qw net.ipv4.conf.eth1.rp_filter=1");
    node.settle(&golden()).await;
    assert!(node.scratch.sh("ip route show table main").contains("203.0.113.0/24 dev eth1"));
}

#[tokio::test]
async fn all_vips_a_mask_has_room_for_are_programmed() {
    let node = Node::new().await;
    let vips: Vec<_> = (1..=127).map(|number| vip(number, &["10.9.0.0/16"])).collect();
    let work = node.settle(&vips);
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("127 VIPs hang");
}

#[tokio::test]
async fn the_kernel_ends_an_address_that_nobody_renews_and_keeps_one_that_is_renewed() {
    let node = Node::new().await;
    node.settle(&dual()).await;
    let (desired, observed) = node.plan(&dual()).await;
    // As an agent that lives does it, with less time.
    let short: Vec<Op> = parting(&observed)
        .into_iter()
        .map(|op| {
            let Op::RenewAddress(key, address) = op else { panic!("{op}") };
            Op::RenewAddress(key, Address { seconds: 3, ..address })
        })
        .collect();
    assert!(node.kernel.apply(&short).await.warnings.is_empty());
    let kept = desired.addresses.iter().find(|(key, _)| key.family() == Family::V6).unwrap();
    let renewal = Op::RenewAddress(kept.0.clone(), kept.1.clone());
    assert!(node.kernel.apply(&[renewal]).await.warnings.is_empty());
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while !node.links.addresses("eth1").await.unwrap().iter().all(|net| net.addr().is_ipv6()) {
        assert!(std::time::Instant::now() < deadline, "nothing ended");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(node.links.addresses("eth1").await.unwrap(), [kept.0.address]);
    let (_, observed) = node.plan(&dual()).await;
    assert!(observed.addresses[kept.0].seconds > 3, "{observed:?}");
}
