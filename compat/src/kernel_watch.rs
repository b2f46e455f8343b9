//! Every change of a node's links, addresses, rules, routes and nftables while a test does something.

use anyhow::Result;
use litek8s_lab::Member;

use crate::{Background, Cluster};

/// Monitors of the kernel's own notifications.
#[derive(Debug)]
pub struct KernelWatch(Vec<Background>);

impl KernelWatch {
    /// Begins to watch a node.
    ///
    /// # Errors
    /// When a monitor cannot be started.
    pub fn start(cluster: &Cluster, node: &Member) -> Result<Self> {
        let monitors = [&["ip", "monitor", "link", "address", "route", "rule"][..], &["nft", "monitor"]];
        monitors.into_iter().map(|line| cluster.start(node, line)).collect::<Result<_>>().map(Self)
    }

    /// Ends and gives the changes of what one of these addresses names.
    ///
    /// # Errors
    /// When a monitor's output cannot be read.
    pub fn touched(self, addresses: &[&str]) -> Result<Vec<String>> {
        let mut touched = Vec::new();
        for monitor in self.0 {
            let seen = monitor.stop()?;
            let about = seen.lines().filter(|line| {
                // A lifetime that is renewed changes nothing; what goes is "Deleted".
                if line.contains(" inet ") && !line.starts_with("Deleted") {
                    return false;
                }
                // What somebody else's route names as its source is not about the address itself.
                let subject = line.split(" src ").next().unwrap_or_default();
                addresses.iter().any(|address| subject.contains(address))
            });
            touched.extend(about.map(str::to_owned));
        }
        Ok(touched)
    }
}
