//! Asking who has an address.

use std::time::Duration;

use litek8s_kernel::{Claim, Prober};

use crate::node::{Node, golden};

async fn answer(prober: &Prober, address: &str) -> Option<Claim> {
    let address = address.parse().unwrap();
    prober.ask("far", &[address]).await.unwrap();
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
    assert_eq!(answer(&prober, "203.0.113.10").await, None);
    node.settle(&golden()).await;
    let link = node.scratch.sh("ip -o link show eth1");
    let claim = answer(&prober, "203.0.113.10").await.expect("the node has it");
    let text: Vec<String> = claim.mac.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(link.contains(&format!("link/ether {} ", text.join(":"))), "{link}");
    node.settle(&[]).await;
    // One that has not heard what was said before.
    let prober = Prober::open(&node.outside.netns).unwrap();
    assert_eq!(answer(&prober, "203.0.113.10").await, None);
    assert!(!node.scratch.sh("ip neigh").contains("0.0.0.0"));
}
