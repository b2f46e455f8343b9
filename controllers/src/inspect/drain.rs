//! What would move if a node were drained. Pure.

use std::fmt;

use serde::Serialize;

use crate::vip::{Facts, Memory, decide};

/// The moves.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Moves {
    node: String,
    moves: Vec<Move>,
}

/// What becomes of one address.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Move {
    service: String,
    address: String,
    /// The node it goes to, if any.
    to: Option<String>,
    explanation: String,
}

/// Nothing when there is no such node.
pub(super) fn drain(facts: &Facts, node: &str) -> Option<Moves> {
    let mut drained = facts.clone();
    let fact = drained.nodes.iter_mut().find(|fact| fact.name == node)?;
    fact.unfit.get_or_insert_with(|| "is drained".to_owned());
    let after = decide(&drained, &Memory::default());
    let here = |text: &str| {
        let ip = text.parse().ok();
        let mut own = facts.addresses.iter().filter(|address| address.managed && address.spec.node == node);
        own.any(|address| ip.is_some() && address.ip() == ip)
    };
    let mut moves = Vec::new();
    for service in after.services {
        for address in service.addresses.into_iter().filter(|address| here(&address.text)) {
            moves.push(Move {
                service: format!("{}/{}", service.key.namespace, service.key.name),
                to: address.node.filter(|to| to != node),
                address: address.text,
                explanation: address.explanation,
            });
        }
    }
    Some(Moves { node: node.to_owned(), moves })
}

impl fmt::Display for Moves {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.moves.len() {
            0 => return writeln!(formatter, "Node {} holds no VIP: nothing would move", self.node),
            1 => writeln!(formatter, "1 VIP would leave Node {}:", self.node)?,
            count => writeln!(formatter, "{count} VIPs would leave Node {}:", self.node)?,
        }
        for step in &self.moves {
            let to = step.to.as_deref().unwrap_or("no other node");
            writeln!(formatter, "  {} of {} to {to}: {}", step.address, step.service, step.explanation)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vip::fixture::{address, facts, service};

    #[test]
    fn every_vip_of_the_node_is_told_with_where_it_would_go() {
        let mut facts = facts();
        facts.services = vec![
            service("web", &["203.0.113.10", "203.0.113.11"], &[("a", 1), ("b", 1)]),
            service("lone", &["203.0.113.20"], &[("a", 1)]),
        ];
        facts.addresses = vec![
            address("web", 1, "203.0.113.10", "a"),
            address("web", 2, "203.0.113.11", "b"),
            address("lone", 1, "203.0.113.20", "a"),
        ];
        facts.addresses[2].spec.firewall_mark = 2;
        facts.addresses[2].spec.route_table += 1;
        facts.addresses[2].spec.routing_priority += 1;
        let moves = drain(&facts, "a").unwrap();
        let told: Vec<_> =
            moves.moves.iter().map(|step| (step.address.as_str(), step.to.as_deref())).collect();
        assert_eq!(told.len(), 2, "{moves}");
        assert!(
            told.contains(&("203.0.113.10", Some("b"))) && told.contains(&("203.0.113.20", None)),
            "{moves}"
        );
        assert!(moves.to_string().starts_with("2 VIPs would leave Node a:"));
        assert!(drain(&facts, "c").unwrap().to_string().contains("nothing would move"));
        assert_eq!(drain(&facts, "z"), None);
    }
}
