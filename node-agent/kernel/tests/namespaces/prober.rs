//! Asking who has an address.

use std::time::Duration;

use litek8s_kernel::{Asker, Claim, Prober};

use crate::node::{Node, dual, golden};

async fn answer(prober: &Prober, address: &str, asker: Asker) -> Option<Claim> {
    let address = address.parse().unwrap();
    prober.ask("far", &[address], asker).await.unwrap();
    let heard = async {
        loop {
            let claim = prober.heard().await.unwrap();
            if claim.address == address {
                return claim;
            }
        }
    };
    tokio::time::timeout(Duration::from_millis(500), heard).await.ok()
}

#[tokio::test]
async fn a_vip_answers_while_it_is_there_and_the_question_leaves_no_trace() {
    let node = Node::new().await;
    let prober = Prober::open(&node.outside.netns).unwrap();
    assert_eq!(answer(&prober, "203.0.113.10", Asker::Ourselves).await, None);
    node.settle(&golden()).await;
    let link = node.scratch.sh("ip -o link show eth1");
    let claim = answer(&prober, "203.0.113.10", Asker::Ourselves).await.expect("the node has it");
    let text: Vec<String> = claim.mac.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(link.contains(&format!("link/ether {} ", text.join(":"))), "{link}");
    node.settle(&[]).await;
    // One that has not heard what was said before.
    let prober = Prober::open(&node.outside.netns).unwrap();
    assert_eq!(answer(&prober, "203.0.113.10", Asker::Ourselves).await, None);
    assert!(!node.scratch.sh("ip neigh").contains("0.0.0.0"));
}

#[tokio::test]
async fn a_vip_of_ipv6_answers_whoever_asks() {
    let node = Node::new().await;
    let prober = Prober::open(&node.outside.netns).unwrap();
    // A link-local address may be used only some time after the link went up.
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while node.outside.sh("ip -6 addr show dev far scope link").contains("tentative") {
        assert!(std::time::Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let vip = "2001:db8:113::10";
    assert_eq!(answer(&prober, vip, Asker::Nobody).await, None);
    node.settle(&dual()).await;
    let mac = node.links.get("eth1").await.unwrap().mac;
    for asker in [Asker::Nobody, Asker::Ourselves] {
        let claim = answer(&prober, vip, asker).await;
        assert_eq!(claim.map(|claim| claim.mac), mac, "{asker:?}");
    }
    node.settle(&golden()).await;
    // One that has not heard what was said before.
    let prober = Prober::open(&node.outside.netns).unwrap();
    assert_eq!(answer(&prober, vip, Asker::Nobody).await, None);
}
