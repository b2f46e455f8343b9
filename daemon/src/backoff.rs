//! Which writes failed, and when each may be tried again, so that one which is refused for ever neither stops the others
//! nor is tried with every decision. Pure: times are arguments.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The first and the longest pause.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// What failed, in words that say the whole write, with its last pause and the end of it.
#[derive(Debug, Default)]
pub struct Backoff {
    failed: BTreeMap<String, (Duration, Instant)>,
}

impl Backoff {
    /// Whether it is too early to try a write again.
    pub fn holds(&self, write: &str, now: Instant) -> bool {
        self.failed.get(write).is_some_and(|(_, until)| now < *until)
    }

    /// How a write went.
    pub fn note(&mut self, write: &str, succeeded: bool, now: Instant) {
        if succeeded {
            self.failed.remove(write);
            return;
        }
        let before = self.failed.get(write).map(|(pause, _)| (*pause * 2).min(PAUSE.1));
        let pause = before.unwrap_or(PAUSE.0);
        self.failed.insert(write.to_owned(), (pause, now + pause));
    }

    /// Forgets what nobody wants to write any more.
    pub fn keep(&mut self, wanted: impl Fn(&str) -> bool) {
        self.failed.retain(|write, _| wanted(write));
    }

    /// How long it is until something may be tried again.
    pub fn wait(&self, now: Instant) -> Option<Duration> {
        self.failed.values().map(|(_, until)| until.saturating_duration_since(now)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_fails_waits_longer_each_time_and_others_do_not() {
        let (mut backoff, start) = (Backoff::default(), Instant::now());
        assert_eq!(backoff.wait(start), None);
        let mut now = start;
        for pause in [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000].map(Duration::from_millis) {
            backoff.note("create a", false, now);
            assert!(backoff.holds("create a", now) && !backoff.holds("create b", now));
            assert_eq!(backoff.wait(now), Some(pause));
            now += pause;
            assert!(!backoff.holds("create a", now));
        }
        backoff.note("create a", true, now);
        backoff.note("create a", false, now);
        assert_eq!(backoff.wait(now), Some(Duration::from_millis(500)));
        backoff.keep(|write| write != "create a");
        assert_eq!(backoff.wait(now), None);
    }
}
