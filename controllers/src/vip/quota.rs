//! The share of each node in a Service's VIPs, in whole numbers: everything is multiplied by the number of endpoints.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The shares of one Service's nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Shares {
    /// How many addresses are shared out.
    addresses: u64,
    /// Ready endpoints by node; only nodes that may hold one of the addresses.
    endpoints: BTreeMap<String, u64>,
    total: u64,
}

impl Shares {
    pub(crate) fn new(addresses: u64, endpoints: BTreeMap<String, u64>) -> Self {
        let total = endpoints.values().sum();
        Self { addresses, endpoints, total }
    }

    /// The nodes with a share.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &String> {
        self.endpoints.keys()
    }

    /// How many ready endpoints a node has.
    pub(crate) fn endpoints(&self, node: &str) -> u64 {
        self.endpoints.get(node).copied().unwrap_or(0)
    }

    /// What a whole address is in the units of [`surplus`](Self::surplus).
    pub(crate) fn whole(&self) -> i128 {
        i128::from(self.total)
    }

    /// By how much a node with `count` addresses is above its share.
    pub(crate) fn surplus(&self, node: &str, count: u64) -> i128 {
        i128::from(count) * i128::from(self.total)
            - i128::from(self.addresses) * i128::from(self.endpoints(node))
    }

    /// Orders nodes by need: furthest below the share, then more endpoints, then the name.
    pub(crate) fn need<'a>(&self, node: &'a str, count: u64) -> (i128, Reverse<u64>, &'a str) {
        (self.surplus(node, count), Reverse(self.endpoints(node)), node)
    }

    /// A node's share in words: `share 2.67 of 4 (2 of 3 endpoints)`.
    pub(crate) fn describe(&self, node: &str) -> String {
        let here = self.endpoints(node);
        let hundredths = u128::from(self.addresses) * u128::from(here) * 100;
        let rounded = (hundredths + u128::from(self.total) / 2) / u128::from(self.total.max(1));
        let (whole, rest) = (rounded / 100, rounded % 100);
        format!("share {whole}.{rest:02} of {} ({here} of {} endpoints)", self.addresses, self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_told_in_hundredths() {
        let shares = Shares::new(4, [("a".to_owned(), 2), ("b".to_owned(), 1)].into());
        assert_eq!(shares.describe("a"), "share 2.67 of 4 (2 of 3 endpoints)");
        assert_eq!(shares.describe("c"), "share 0.00 of 4 (0 of 3 endpoints)");
        assert_eq!(shares.surplus("a", 2), 2 * 3 - 4 * 2);
    }
}
