//! Sums of a time and a duration, of which either may come from an object: whoever writes objects ends no task by them.

use jiff::{SignedDuration, Timestamp};

/// The time `wait` after `at`, or the last that there is (in the year 9999).
///
/// jiff's `+` panics where this says the last.
pub(crate) fn after(at: Timestamp, wait: SignedDuration) -> Timestamp {
    let bound = if wait.is_negative() { Timestamp::MIN } else { Timestamp::MAX };
    at.checked_add(wait).unwrap_or(bound)
}

/// As [`after`], for a number of seconds.
pub(crate) fn seconds_after(at: Timestamp, seconds: i64) -> Timestamp {
    after(at, SignedDuration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_stays_among_the_times_that_there_are() {
        let start: Timestamp = "2024-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(seconds_after(start, 60), "2024-01-01T00:01:00Z".parse().unwrap());
        assert_eq!(seconds_after(start, i64::MAX), Timestamp::MAX);
        assert_eq!(seconds_after(start, i64::MIN), Timestamp::MIN);
        assert_eq!(after(Timestamp::MAX, SignedDuration::from_nanos(1)), Timestamp::MAX);
    }
}
