//! Jobs that are over are kept to be looked at, but not all of them.

use std::sync::Arc;

use litek8s_store::Object;

use super::super::action::{Action, Note};
use super::super::kind::Kind;
use super::super::read::{self, text};
use super::{CronJob, Run};

/// Deletes a Job with its pods.
pub(super) fn delete(job: &Arc<Object>) -> Action {
    let note = Some(Note::new("SuccessfulDelete", "Deleted job {}"));
    Action::Delete { kind: Kind::Job, object: job.clone(), propagation: "Background", at_once: false, note }
}

/// The oldest Jobs beyond those that are kept, of each end.
pub(super) fn surplus(cron: &CronJob<'_>) -> Vec<Action> {
    let mut actions = Vec::new();
    for (end, limit) in [("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")] {
        let Some(limit) = cron.spec()[limit].as_i64() else { continue };
        let mut over: Vec<&Run<'_>> = cron
            .jobs
            .iter()
            .filter(|job| job.end() == Some(end) && !job.object.meta.is_terminating())
            .collect();
        over.sort_by_key(|job| {
            let started = text(&job.value["status"]["startTime"]);
            (started.is_empty(), started.to_owned(), job.object.key.name.clone())
        });
        let surplus = over.len().saturating_sub(read::size(limit));
        actions.extend(over.into_iter().take(surplus).map(|job| delete(job.object)));
    }
    actions
}
