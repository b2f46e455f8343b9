//! When a VipAddress that is being deleted may go: its node let go of it, or cannot any more, or does not answer.
//!
//! Until then its address, name, mark, table and priority are taken, so a VIP that moves is never on two nodes.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use litek8s_crds::names;

use super::allocate::later;
use super::decision::{Action, Note, NoteKind, Subject};
use super::facts::{AddressFact, Facts};
use super::memory::Memory;

/// How long a node that seems to live is waited for.
const PATIENCE: SignedDuration = SignedDuration::from_secs(3);

/// What to let go.
#[derive(Debug, Default)]
pub(crate) struct Releases<'a> {
    pub(crate) actions: Vec<Action>,
    pub(crate) notes: Vec<Note>,
    /// The UIDs of what goes: they are in nobody's way once the actions are done.
    pub(crate) gone: BTreeSet<&'a str>,
    /// When somebody has been waited for long enough.
    pub(crate) wake: Option<Timestamp>,
}

/// Decides on all that wait. Those that go on waiting are remembered in `next`.
pub(crate) fn decide<'a>(facts: &'a Facts, memory: &Memory, next: &mut Memory) -> Releases<'a> {
    let mut releases = Releases::default();
    let mut waiting: Vec<&AddressFact> = facts.addresses.iter().filter(|address| address.waits()).collect();
    waiting.sort_by_key(|address| (&address.namespace, &address.name));
    for address in waiting {
        let node = &address.spec.node;
        let since = memory.releasing.get(&address.uid).copied().unwrap_or(facts.now);
        let until = later(since, PATIENCE);
        let why = if address.released {
            format!("Node {node} let go of it")
        } else if let Some(dead) = dead(facts, node) {
            format!("Node {node} {dead}")
        } else if facts.now >= until {
            if let Some(service) = facts.services.iter().find(|fact| fact.key == address.spec.service) {
                releases.notes.push(Note {
                    subject: Subject::Service(service.key.clone(), service.uid.clone()),
                    kind: NoteKind::VipReleaseUnanswered,
                    message: format!("Node {node} did not let go of {} in time", address.spec.virtual_cidr),
                });
            }
            format!("Node {node} did not answer in {} s", PATIENCE.as_secs())
        } else {
            next.releasing.insert(address.uid.clone(), since);
            releases.wake = Some(releases.wake.map_or(until, |wake| wake.min(until)));
            continue;
        };
        releases.gone.insert(&address.uid);
        releases.actions.push(Action::Release {
            namespace: address.namespace.clone(),
            name: address.name.clone(),
            uid: address.uid.clone(),
            finalizers: others(address),
            why,
        });
    }
    releases
}

/// The finalizers of others.
pub(crate) fn others(address: &AddressFact) -> Vec<String> {
    address.finalizers.iter().filter(|name| *name != names::FINALIZER_RELEASE).cloned().collect()
}

/// Why a node can let go of nothing any more.
pub(crate) fn dead(facts: &Facts, node: &str) -> Option<String> {
    match facts.nodes.iter().find(|fact| fact.name == node) {
        Some(fact) => fact.dead.clone(),
        None => Some("does not exist".to_owned()),
    }
}
