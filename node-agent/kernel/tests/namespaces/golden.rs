//! The golden state in a real kernel, written by us and by the system's own tools.

use litek8s_plan::diff;

use crate::node::{Node, dual, golden, long_vip, vip};

const GOLDEN: &str = include_str!("../../../plan/golden/two-vips.txt");
const DUAL: &str = include_str!("../../../plan/golden/dual-stack.txt");

#[tokio::test]
async fn what_is_written_reads_back_as_the_same_structures() {
    let node = Node::new().await;
    let ops = node.settle(&golden()).await;
    assert!(!ops.is_empty());
    let (desired, _) = node.plan(&golden()).await;
    assert_eq!(desired.to_string(), GOLDEN);
    // The words of the system's tools, where they agree with ours.
    let rules = node.scratch.sh("ip rule show");
    for line in [
        "20001:\tfrom all fwmark 0x1/0x7f lookup 20001 proto 110",
        "20002:\tfrom all fwmark 0x2/0x7f lookup 20002 proto 110",
    ] {
        assert!(rules.contains(line), "{rules}");
    }
    let routes = node.scratch.sh("ip route show table 20001");
    for line in [
        "10.9.0.0/16 via 203.0.113.254 dev eth1 proto 110 src 203.0.113.10",
        "203.0.113.0/24 dev eth1 proto 110 scope link src 203.0.113.10",
        "unreachable default proto 110 metric 4294967295",
    ] {
        assert!(routes.contains(line), "{routes}");
    }
    let addresses = node.scratch.sh("ip -4 addr show dev eth1");
    assert!(
        addresses.contains("inet 203.0.113.10/24 scope global dynamic noprefixroute vip:1"),
        "{addresses}"
    );
    let table = node.scratch.sh("nft list table inet netwrangler");
    for line in [
        "203.0.113.10 . 10.9.0.0/16 : goto mark-00000001",
        "elements = { 203.0.113.11 : goto mark-00000002 }",
        "0x00000002 . \"eth1\" : 203.0.113.11",
        "type nat hook postrouting priority srcnat - 10; policy accept;",
        "snat ip to meta mark & 0x0000007f . oifname map @snat-addresses fully-random",
    ] {
        assert!(table.contains(line), "{line}\n{table}");
    }
}

#[tokio::test]
async fn both_families_read_back_as_they_were_written() {
    let node = Node::new().await;
    node.settle(&dual()).await;
    let (desired, _) = node.plan(&dual()).await;
    assert_eq!(desired.to_string(), DUAL);
    let rules = node.scratch.sh("ip -6 rule show");
    assert!(rules.contains("20003:\tfrom all fwmark 0x3/0x7f lookup 20003 proto 110"), "{rules}");
    let routes = node.scratch.sh("ip -6 route show table 20003");
    for line in [
        "2001:db8:9::/48 via 2001:db8:113::254 dev eth1 proto 110 src 2001:db8:113::10 metric 1024",
        "2001:db8:113::/64 dev eth1 proto 110 src 2001:db8:113::10 metric 1024",
        "unreachable default dev lo proto 110 metric 4294967295",
    ] {
        assert!(routes.contains(line), "{routes}");
    }
    let addresses = node.scratch.sh("ip -6 addr show dev eth1");
    let line = "inet6 2001:db8:113::10/64 scope global nodad deprecated dynamic noprefixroute";
    assert!(addresses.contains(line), "{addresses}");
    // Back to one family, and the other alone.
    node.settle(&golden()).await;
    assert!(!node.scratch.sh("nft list ruleset; ip -6 rule").contains("ipv6"));
    node.settle(&[long_vip(1, &["::/0"])]).await;
}

#[tokio::test]
async fn the_golden_text_given_to_nft_reads_back_as_our_table() {
    for (text, vips) in [(GOLDEN, golden()), (DUAL, dual())] {
        let node = Node::new().await;
        let text = &text[text.find("table inet").unwrap()..];
        std::fs::write(node.scratch.file("golden.nft"), text).unwrap();
        node.scratch.sh(&format!("nft -f {}", node.scratch.file("golden.nft").display()));
        let (desired, observed) = node.plan(&vips).await;
        assert_eq!(observed.nft, desired.nft);
    }
}

#[tokio::test]
async fn the_dry_run_given_to_the_tools_does_the_same() {
    let node = Node::new().await;
    let (desired, observed) = node.plan(&golden()).await;
    let mut script = String::from("set -e\n");
    for op in diff(&desired, &observed) {
        let text = op.to_string();
        match text.strip_prefix("nft -f -\n") {
            Some(changes) => script += &format!("nft -f - <<'END'\n{changes}\nEND\n"),
            None if text.starts_with("ip ") || text.starts_with("sysctl ") => script += &format!("{text}\n"),
            None => {}
        }
    }
    node.scratch.sh(&script.replace("sysctl ", "sysctl -q -w "));
    node.assert_settled(&golden()).await;
}

#[tokio::test]
async fn a_settled_node_is_not_written_to() {
    let node = Node::new().await;
    node.settle(&golden()).await;
    let mut monitor = node.kernel.monitor().unwrap();
    assert_eq!(node.settle(&golden()).await, []);
    // The probe is seen, and nothing before it.
    node.scratch.sh("ip rule add fwmark 0x100/0xff00 table 77");
    assert_eq!(monitor.next().await, Some(litek8s_kernel::Notice::Rule));
}

#[tokio::test]
async fn every_change_reaches_its_desired_state_and_the_end_leaves_nothing() {
    let node = Node::new().await;
    let mut moved = vip(2, &["10.0.0.0/8", "10.9.0.0/16"]);
    moved.mark = 1;
    moved.table = 20001;
    moved.priority = 20001;
    let mut pods = vip(3, &["198.51.100.0/24", "203.0.0.0/8"]);
    pods.endpoints = (1..=40).map(|pod| std::net::Ipv4Addr::new(10, 42, 1, pod).into()).collect();
    let mut fewer = pods.clone();
    fewer.endpoints = [std::net::Ipv4Addr::new(10, 42, 1, 7).into()].into();
    let mut long = long_vip(3, &["2001:db8::/32", "3fff::/20"]);
    long.endpoints =
        (1..=40u16).map(|pod| std::net::Ipv6Addr::new(0xfd42, 0, 0, 0, 0, 0, 1, pod).into()).collect();
    for vips in [
        golden(),
        vec![moved.clone(), long.clone()],
        vec![moved, pods],
        vec![fewer, vip(1, &[])],
        vec![long_vip(1, &["::/0"]), long],
        dual(),
        vec![],
        dual(),
    ] {
        node.settle(&vips).await;
    }
    let (_, observed) = node.plan(&[]).await;
    let ops = diff(&litek8s_plan::Desired::default(), &observed);
    let applied = node.kernel.apply(&ops).await;
    assert!(applied.failed.is_none(), "{applied:?}");
    assert!(node.kernel.observe().await.unwrap().is_empty());
    assert_eq!(
        node.scratch.sh("nft list ruleset; ip addr show dev eth1 scope global | grep -c inet || true"),
        "0\n"
    );
}
