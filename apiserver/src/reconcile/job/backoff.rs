//! How long a Job waits after failures, by the pods that are still there to tell.

use jiff::{SignedDuration, Timestamp};

use super::super::pod::Pod;
use super::{Job, is_tracked, pods};

/// The wait after the first failure, doubled for each further one.
const FIRST: SignedDuration = SignedDuration::from_secs(10);
/// The longest wait.
const LONGEST: SignedDuration = SignedDuration::from_mins(10);

/// When a new pod may come after so many failures, the last of them at `last`.
fn after(failures: i64, last: Timestamp) -> Timestamp {
    let mut wait = FIRST;
    for _ in 1..failures {
        wait = (wait * 2).min(LONGEST);
        if wait == LONGEST {
            break;
        }
    }
    last.checked_add(wait).unwrap_or(last)
}

/// When a new pod may come after the failures since the last success.
pub(super) fn of_job(job: &Job<'_>) -> Option<Timestamp> {
    let won = job.pods.iter().filter(|pod| pod.status.phase == "Succeeded");
    let success = won.filter_map(Pod::finished_at).max();
    // What goes because it was not wanted has not failed.
    let has_failed =
        |pod: &&Pod<'_>| pod.status.phase == "Failed" || (job.has_failed(pod) && is_tracked(pod.object));
    let lost = job.pods.iter().filter(has_failed).filter_map(Pod::finished_at);
    let since: Vec<Timestamp> = lost.filter(|at| success.is_none_or(|success| *at > success)).collect();
    Some(after(i64::try_from(since.len()).unwrap_or(i64::MAX), since.iter().max().copied()?))
}

/// When a new pod may come in the place of one that failed.
pub(super) fn of_index(failed: &Pod<'_>) -> Option<Timestamp> {
    let (counted, ignored) = pods::failures(failed);
    Some(after(counted + ignored + 1, failed.finished_at()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_ten_minutes() {
        let zero = Timestamp::UNIX_EPOCH;
        for (failures, seconds) in [(1, 10), (2, 20), (3, 40), (6, 320), (7, 600), (1_000_000, 600)] {
            assert_eq!(after(failures, zero).as_second(), seconds, "{failures}");
        }
    }
}
