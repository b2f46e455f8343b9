//! Pods of a new template, node by node: in the place of the old ones, or beside them until they work.

use super::super::action::Action;
use super::super::facts::Facts;
use super::super::pod::Pod;
use super::super::read;
use super::{BURST, Daemons, delete};

/// The pods of a node by template; `None` when there are several of one, which are cleaned up elsewhere.
fn sides<'p, 'a>(
    daemons: &Daemons<'_>,
    pods: &'p [Pod<'a>],
) -> Option<(Option<&'p Pod<'a>>, Option<&'p Pod<'a>>)> {
    let (mut new, mut old) = (None, None);
    for pod in pods.iter().filter(|pod| !pod.object.meta.is_terminating()) {
        let side = if daemons.is_updated(pod) { &mut new } else { &mut old };
        if side.replace(pod).is_some() {
            return None;
        }
    }
    Some((new, old))
}

/// The next step of a rolling update.
pub(super) fn next(facts: &Facts<'_>, daemons: &Daemons<'_>) -> Vec<Action> {
    let wanted = daemons.nodes.iter().filter(|node| daemons.fits(node).0).count();
    let nodes = i64::try_from(wanted).unwrap_or(i64::MAX);
    let surge = read::size(daemons.bound("maxSurge", nodes));
    if surge > 0 {
        return beside(facts, daemons, surge, wanted);
    }
    // Both bounds 0 would mean that nothing ever moves.
    let unavailable = read::size(daemons.bound("maxUnavailable", nodes)).max(1);
    in_place(facts, daemons, unavailable)
}

fn in_place(facts: &Facts<'_>, daemons: &Daemons<'_>, most: usize) -> Vec<Action> {
    let mut unavailable = 0;
    let (mut broken, mut working) = (Vec::new(), Vec::new());
    for pods in daemons.pods.values() {
        match sides(daemons, pods) {
            None | Some((None, None) | (Some(_), Some(_))) => unavailable += 1,
            Some((Some(new), None)) => {
                if !daemons.is_available(new, facts.now) {
                    unavailable += 1;
                }
            }
            Some((None, Some(old))) if !daemons.is_available(old, facts.now) => {
                broken.push(old);
                unavailable += 1;
            }
            Some((None, Some(old))) => working.push(old),
        }
    }
    working.truncate(most.saturating_sub(unavailable));
    broken.into_iter().chain(working).take(BURST).map(delete).collect()
}

fn beside(facts: &Facts<'_>, daemons: &Daemons<'_>, most: usize, wanted: usize) -> Vec<Action> {
    let (mut surging, mut available) = (0_usize, 0_usize);
    let (mut gone, mut misplaced) = (Vec::new(), Vec::new());
    let (mut at_once, mut candidates) = (Vec::new(), Vec::new());
    for (name, pods) in &daemons.pods {
        let Some((new, old)) = sides(daemons, pods) else {
            surging += 1;
            continue;
        };
        if old.or(new).is_some_and(|pod| daemons.is_available(pod, facts.now)) {
            available += 1;
        }
        let Some(old) = old else { continue };
        let works = daemons.is_available(old, facts.now);
        let belongs =
            daemons.nodes.iter().find(|node| *node.name == **name).is_some_and(|node| daemons.fits(node).0);
        match new {
            Some(new) if daemons.is_available(new, facts.now) => gone.push(old),
            Some(_) => surging += 1,
            None if !belongs && works => misplaced.push(old),
            None if !belongs => gone.push(old),
            None if works => candidates.push(name),
            None => at_once.push(name),
        }
    }
    // What runs where it no longer belongs goes once enough runs where it does.
    misplaced.truncate(available.saturating_sub(wanted));
    candidates.truncate(most.saturating_sub(surging));
    let created = at_once.into_iter().chain(candidates).take(BURST).map(|node| daemons.create(node));
    let deleted = gone.into_iter().chain(misplaced).take(BURST).map(delete);
    created.chain(deleted).collect()
}
