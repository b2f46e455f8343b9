//! Transactions: their size, their errors, and other programs at the same time.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use litek8s_kernel::KernelError;
use litek8s_plan::Op;
use litek8s_plan::nft::{Change, Part, Value};

use crate::node::{Node, golden, long_vip, vip};

#[tokio::test]
async fn a_refused_transaction_names_the_element_and_changes_nothing() {
    let node = Node::new().await;
    node.settle(&golden()).await;
    let (desired, observed) = node.plan(&golden()).await;
    let set = desired.nft.unwrap().sets["ingress-marks-ipv4"].clone();
    let key = |network: &str| {
        let network: ipnet::IpNet = network.parse().unwrap();
        vec![Part::from(IpAddr::from([203, 0, 113, 10])), network.into()]
    };
    let value = set.elements.values().next().unwrap().clone();
    let elements: BTreeMap<Vec<Part>, Value> =
        [(key("198.51.100.0/24"), value.clone()), (key("203.0.113.128/25"), value)].into();
    let change = Change::AddElements("ingress-marks-ipv4".into(), set, elements);
    let applied = node.kernel.apply(&[Op::Nft(vec![change])]).await;
    let (_, error) = applied.failed.expect("the key overlaps one that is there");
    let KernelError::Refused { what, .. } = &error else { panic!("{error}") };
    assert_eq!(
        what,
        "add element inet netwrangler ingress-marks-ipv4 { 203.0.113.10 . 203.0.113.128/25 : goto mark-00000001 }"
    );
    assert_eq!(node.plan(&golden()).await.1, observed);
}

#[tokio::test]
async fn changes_of_others_to_their_own_tables_do_not_matter() {
    let node = Node::new().await;
    node.settle(&golden()).await;
    let (_, observed) = node.plan(&golden()).await;
    let ops = litek8s_plan::diff(&node.plan(&[vip(3, &[])]).await.0, &observed);
    node.scratch.sh("nft add table ip other");
    let applied = node.kernel.apply(&ops).await;
    assert!(applied.failed.is_none(), "{applied:?}");
    node.assert_settled(&[vip(3, &[])]).await;
    assert!(node.scratch.sh("nft list tables").contains("table ip other"));
}

#[tokio::test]
async fn a_table_that_changed_since_it_was_read_is_not_written_blindly() {
    let node = Node::new().await;
    node.settle(&golden()).await;
    let (desired, observed) = node.plan(&[vip(3, &[])]).await;
    node.scratch.sh("nft flush ruleset");
    let applied = node.kernel.apply(&litek8s_plan::diff(&desired, &observed)).await;
    assert!(matches!(applied.failed, Some((_, KernelError::Changed))), "{applied:?}");
    node.settle(&[vip(3, &[])]).await;
}

#[tokio::test]
async fn what_others_put_into_our_table_goes() {
    let node = Node::new().await;
    node.settle(&golden()).await;
    for line in [
        "add chain inet netwrangler theirs",
        "add rule inet netwrangler theirs tcp dport 22 counter drop",
        "insert rule inet netwrangler filter-prerouting jump theirs",
        "add set inet netwrangler ports { type inet_service; }",
        "add element inet netwrangler ingress-marks-default-ipv4 { 203.0.113.77 : goto mark-00000001 }",
        "add element inet netwrangler cluster-networks { 172.16.0.0-172.16.0.99 }",
        "delete element inet netwrangler cluster-networks { 10.42.0.0/16 }",
    ] {
        node.scratch.sh(&format!("nft '{line}'"));
    }
    assert_eq!(node.settle(&golden()).await.len(), 1, "one transaction");
    node.scratch.sh("nft 'delete table inet netwrangler; add table inet netwrangler; add map inet netwrangler ingress-marks-ipv4 { type ipv4_addr : verdict; }'");
    node.settle(&golden()).await;
}

#[tokio::test]
async fn networks_that_touch_each_other_or_the_end_of_the_address_space_survive_the_kernel() {
    let node = Node::new().await;
    let mut wide = vip(1, &["128.0.0.0/1", "198.51.0.0/16"]);
    wide.endpoints.insert("10.42.0.9".parse().unwrap());
    node.settle(&[wide]).await;
    let (mut desired, observed) = node.plan(&[]).await;
    let networks = ["10.96.0.0/12", "10.112.0.0/16", "224.0.0.0/3"];
    let set = desired.nft.as_mut().unwrap().sets.get_mut("cluster-networks").unwrap();
    set.elements = networks
        .iter()
        .map(|network| (vec![network.parse::<ipnet::IpNet>().unwrap().into()], Value::Nothing))
        .collect();
    let applied = node.kernel.apply(&litek8s_plan::diff(&desired, &observed)).await;
    assert!(applied.failed.is_none(), "{applied:?}");
    assert_eq!(node.kernel.observe().await.unwrap().nft, desired.nft);
}

#[tokio::test]
async fn networks_of_ipv6_survive_the_kernel_too() {
    let node = Node::new().await;
    let mut wide = long_vip(1, &["8000::/1", "2001:db8::/47", "2001:db8:2::/48"]);
    wide.endpoints.insert("fd42::9".parse().unwrap());
    node.settle(&[wide.clone()]).await;
    let (mut desired, observed) = node.plan(&[wide]).await;
    let networks = ["fd42::/56", "fd42:0:0:100::/56", "f000::/5", "ff00::/8"];
    let set = desired.nft.as_mut().unwrap().sets.get_mut("cluster-networks-ipv6").unwrap();
    set.elements = networks
        .iter()
        .map(|network| (vec![network.parse::<ipnet::IpNet>().unwrap().into()], Value::Nothing))
        .collect();
    let applied = node.kernel.apply(&litek8s_plan::diff(&desired, &observed)).await;
    assert!(applied.failed.is_none(), "{applied:?}");
    assert_eq!(node.kernel.observe().await.unwrap().nft, desired.nft);
}

#[tokio::test]
async fn thousands_of_elements_of_ipv6_fit_into_messages() {
    let node = Node::new().await;
    let mut many = long_vip(1, &["2001:db8:9::/48", "3fff::/20"]);
    many.endpoints =
        (0..1500u16).map(|pod| std::net::Ipv6Addr::new(0xfd42, 0, 0, 0, 0, 0, 1, pod).into()).collect();
    node.settle(&[many]).await;
}

#[tokio::test]
async fn ten_thousand_elements_go_in_one_transaction_and_come_back() {
    let node = Node::new().await;
    let mut many = vip(1, &["198.51.100.0/24", "10.9.0.0/16"]);
    many.endpoints = (0..3400u32).map(|pod| Ipv4Addr::from(0x0a2a_0000 + pod).into()).collect();
    node.settle(&[many.clone()]).await;
    many.endpoints.pop_first();
    node.settle(&[many.clone()]).await;
    many.endpoints = many.endpoints.into_iter().take(100).collect();
    node.settle(&[many]).await;
}
