//! Packet counters of a test's own in a member's nftables, which also are a foreign table the agent must not touch.

use anyhow::{Context, Result};
use litek8s_lab::Member;
use serde_json::Value;

use crate::Cluster;

/// The table's name.
const TABLE: &str = "lk_witness";

/// Named counters at one hook of one member.
#[derive(Debug)]
pub struct Counters {
    member: Member,
}

impl Counters {
    /// Counts packets at a hook (`prerouting`, `postrouting`). Each rule is a counter's name and an nft match.
    ///
    /// # Errors
    /// When nft refuses a match.
    pub fn new(cluster: &Cluster, member: &Member, hook: &str, rules: &[(&str, &str)]) -> Result<Self> {
        let declared: String = rules.iter().map(|(name, _)| format!("counter {name} {{ }}\n")).collect();
        let counted: String =
            rules.iter().map(|(name, matches)| format!("{matches} counter name {name}\n")).collect();
        // After every other chain at that hook, where source addresses and marks are what leaves.
        let script = format!(
            "table inet {TABLE} {{\n{declared}chain seen {{ type filter hook {hook} priority 300; policy accept;\n{counted}}}\n}}"
        );
        cluster.run(member, &["nft", &script])?;
        Ok(Self { member: member.clone() })
    }

    /// How many packets a counter saw.
    ///
    /// # Errors
    /// When the table is gone.
    pub fn read(&self, cluster: &Cluster, name: &str) -> Result<u64> {
        let text = cluster.run(&self.member, &["nft", "-j", "list", "counter", "inet", TABLE, name])?;
        let listed: Value = serde_json::from_str(&text)?;
        let objects = listed["nftables"].as_array().context("no list")?;
        let counter = objects.iter().find_map(|object| object["counter"]["packets"].as_u64());
        counter.with_context(|| format!("no counter {name}"))
    }
}
