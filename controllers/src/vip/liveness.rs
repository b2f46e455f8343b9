//! Which agents live, by their Leases and by what their neighbours see. Pure: times are arguments.
//!
//! A Lease that is not renewed says that an agent is silent, not that its node is dead: traffic outlives an agent. That a
//! node is dead its neighbours tell, who ask for one of its VIPs by ARP. Times are those at which the controller saw a
//! renewal, so clocks need not agree; when nothing was heard from anybody, nobody is judged.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use litek8s_crds::{Finding, names};

/// After that a renewal is overdue: agents renew every 2 s.
const OVERDUE: SignedDuration = SignedDuration::from_millis(2500);
/// After that a Lease is over.
const EXPIRY: SignedDuration = SignedDuration::from_secs(6);
/// How many neighbours have to agree before a Lease is over.
const WITNESSES: usize = 2;

/// What was heard of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeaseFact {
    /// Its node.
    pub(crate) node: String,
    /// When its last renewal was seen.
    pub(crate) heard: Timestamp,
    /// The nodes whose VIPs do not answer it.
    pub(crate) unreachable: BTreeSet<String>,
    /// The VipNetworks that its node cannot serve, and why.
    pub(crate) unserved: BTreeMap<String, String>,
}

impl LeaseFact {
    /// What a Lease says, if it is an agent's.
    pub(crate) fn read(lease: &Lease, heard: Timestamp) -> Option<Self> {
        let name = lease.name_any();
        let node = name.strip_prefix(names::AGENT_LEASE_PREFIX)?.to_owned();
        let listed = lease.annotations().get(names::ANNOTATION_UNREACHABLE);
        let unreachable = listed
            .iter()
            .flat_map(|text| text.split(','))
            .filter(|node| !node.is_empty())
            .map(str::to_owned)
            .collect();
        let networks: BTreeMap<String, Finding> = lease
            .annotations()
            .get(names::ANNOTATION_NETWORKS)
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default();
        let unserved = networks.into_iter().map(|(network, finding)| (network, finding.message)).collect();
        Some(Self { node, heard, unreachable, unserved })
    }

    /// Whether it says something else than another one.
    fn differs(&self, other: &Self) -> bool {
        (&self.unreachable, &self.unserved) != (&other.unreachable, &other.unserved)
    }
}

/// What is wrong with a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// Its agent is silent, its VIPs may answer: it keeps what it has and takes nothing new.
    Mute,
    /// Nothing of it answers.
    Dead,
}

/// The nodes that are not well, and when that may change without anything being heard.
pub(crate) fn judge(leases: &[LeaseFact], now: Timestamp) -> (BTreeMap<String, Life>, Option<Timestamp>) {
    let age = |lease: &LeaseFact| now.duration_since(lease.heard);
    let fresh: Vec<&LeaseFact> = leases.iter().filter(|lease| age(lease) < OVERDUE).collect();
    let mut lives = BTreeMap::new();
    let mut wake: Option<Timestamp> = None;
    for lease in leases {
        let witnesses = fresh
            .iter()
            .filter(|other| other.node != lease.node && other.unreachable.contains(&lease.node))
            .count();
        let others = fresh.iter().any(|other| other.node != lease.node);
        let (overdue, over) = (age(lease) >= OVERDUE, age(lease) >= EXPIRY);
        if others && ((overdue && witnesses >= WITNESSES) || (over && witnesses > 0)) {
            lives.insert(lease.node.clone(), Life::Dead);
        } else if others && over {
            lives.insert(lease.node.clone(), Life::Mute);
        }
        let spans = [Some(EXPIRY), (witnesses >= WITNESSES).then_some(OVERDUE)];
        for span in spans.into_iter().flatten() {
            let due = super::allocate::later(lease.heard, span);
            if due > now {
                wake = Some(wake.map_or(due, |wake| wake.min(due)));
            }
        }
    }
    (lives, wake)
}

/// What was heard so far.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    leases: BTreeMap<String, (Option<Timestamp>, LeaseFact)>,
    last: Option<Timestamp>,
}

impl Heard {
    /// Takes a Lease in. Whether it is another agent's, or what one says of nodes changed.
    pub(crate) fn hear(&mut self, lease: &Lease, now: Timestamp) -> bool {
        let Some(fact) = LeaseFact::read(lease, now) else { return false };
        let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref()).map(|time| time.0);
        // After a silence of all, the first to be heard is not the only one alive.
        if self.last.is_some_and(|last| now.duration_since(last) > OVERDUE) {
            self.restart(now);
        }
        self.last = Some(now);
        match self.leases.get_mut(&fact.node) {
            Some((before, known)) => {
                let heard = if *before == renewed { known.heard } else { now };
                let changed = fact.differs(known);
                *before = renewed;
                *known = LeaseFact { heard, ..fact };
                changed
            }
            None => {
                self.leases.insert(fact.node.clone(), (renewed, fact));
                true
            }
        }
    }

    /// A Lease went: its node is gone or has another agent.
    pub(crate) fn forget(&mut self, lease: &Lease) {
        if let Some(node) = lease.name_any().strip_prefix(names::AGENT_LEASE_PREFIX) {
            self.leases.remove(node);
        }
    }

    /// Nobody could be heard for a while: everybody's time begins anew.
    pub(crate) fn restart(&mut self, now: Timestamp) {
        for (_, fact) in self.leases.values_mut() {
            fact.heard = now;
        }
    }

    /// What is known.
    pub(crate) fn facts(&self) -> Vec<LeaseFact> {
        self.leases.values().map(|(_, fact)| fact.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp as Time;

    use super::super::fixture::at;
    use super::*;

    fn lease(node: &str, heard: i64, unreachable: &[&str]) -> LeaseFact {
        let unreachable = unreachable.iter().map(|&node| node.to_owned()).collect();
        LeaseFact { node: node.into(), heard: at(heard), unreachable, unserved: BTreeMap::new() }
    }

    fn lives(leases: &[LeaseFact], now: i64) -> Vec<(String, Life)> {
        judge(leases, at(now)).0.into_iter().collect()
    }

    #[test]
    fn two_witnesses_and_an_overdue_lease_are_a_dead_node() {
        let all = [lease("a", 100, &[]), lease("b", 102, &["a"]), lease("c", 102, &["a"])];
        assert_eq!(lives(&all, 102), [], "its Lease may still be renewed");
        assert_eq!(lives(&all, 103), [("a".into(), Life::Dead)]);
        let one = [lease("a", 100, &[]), lease("b", 102, &["a"]), lease("c", 102, &[])];
        assert_eq!(lives(&one, 103), [], "one witness may be the one that is cut off");
        assert_eq!(judge(&all, at(102)).1, Some(at(102) + SignedDuration::from_millis(500)));
    }

    #[test]
    fn a_silent_agent_whose_vips_answer_is_mute_and_one_witness_makes_it_dead() {
        let answering = [lease("a", 100, &[]), lease("b", 106, &[])];
        assert_eq!(lives(&answering, 105), []);
        assert_eq!(lives(&answering, 106), [("a".into(), Life::Mute)]);
        let gone = [lease("a", 100, &[]), lease("b", 106, &["a"])];
        assert_eq!(lives(&gone, 106), [("a".into(), Life::Dead)]);
    }

    #[test]
    fn when_nobody_is_heard_nobody_is_judged() {
        let all = [lease("a", 100, &["b", "c"]), lease("b", 100, &["a"]), lease("c", 100, &["a", "b"])];
        assert_eq!(lives(&all, 500), []);
        assert_eq!(lives(&[lease("a", 100, &[])], 500), [], "the only agent");
    }

    fn object(node: &str, renewed: i64, unreachable: &str) -> Lease {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": format!("{}{node}", names::AGENT_LEASE_PREFIX),
                "annotations": {names::ANNOTATION_UNREACHABLE: unreachable}},
            "spec": {"renewTime": format!("{:.6}", Time::from_second(renewed).unwrap())},
        }))
        .unwrap()
    }

    #[test]
    fn after_an_outage_everybody_has_time_to_be_heard_again() {
        let mut heard = Heard::default();
        for node in ["a", "b", "c"] {
            assert!(heard.hear(&object(node, 1, ""), at(100)), "a node that may take VIPs from now on");
        }
        assert!(!heard.hear(&object("a", 3, ""), at(102)), "a renewal alone is no news");
        // The API was away for a minute; a is the first to get through.
        assert!(heard.hear(&object("a", 60, "b"), at(160)));
        assert_eq!(judge(&heard.facts(), at(160)).0, BTreeMap::new());
        assert!(heard.facts().iter().all(|fact| fact.heard == at(160)));
        heard.forget(&object("b", 1, ""));
        assert_eq!(heard.facts().len(), 2);
    }

    #[test]
    fn a_network_that_a_node_cannot_serve_is_news() {
        let mut heard = Heard::default();
        let mut lease = object("a", 1, "");
        heard.hear(&lease, at(100));
        let text = r#"{"public":{"reason":"NoCarrier","message":"interface eth1 has no carrier"}}"#;
        let annotations = lease.metadata.annotations.as_mut().unwrap();
        annotations.insert(names::ANNOTATION_NETWORKS.to_owned(), text.to_owned());
        assert!(heard.hear(&lease, at(101)) && !heard.hear(&lease, at(102)));
        assert_eq!(heard.facts()[0].unserved["public"], "interface eth1 has no carrier");
        assert_eq!(heard.facts()[0].heard, at(100), "it was not renewed");
    }

    #[test]
    fn what_is_sent_again_is_no_renewal() {
        let mut heard = Heard::default();
        heard.hear(&object("a", 1, ""), at(100));
        heard.hear(&object("b", 1, ""), at(101));
        heard.hear(&object("a", 1, "b"), at(102));
        assert_eq!(heard.facts()[0].heard, at(100));
    }
}
