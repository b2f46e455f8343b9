//! The right pods on every node: one where one belongs, none elsewhere.

use jiff::SignedDuration;

use super::super::action::{Action, Decision};
use super::super::facts::Facts;
use super::super::pod::Pod;
use super::{BURST, Daemons, delete};
use crate::time::after;

/// How old a failed pod is before another one takes its place: a node that refuses pods is asked this often.
const PATIENCE: SignedDuration = SignedDuration::from_secs(10);

/// Creates and deletes pods so that every node has its own.
pub(super) fn settle(facts: &Facts<'_>, daemons: &Daemons<'_>) -> Decision {
    let mut decision = Decision::nothing();
    let (mut missing, mut surplus) = (Vec::new(), Vec::new());
    for node in &daemons.nodes {
        let pods = daemons.on(&node.name);
        match daemons.fits(node) {
            (true, _) if pods.is_empty() => missing.push(&*node.name),
            (wanted, true) => {
                let running = running(facts, pods, &mut surplus, &mut decision);
                if !daemons.surges() {
                    surplus.extend(running.into_iter().skip(1));
                } else if running.is_empty() && wanted && pods.iter().all(|p| p.object.meta.is_terminating())
                {
                    missing.push(&*node.name);
                } else if running.len() > 1 {
                    surplus.extend(superseded(facts, daemons, running));
                }
            }
            (_, false) => surplus.extend(pods.iter().filter(|pod| !pod.object.meta.is_terminating())),
        }
    }
    // Nobody else would ever end a pod that waits for a node that is gone.
    let known = |name: &str| daemons.nodes.iter().any(|node| *node.name == *name);
    let lost = daemons.pods.iter().filter(|(name, _)| !known(name)).flat_map(|(_, pods)| pods);
    surplus.extend(lost.filter(|pod| pod.spec.node_name.is_empty() && !pod.object.meta.is_terminating()));
    let created = missing.into_iter().take(BURST).map(|node| daemons.create(node));
    let deleted = surplus.into_iter().take(BURST).map(delete);
    decision.actions = created.chain(deleted).collect::<Vec<Action>>();
    decision
}

/// Those of a node's pods that run or will; those that ended are to be deleted.
fn running<'p, 'a>(
    facts: &Facts<'_>,
    pods: &'p [Pod<'a>],
    surplus: &mut Vec<&'p Pod<'a>>,
    decision: &mut Decision,
) -> Vec<&'p Pod<'a>> {
    let mut running = Vec::new();
    for pod in pods.iter().filter(|pod| !pod.object.meta.is_terminating()) {
        match pod.status.phase.as_str() {
            "Failed" => match pod.created().map(|at| after(at, PATIENCE)).filter(|at| *at > facts.now) {
                Some(at) => decision.wake(at),
                None => surplus.push(pod),
            },
            "Succeeded" => surplus.push(pod),
            _ => running.push(pod),
        }
    }
    running
}

/// Where pods surge, the oldest of the new template may be beside the oldest of the old one while that one works and the
/// new one does not yet.
fn superseded<'p, 'a>(
    facts: &Facts<'_>,
    daemons: &Daemons<'_>,
    running: Vec<&'p Pod<'a>>,
) -> Vec<&'p Pod<'a>> {
    let (new, old): (Vec<_>, Vec<_>) = running.into_iter().partition(|pod| daemons.is_updated(pod));
    let mut surplus: Vec<_> = new.iter().skip(1).chain(old.iter().skip(1)).copied().collect();
    if let (Some(new), Some(old)) = (new.first(), old.first())
        && (!old.is_ready() || daemons.is_available(new, facts.now))
    {
        surplus.push(old);
    }
    surplus
}
