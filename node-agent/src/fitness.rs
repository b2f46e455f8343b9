//! Which VipNetworks this node cannot serve, and what on it somebody should look at. Pure.

use std::collections::{BTreeMap, BTreeSet};

use litek8s_crds::{Finding, names};
use litek8s_plan::{ForeignRule, IPVS_INTERFACE, Interface};

/// What the agent's Lease says besides that the agent lives: annotations by their names.
pub(crate) type Says = BTreeMap<&'static str, String>;

/// At most so many of each are told, so that the Lease stays small.
const MOST: usize = 64;
/// `arp_ignore`: answer nobody.
const ANSWER_NOBODY: u8 = 8;

/// What is known of the node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node<'a> {
    /// The VipNetworks it is on, each with its interface.
    pub(crate) networks: &'a BTreeMap<&'a str, &'a str>,
    /// All its interfaces.
    pub(crate) interfaces: &'a BTreeMap<String, Interface>,
    /// Rules of others that look at our mark bits.
    pub(crate) rules: &'a [ForeignRule],
    /// Whether somebody else keeps undoing what the agent does.
    pub(crate) undone: bool,
}

/// The annotations that say it.
pub(crate) fn says(node: &Node<'_>) -> Says {
    let networks: BTreeMap<&str, Finding> = node
        .networks
        .iter()
        .filter_map(|(&network, &interface)| Some((network, unserved(node, interface)?)))
        .take(MOST)
        .collect();
    let findings: BTreeSet<Finding> = findings(node).into_iter().take(MOST).collect();
    let text = |value: serde_json::Result<String>| value.unwrap_or_default();
    Says::from([
        (names::ANNOTATION_NETWORKS, text(serde_json::to_string(&networks))),
        (names::ANNOTATION_FINDINGS, text(serde_json::to_string(&findings))),
    ])
}

/// Why VIPs on an interface would be answered by nobody.
fn unserved(node: &Node<'_>, name: &str) -> Option<Finding> {
    let Some(interface) = node.interfaces.get(name) else {
        return Some(finding("InterfaceMissing", format!("there is no interface {name}")));
    };
    if !interface.up {
        return Some(finding("InterfaceDown", format!("interface {name} is down")));
    }
    if !interface.carrier {
        return Some(finding("NoCarrier", format!("interface {name} has no carrier")));
    }
    (interface.arp_ignore >= ANSWER_NOBODY).then(|| {
        let message = format!("arp_ignore is {} on {name}: ARP is never answered", interface.arp_ignore);
        finding("ArpIgnored", message)
    })
}

fn findings(node: &Node<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let used: BTreeSet<&str> = node.networks.values().copied().collect();
    for (name, interface) in node.interfaces.iter().filter(|(name, _)| used.contains(name.as_str())) {
        if interface.rp_filter == 1 {
            found.push(finding(
                "RpFilterStrict",
                format!(
                    "rp_filter is 1 on {name}: clients beyond the VIP's network are dropped; set it to 2 or 0"
                ),
            ));
        }
        if interface.arp_ignore == 0 && node.interfaces.contains_key(IPVS_INTERFACE) {
            found.push(finding(
                "IpvsAnswersArp",
                format!(
                    "kube-proxy runs in IPVS mode and arp_ignore is 0 on {name}: every node answers ARP for \
                     every VIP; set ipvs.strictARP in kube-proxy's configuration"
                ),
            ));
        }
    }
    for rule in node.rules {
        found.push(finding(
            "MarkConflict",
            format!(
                "rule {} of another program looks at mark {:#x}/{:#x}, bits of firewallMarkMask; give the VipConfig others",
                rule.priority, rule.mark, rule.mask
            ),
        ));
    }
    if node.undone {
        found.push(finding(
            "Undone",
            "another program keeps removing rules, routes or nftables objects of the agent (systemd-networkd \
             does with ManageForeignRoutingPolicyRules=yes or ManageForeignRoutes=yes)"
                .to_owned(),
        ));
    }
    found
}

fn finding(reason: &str, message: String) -> Finding {
    Finding { reason: reason.to_owned(), message }
}

#[cfg(test)]
mod tests {
    use litek8s_plan::Family;

    use super::*;

    fn up() -> Interface {
        Interface { up: true, carrier: true, ..Interface::default() }
    }

    fn said(
        interfaces: &BTreeMap<String, Interface>,
        rules: &[ForeignRule],
        undone: bool,
    ) -> (String, String) {
        let networks = BTreeMap::from([("public", "eth1")]);
        let said = says(&Node { networks: &networks, interfaces, rules, undone });
        (said[names::ANNOTATION_NETWORKS].clone(), said[names::ANNOTATION_FINDINGS].clone())
    }

    #[test]
    fn a_network_is_served_over_an_interface_that_is_up_and_answers() {
        let mut interfaces = BTreeMap::new();
        assert!(said(&interfaces, &[], false).0.contains("InterfaceMissing"));
        for (interface, reason) in [
            (Interface { up: false, ..up() }, "InterfaceDown"),
            (Interface { carrier: false, ..up() }, "NoCarrier"),
            (Interface { arp_ignore: 8, ..up() }, "ArpIgnored"),
        ] {
            interfaces.insert("eth1".to_owned(), interface);
            assert!(said(&interfaces, &[], false).0.contains(reason));
        }
        interfaces.insert("eth1".to_owned(), up());
        assert_eq!(said(&interfaces, &[], false), ("{}".to_owned(), "[]".to_owned()));
    }

    #[test]
    fn what_works_but_not_as_it_should_is_found() {
        let strict = Interface { rp_filter: 1, ..up() };
        let mut interfaces = BTreeMap::from([("eth1".to_owned(), strict), ("eth0".to_owned(), up())]);
        let rules = [ForeignRule { family: Family::V4, priority: 90, mark: 0x1, mask: 0xf, table: 100 }];
        let (networks, findings) = said(&interfaces, &rules, true);
        assert_eq!(networks, "{}");
        for reason in ["RpFilterStrict", "MarkConflict", "Undone"] {
            assert!(findings.contains(reason), "{findings}");
        }
        assert!(!findings.contains("Ipvs"));
        interfaces.insert(IPVS_INTERFACE.to_owned(), Interface::default());
        assert!(said(&interfaces, &[], false).1.contains("IpvsAnswersArp"));
        interfaces.get_mut("eth1").unwrap().arp_ignore = 1;
        assert!(!said(&interfaces, &[], false).1.contains("IpvsAnswersArp"));
    }
}
