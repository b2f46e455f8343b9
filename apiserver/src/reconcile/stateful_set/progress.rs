//! The next step of a StatefulSet: missing pods in ascending order, surplus ones in descending order, then updates.

use super::super::action::{Action, Note};
use super::super::facts::Facts;
use super::super::kind::Kind;
use super::super::read;
use super::Set;
use super::identity;
use super::member::Member;
use super::storage::{self, Claims};

/// Whether pods that come later may be looked at.
#[derive(PartialEq, Eq)]
enum Then {
    Further,
    Stop,
}

/// Writes of one step at most: further ones follow when these are seen.
const BURST: usize = 500;

/// The writes of the next step; none when something else has to happen first, or nothing is left to do.
pub(super) fn next(facts: &Facts<'_>, set: &Set<'_>) -> Vec<Action> {
    let mut actions = Vec::new();
    for ordinal in set.start()..set.start() + set.replicas() {
        let then = match set.members.iter().find(|member| member.ordinal == ordinal) {
            Some(member) => keep(facts, set, member, &mut actions),
            None => create(facts, set, ordinal, &mut actions),
        };
        if (set.is_ordered() && then == Then::Stop) || actions.len() >= BURST {
            return actions;
        }
    }
    let mut surplus: Vec<&Member<'_>> =
        set.members.iter().filter(|member| !set.is_in_range(member.ordinal)).collect();
    surplus.reverse();
    for member in &surplus {
        actions.extend(storage::retain(facts, set, member));
    }
    if !actions.is_empty() {
        return actions;
    }
    for member in surplus.iter().take(BURST) {
        if condemn(facts, set, member, &mut actions) == Then::Stop && set.is_ordered() {
            return actions;
        }
    }
    if actions.is_empty() && set.is_rolling() { update(facts, set) } else { actions }
}

fn delete(set: &Set<'_>, member: &Member<'_>) -> Action {
    let text = format!("Delete Pod {{}} in StatefulSet {} successful", set.object.key.name);
    Action::delete(Kind::Pod, member.pod.object).noted(Note::new("SuccessfulDelete", text))
}

/// A pod that is missing; its claims come first.
fn create(facts: &Facts<'_>, set: &Set<'_>, ordinal: i64, actions: &mut Vec<Action>) -> Then {
    if storage::is_stale(facts, set, ordinal) {
        return Then::Stop;
    }
    match storage::claims(facts, set, ordinal) {
        Claims::Going => {}
        Claims::Missing(missing) => actions.extend(missing),
        Claims::There => {
            let text = format!("Create Pod {{}} in StatefulSet {} successful", set.object.key.name);
            let create = Action::create(Kind::Pod, identity::pod(set, ordinal));
            actions.push(create.noted(Note::new("SuccessfulCreate", text)));
        }
    }
    Then::Stop
}

/// A pod that is wanted and there.
fn keep(facts: &Facts<'_>, set: &Set<'_>, member: &Member<'_>, actions: &mut Vec<Action>) -> Then {
    if member.pod.is_finished() {
        if !member.is_terminating() {
            actions.push(delete(set, member));
        }
        return Then::Stop;
    }
    if member.pod.status.phase == "Pending"
        && let Claims::Missing(missing) = storage::claims(facts, set, member.ordinal)
    {
        actions.extend(missing);
    }
    actions.extend(storage::retain(facts, set, member));
    let usable = !member.is_terminating()
        && member.is_ready()
        && member.is_available(set.min_ready_seconds(), facts.now);
    if set.is_ordered() && !usable {
        return Then::Stop;
    }
    actions.extend(identity::restore(member));
    Then::Further
}

/// A pod that is too many.
fn condemn(facts: &Facts<'_>, set: &Set<'_>, member: &Member<'_>, actions: &mut Vec<Action>) -> Then {
    if member.is_terminating() {
        return Then::Stop;
    }
    let works = member.is_ready() && member.is_available(set.min_ready_seconds(), facts.now);
    if set.is_ordered() && !works && !is_first_unavailable(facts, set, member) {
        return Then::Stop;
    }
    actions.push(delete(set, member));
    Then::Stop
}

/// Whether every pod that is wanted, and every surplus one of a lower number, can be counted on.
fn is_first_unavailable(facts: &Facts<'_>, set: &Set<'_>, member: &Member<'_>) -> bool {
    let unavailable = |other: &&Member<'_>| other.is_unavailable(set.min_ready_seconds(), facts.now);
    let wanted = set.members.iter().filter(|other| set.is_in_range(other.ordinal));
    let surplus = set.members.iter().filter(|other| !set.is_in_range(other.ordinal));
    let first = wanted.chain(surplus).find(unavailable);
    first.is_some_and(|first| first.ordinal == member.ordinal)
}

/// Pods of an old revision, the highest number first, as many as may be missing at a time.
fn update(facts: &Facts<'_>, set: &Set<'_>) -> Vec<Action> {
    let wanted: Vec<&Member<'_>> =
        set.members.iter().filter(|member| set.is_in_range(member.ordinal)).collect();
    let bound = &set.spec()["updateStrategy"]["rollingUpdate"]["maxUnavailable"];
    let most = read::share(bound, set.replicas(), false, 1).max(1);
    let missing = wanted.iter().filter(|m| m.is_unavailable(set.min_ready_seconds(), facts.now)).count();
    let room = read::size(most).saturating_sub(missing);
    let first = set.start() + set.partition();
    let old = wanted.into_iter().rev().filter(|member| {
        member.ordinal >= first && member.revision() != set.update.name() && !member.is_terminating()
    });
    old.take(room).map(|member| delete(set, member)).collect()
}
