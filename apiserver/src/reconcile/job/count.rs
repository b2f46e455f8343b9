//! What a Job's pods amount to, whether its status has it already or not.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::pod::Pod;
use super::super::read::{self, text};
use super::indexes::Indexes;
use super::{Job, is_tracked, pods, policy};

/// The count.
pub(super) struct Count<'p, 'a> {
    /// Pods that run or will.
    pub(super) active: Vec<&'p Pod<'a>>,
    /// Those of them that are ready.
    pub(super) ready: usize,
    /// Pods that are going and have not ended.
    pub(super) terminating: usize,
    /// Pods, or indexes, that succeeded.
    pub(super) succeeded: i64,
    /// Pods that failed and count.
    pub(super) failed: i64,
    /// Indexes that succeeded.
    pub(super) succeeded_indexes: Indexes,
    /// Indexes that will not be tried again, of a Job that limits failures of each.
    pub(super) failed_indexes: Option<Indexes>,
    /// For each index that waits for a new pod, the one that failed last: it tells the new one how often.
    pub(super) last_failed: BTreeMap<i64, &'p Pod<'a>>,
}

/// The uids of a list in the status.
pub(super) fn uids<'s>(status: &'s Value, list: &str) -> BTreeSet<&'s str> {
    read::list(&status["uncountedTerminatedPods"][list]).iter().map(text).collect()
}

impl<'p, 'a> Count<'p, 'a> {
    /// Counts the pods of a job.
    pub(super) fn of(job: &'p Job<'a>) -> Self {
        let status = job.status();
        let (succeeded, failed) = (uids(status, "succeeded"), uids(status, "failed"));
        let valid =
            |pod: &&Pod<'_>| is_tracked(pod.object) && (!job.is_indexed() || job.index(pod).is_some());
        let is_new = |pod: &&Pod<'_>, known: &BTreeSet<&str>| !known.contains(pod.object.meta.uid.as_str());
        let tracked: Vec<&Pod<'a>> = job.pods.iter().filter(valid).collect();
        let won: Vec<_> = tracked.iter().copied().filter(|pod| pod.status.phase == "Succeeded").collect();
        let lost = tracked.iter().copied().filter(|pod| job.has_failed(pod));
        let lost_now = lost.filter(|pod| is_new(pod, &failed) && policy::judge(job, pod).counts).count();
        let number = |field: &str| status[field].as_i64().unwrap_or(0);
        let size = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let active: Vec<&Pod<'a>> = job.pods.iter().filter(|pod| pod.is_active()).collect();
        let mut count = Self {
            ready: active.iter().filter(|pod| pod.is_ready()).count(),
            terminating: job
                .pods
                .iter()
                .filter(|p| !p.is_finished() && p.object.meta.is_terminating())
                .count(),
            succeeded: number("succeeded")
                + size(succeeded.len())
                + size(won.iter().filter(|pod| is_new(pod, &succeeded)).count()),
            failed: number("failed") + size(failed.len()) + size(lost_now),
            succeeded_indexes: Indexes::default(),
            failed_indexes: None,
            last_failed: BTreeMap::new(),
            active,
        };
        if let Some(completions) = job.completions().filter(|_| job.is_indexed()) {
            let known = Indexes::parse(text(&status["completedIndexes"]), completions);
            count.succeeded_indexes = known.union(&won.iter().filter_map(|pod| job.index(pod)).collect());
            count.succeeded = count.succeeded_indexes.total();
            if let Some(limit) = job.limit_per_index() {
                count.per_index(job, &tracked, completions, limit);
            }
        }
        count
    }

    fn per_index(&mut self, job: &Job<'_>, tracked: &[&'p Pod<'a>], completions: i64, limit: i64) {
        let known = Indexes::parse(text(&job.status()["failedIndexes"]), completions);
        let lost: Vec<(i64, &'p Pod<'a>)> = tracked
            .iter()
            .filter(|pod| job.has_failed(pod))
            .filter_map(|pod| Some((job.index(pod)?, *pod)))
            .collect();
        let is_over = |pod: &Pod<'_>| {
            let verdict = policy::judge(job, pod);
            verdict.fails_index || (verdict.counts && pods::failures(pod).0 >= limit)
        };
        let over: Indexes = lost.iter().filter(|(_, pod)| is_over(pod)).map(|(index, _)| *index).collect();
        let failed = known.union(&over);
        let active: BTreeSet<i64> = self.active.iter().filter_map(|pod| job.index(pod)).collect();
        for (index, pod) in lost {
            if self.succeeded_indexes.has(index) || failed.has(index) || active.contains(&index) {
                continue;
            }
            let order = |pod: &Pod<'_>| (pods::failures(pod).0 + pods::failures(pod).1, pod.finished_at());
            let last = self.last_failed.entry(index).or_insert(pod);
            if order(last) <= order(pod) {
                *last = pod;
            }
        }
        self.failed_indexes = Some(failed);
    }
}
