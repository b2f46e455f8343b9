//! The host's own network, to show that a dev cluster changes nothing of it.

use std::process::Command;

use anyhow::{Context, Result};

use crate::cluster::printed;

/// Links, addresses, rules, routes and nftables of the calling namespace, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostNetwork(Vec<(String, String)>);

impl HostNetwork {
    /// Looks now.
    ///
    /// # Errors
    /// When a tool is missing.
    pub fn read() -> Result<Self> {
        let lines = [
            "ip -br link",
            "ip -br addr",
            "ip rule",
            "ip route show table all",
            "nft --stateless list ruleset",
            "sysctl -e net.ipv4.ip_forward net.ipv4.conf.all.rp_filter net.ipv4.conf.default.rp_filter",
        ];
        let read = lines.into_iter().map(|line| {
            let mut words = line.split(' ');
            let mut command = Command::new(words.next().unwrap_or_default());
            let output = command.args(words).output().with_context(|| line.to_owned())?;
            Ok((line.to_owned(), printed(&output).with_context(|| line.to_owned())?))
        });
        read.collect::<Result<Vec<_>>>().map(Self)
    }
}
