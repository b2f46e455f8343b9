//! The Lease as a record: what the next one says, and whether it may be taken. Pure.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::ObjectMeta;

/// What to do about a Lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It is another's.
    Wait,
    /// It is ours, released or expired.
    Write,
}

/// The last change of the Lease that was seen, by our own clock.
#[derive(Debug, Default)]
pub(super) struct Seen {
    last: Option<(LeaseSpec, Instant)>,
}

impl Seen {
    pub(super) fn step(&mut self, lease: &Lease, identity: &str, now: Instant, least: Duration) -> Step {
        let spec = lease.spec.clone().unwrap_or_default();
        let since = match &self.last {
            Some((last, since)) if *last == spec => *since,
            _ => now,
        };
        let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let duration = seconds.map_or(least, Duration::from_secs);
        self.last = Some((spec, since));
        match holder(lease) {
            Some(other) if other != identity && now.duration_since(since) < duration => Step::Wait,
            _ => Step::Write,
        }
    }
}

/// Who holds it.
pub(super) fn holder(lease: &Lease) -> Option<&String> {
    lease.spec.as_ref()?.holder_identity.as_ref().filter(|holder| !holder.is_empty())
}

/// A Lease where there was none.
pub(super) fn first(name: &str, identity: &str, duration: Duration, now: Timestamp) -> Lease {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    next(&Lease { metadata, spec: None }, identity, duration, now)
}

/// The Lease renewed, taken over, or with an empty identity released.
pub(super) fn next(lease: &Lease, identity: &str, duration: Duration, now: Timestamp) -> Lease {
    let mut next = lease.clone();
    let same = holder(lease).map(String::as_str) == Some(identity);
    let spec = next.spec.get_or_insert_default();
    if !same && !identity.is_empty() {
        spec.acquire_time = Some(MicroTime(now));
        spec.lease_transitions = Some(spec.lease_transitions.map_or(0, |count| count.saturating_add(1)));
    }
    spec.holder_identity = Some(identity.to_owned());
    spec.lease_duration_seconds = Some(i32::try_from(duration.as_secs()).unwrap_or(i32::MAX));
    spec.renew_time = Some(MicroTime(now));
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    const DURATION: Duration = Duration::from_secs(15);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).unwrap()
    }

    #[test]
    fn a_lease_of_another_is_taken_when_it_has_not_changed_for_its_duration() {
        let (mut seen, start) = (Seen::default(), Instant::now());
        let step = |seen: &mut Seen, lease: &Lease, seconds| {
            seen.step(lease, "me", start + Duration::from_secs(seconds), DURATION)
        };
        let lease = first("l", "other", DURATION, at(0));
        assert_eq!(step(&mut seen, &lease, 0), Step::Wait);
        assert_eq!(step(&mut seen, &lease, 14), Step::Wait);
        let renewed = next(&lease, "other", DURATION, at(14));
        assert_eq!(step(&mut seen, &renewed, 16), Step::Wait);
        assert_eq!(step(&mut seen, &renewed, 30), Step::Wait);
        assert_eq!(step(&mut seen, &renewed, 31), Step::Write);
    }

    #[test]
    fn an_old_time_in_a_lease_means_nothing_until_it_was_watched() {
        let ancient = first("l", "other", DURATION, at(-1_000_000));
        assert_eq!(Seen::default().step(&ancient, "me", Instant::now(), DURATION), Step::Wait);
    }

    #[test]
    fn a_released_lease_and_our_own_are_taken_at_once() {
        let mine = first("l", "me", DURATION, at(0));
        assert_eq!(Seen::default().step(&mine, "me", Instant::now(), DURATION), Step::Write);
        let released = next(&mine, "", DURATION, at(1));
        assert_eq!(holder(&released), None);
        assert_eq!(Seen::default().step(&released, "other", Instant::now(), DURATION), Step::Write);
    }

    #[test]
    fn transitions_are_counted_and_renewals_are_not() {
        let transitions = |lease: &Lease| lease.spec.as_ref().unwrap().lease_transitions;
        let mine = first("l", "me", DURATION, at(0));
        let renewed = next(&mine, "me", DURATION, at(2));
        assert_eq!((transitions(&mine), transitions(&renewed)), (Some(0), Some(0)));
        assert_eq!(renewed.spec.as_ref().unwrap().acquire_time, mine.spec.as_ref().unwrap().acquire_time);
        assert_eq!(transitions(&next(&renewed, "other", DURATION, at(3))), Some(1));
    }
}
