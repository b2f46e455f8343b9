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
    /// nft's: `inet` or `arp`.
    family: &'static str,
}

impl Counters {
    /// Counts packets at a hook (`prerouting`, `postrouting`). Each rule is a counter's name and an nft match.
    ///
    /// # Errors
    /// When nft refuses a match.
    pub fn new(cluster: &Cluster, member: &Member, hook: &str, rules: &[(&str, &str)]) -> Result<Self> {
        let counters = Self { member: member.clone(), family: "inet" };
        counters.place(cluster, hook, rules)?;
        Ok(counters)
    }

    /// Counts ARP packets that a member receives.
    ///
    /// # Errors
    /// When nft refuses a match.
    pub fn of_arp(cluster: &Cluster, member: &Member, rules: &[(&str, &str)]) -> Result<Self> {
        let counters = Self { member: member.clone(), family: "arp" };
        counters.place(cluster, "input", rules)?;
        Ok(counters)
    }

    fn place(&self, cluster: &Cluster, hook: &str, rules: &[(&str, &str)]) -> Result<()> {
        let declared: String = rules.iter().map(|(name, _)| format!("counter {name} {{ }}\n")).collect();
        let counted: String =
            rules.iter().map(|(name, matches)| format!("{matches} counter name {name}\n")).collect();
        // After every other chain at that hook, where source addresses and marks are what leaves.
        let script = format!(
            "table {} {TABLE} {{\n{declared}chain seen {{ type filter hook {hook} priority 300; policy accept;\n{counted}}}\n}}",
            self.family
        );
        cluster.run(&self.member, &["nft", &script]).map(drop)
    }

    /// How many packets a counter saw.
    ///
    /// # Errors
    /// When the table is gone.
    pub fn read(&self, cluster: &Cluster, name: &str) -> Result<u64> {
        let text = cluster.run(&self.member, &["nft", "-j", "list", "counter", self.family, TABLE, name])?;
        let listed: Value = serde_json::from_str(&text)?;
        let objects = listed["nftables"].as_array().context("no list")?;
        let counter = objects.iter().find_map(|object| object["counter"]["packets"].as_u64());
        counter.with_context(|| format!("no counter {name}"))
    }
}
