//! As many pods at a time as a Job wants, and in an indexed Job one of each index.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::action::{Action, Note};
use super::super::facts::Facts;
use super::super::kind::Kind;
use super::super::pod::Pod;
use super::super::{read, template};
use super::count::Count;
use super::indexes::Indexes;
use super::{Job, backoff, counted, policy};
use crate::endpoints::metadata;

/// The annotation, and label, of a pod's index.
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
const IGNORED: &str = "batch.kubernetes.io/job-index-ignored-failure-count";
/// The variable by which a container learns its index.
const VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// The most pods that are created or deleted in one round.
const BURST: usize = 500;
/// The longest prefix of a generated name.
const PREFIX: usize = 58;

/// How often a pod's index had failed before it, and how often that did not count.
pub(super) fn failures(pod: &Pod<'_>) -> (i64, i64) {
    let number = |name: &str| {
        let number = pod.annotations.get(name).and_then(|text| text.parse::<i32>().ok());
        i64::from(number.filter(|number| *number >= 0).unwrap_or(0))
    };
    (number(FAILURES), number(IGNORED))
}

fn delete(pod: &Pod<'_>) -> Action {
    Action::delete(Kind::Pod, pod.object).noted(Note::new("SuccessfulDelete", "Deleted pod: {}"))
}

/// Ends what still runs; it is counted when it has gone.
pub(super) fn stop(count: &Count<'_, '_>) -> Vec<Action> {
    count.active.iter().map(|pod| delete(pod)).collect()
}

/// Ends pods that are not wanted; they count as nothing.
fn drop_all<'p, 'a: 'p>(pods: impl IntoIterator<Item = &'p Pod<'a>>) -> Vec<Action> {
    pods.into_iter().flat_map(|pod| counted(pod.object).into_iter().chain([delete(pod)])).collect()
}

/// The pods that are too many or missing; `again` learns when one may come that may not come yet.
pub(super) fn manage(
    facts: &Facts<'_>,
    job: &Job<'_>,
    count: &Count<'_, '_>,
    again: &mut Option<Timestamp>,
) -> Vec<Action> {
    if job.is_suspended() {
        return drop_all(count.active.iter().copied());
    }
    let active = count.active.len();
    let wanted = match job.completions() {
        Some(completions) => read::size((completions - count.succeeded).min(job.parallelism())),
        // Once one has succeeded, those that run may go on and no other comes.
        None if count.succeeded > 0 => active,
        None => read::size(job.parallelism()),
    };
    let surplus = surplus(job, count, active.saturating_sub(wanted));
    if !surplus.is_empty() {
        return drop_all(surplus.into_iter().take(BURST));
    }
    let ending = if job.waits_for_the_end() { count.terminating } else { 0 };
    let missing = wanted.saturating_sub(ending + active).min(BURST);
    if missing == 0 {
        return Vec::new();
    }
    let mut later = |at: Timestamp| *again = Some(again.map_or(at, |known| known.min(at)));
    if job.limit_per_index().is_none()
        && let Some(at) = backoff::of_job(job).filter(|at| *at > facts.now)
    {
        later(at);
        return Vec::new();
    }
    if !job.is_indexed() {
        let prefix = template::prefix(job.object);
        return (0..missing).map(|_| create(job, prefix.clone(), |_| {})).collect();
    }
    let mut actions = Vec::new();
    for index in pending(job, count, missing) {
        let failed = count.last_failed.get(&index).copied();
        match failed.and_then(backoff::of_index).filter(|at| *at > facts.now) {
            Some(at) => later(at),
            None => actions.push(indexed(job, index, failed)),
        }
    }
    actions
}

/// The first indexes that have neither ended nor a pod.
fn pending(job: &Job<'_>, count: &Count<'_, '_>, most: usize) -> Vec<i64> {
    let Some(completions) = job.completions() else { return Vec::new() };
    let ending = job.pods.iter().filter(|pod| pod.object.meta.is_terminating() && !pod.is_finished());
    let ending = ending.filter(|_| job.waits_for_the_end());
    let with_pod: Indexes =
        count.active.iter().copied().chain(ending).filter_map(|pod| job.index(pod)).collect();
    let mut taken = count.succeeded_indexes.union(&with_pod);
    if let Some(failed) = &count.failed_indexes {
        taken = taken.union(failed);
    }
    taken.missing(most, completions)
}

/// At least so many pods that are not wanted: those without an index of the Job, all but one of an index, and then those
/// that do least.
fn surplus<'p, 'a>(job: &Job<'_>, count: &Count<'p, 'a>, least: usize) -> Vec<&'p Pod<'a>> {
    let mut active = count.active.clone();
    active.sort_by_cached_key(|pod| usefulness(pod));
    let mut surplus = Vec::new();
    if job.is_indexed() {
        let mut seen = BTreeSet::new();
        let mut left = Vec::new();
        // The most useful of each index is the one that stays.
        for pod in active.into_iter().rev() {
            match job.index(pod) {
                Some(index) if seen.insert(index) => left.push(pod),
                Some(_) | None => surplus.push(pod),
            }
        }
        left.reverse();
        active = left;
    }
    let more = least.saturating_sub(surplus.len());
    surplus.extend(active.into_iter().take(more));
    surplus
}

/// Sorts before those that do more.
fn usefulness(pod: &Pod<'_>) -> (bool, u8, bool, i64, Option<std::cmp::Reverse<Timestamp>>) {
    let phase = match pod.status.phase.as_str() {
        "Running" => 2,
        "Unknown" => 1,
        _ => 0,
    };
    let placed = !pod.spec.node_name.is_empty();
    (placed, phase, pod.is_ready(), -pod.restarts(), pod.created().map(std::cmp::Reverse))
}

fn create(job: &Job<'_>, prefix: String, change: impl FnOnce(&mut Value)) -> Action {
    let mut pod = template::pod(&job.spec()["template"], Kind::Job, job.object);
    pod["metadata"]["generateName"] = json!(prefix);
    super::track(&mut pod);
    change(&mut pod);
    Action::create(Kind::Pod, pod).noted(Note::new("SuccessfulCreate", "Created pod: {}"))
}

/// The pod of an index, in the place of one that failed.
fn indexed(job: &Job<'_>, index: i64, failed: Option<&Pod<'_>>) -> Action {
    let suffix = format!("-{index}-");
    let name: String = job.object.key.name.chars().take(PREFIX - suffix.len()).collect();
    create(job, format!("{name}{suffix}"), |pod| {
        let meta = &mut pod["metadata"];
        metadata::object(meta, "labels")[INDEX] = json!(index.to_string());
        let annotations = metadata::object(meta, "annotations");
        annotations[INDEX] = json!(index.to_string());
        if job.limit_per_index().is_some() {
            let (mut counted, mut ignored) = failed.map_or((0, 0), failures);
            if let Some(failed) = failed {
                let counts = policy::judge(job, failed).counts;
                counted += i64::from(counts);
                ignored += i64::from(!counts);
            }
            annotations[FAILURES] = json!(counted.to_string());
            if ignored > 0 {
                annotations[IGNORED] = json!(ignored.to_string());
            }
        }
        let spec = metadata::object(pod, "spec");
        spec["hostname"] = json!(format!("{}-{index}", job.object.key.name));
        for list in ["initContainers", "containers"] {
            for container in spec[list].as_array_mut().into_iter().flatten() {
                tell_index(container);
            }
        }
    })
}

fn tell_index(container: &mut Value) {
    let mut variables = read::list(&container["env"]).to_vec();
    if variables.iter().any(|variable| variable["name"] == VARIABLE) {
        return;
    }
    let path = format!("metadata.labels['{INDEX}']");
    let source = json!({"fieldRef": {"apiVersion": "v1", "fieldPath": path}});
    variables.push(json!({"name": VARIABLE, "valueFrom": source}));
    container["env"] = Value::Array(variables);
}
