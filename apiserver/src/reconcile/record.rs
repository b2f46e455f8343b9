//! Which Events are written of what happens again and again: the same one is counted, many similar ones become one, and
//! an object that is told about too often is told about seldom. As client-go's `EventCorrelator` has it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

/// Similar Events that differ in their message, before they become one.
const SIMILAR: usize = 10;
/// How long nothing similar must happen for Events to be told one by one again.
const INTERVAL: SignedDuration = SignedDuration::from_mins(10);
/// Events about one object that may come at once.
const BURST: f64 = 25.0;
/// Seconds after which there is room for one more.
const REFILL: f64 = 300.0;
/// Objects and sorts of Events that are remembered.
const REMEMBERED: usize = 4096;

/// Something to tell about an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Happening<'a> {
    /// Who tells it.
    pub(super) account: &'a str,
    /// The uid of the object.
    pub(super) uid: &'a str,
    /// `Normal` or `Warning`.
    pub(super) ty: &'a str,
    /// The reason.
    pub(super) reason: &'a str,
    /// The text.
    pub(super) message: &'a str,
}

/// The Event that says it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Told {
    /// The same for what is counted as the same.
    pub(super) id: u64,
    /// The text.
    pub(super) message: String,
}

/// What was told lately.
#[derive(Default)]
pub(super) struct Recorder {
    similar: BTreeMap<u64, Similar>,
    rooms: BTreeMap<u64, Room>,
}

/// Events that differ in their message only.
struct Similar {
    messages: BTreeSet<u64>,
    last: Timestamp,
}

/// How many Events about one object may still be told.
struct Room {
    left: f64,
    last: Timestamp,
}

impl Recorder {
    /// The Event to write, if any.
    pub(super) fn correlate(&mut self, what: &Happening<'_>, now: Timestamp) -> Option<Told> {
        let sort = hash(&[what.account, what.uid, what.ty, what.reason]);
        let told = if self.are_many(sort, hash(&[what.message]), now) {
            Told { id: sort, message: format!("(combined from similar events): {}", what.message) }
        } else {
            let id = hash(&[what.account, what.uid, what.ty, what.reason, what.message]);
            Told { id, message: what.message.to_owned() }
        };
        self.has_room(hash(&[what.account, what.uid]), now).then_some(told)
    }

    fn are_many(&mut self, sort: u64, message: u64, now: Timestamp) -> bool {
        forget(&mut self.similar, |similar| similar.last);
        let similar =
            self.similar.entry(sort).or_insert_with(|| Similar { messages: BTreeSet::new(), last: now });
        if now.duration_since(similar.last) > INTERVAL {
            similar.messages.clear();
        }
        similar.last = now;
        if similar.messages.len() < SIMILAR {
            similar.messages.insert(message);
        }
        similar.messages.len() >= SIMILAR
    }

    fn has_room(&mut self, object: u64, now: Timestamp) -> bool {
        forget(&mut self.rooms, |room| room.last);
        let room = self.rooms.entry(object).or_insert(Room { left: BURST, last: now });
        let since = now.duration_since(room.last).as_secs_f64().max(0.0);
        room.left = (room.left + since / REFILL).min(BURST);
        room.last = now;
        let has_room = room.left >= 1.0;
        if has_room {
            room.left -= 1.0;
        }
        has_room
    }
}

/// Makes room for one more entry: the one that was used longest ago goes.
fn forget<T>(entries: &mut BTreeMap<u64, T>, last: impl Fn(&T) -> Timestamp) {
    if entries.len() >= REMEMBERED
        && let Some(oldest) = entries.iter().min_by_key(|(_, entry)| last(entry)).map(|(key, _)| *key)
    {
        entries.remove(&oldest);
    }
}

/// FNV-1a, 64 bits; the parts are told apart.
fn hash(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn happening<'a>(uid: &'a str, reason: &'a str, message: &'a str) -> Happening<'a> {
        Happening { account: "replicaset-controller", uid, ty: "Normal", reason, message }
    }

    #[test]
    fn the_same_has_one_id_and_similar_ones_become_one() {
        let now = Timestamp::UNIX_EPOCH;
        let mut recorder = Recorder::default();
        let mut tell =
            |message: &str, now| recorder.correlate(&happening("u", "Made", message), now).unwrap();
        let first = tell("Created pod: a", now);
        assert_eq!(tell("Created pod: a", now), first);
        let mut ids = BTreeSet::from([first.id]);
        for pod in ["b", "c", "d", "e", "f", "g", "h", "i"] {
            assert!(ids.insert(tell(&format!("Created pod: {pod}"), now).id));
        }
        let tenth = tell("Created pod: j", now);
        assert_eq!(tenth.message, "(combined from similar events): Created pod: j");
        let next = tell("Created pod: k", now + SignedDuration::from_mins(9));
        assert_eq!((next.id, ids.contains(&next.id)), (tenth.id, false));
        let later = now + SignedDuration::from_mins(20);
        assert_eq!(tell("Created pod: a", later), first);
    }

    #[test]
    fn an_object_that_is_always_told_about_waits_for_room() {
        let mut recorder = Recorder::default();
        let mut now = Timestamp::UNIX_EPOCH;
        let told = |recorder: &mut Recorder, uid: &str, now| {
            recorder.correlate(&happening(uid, "Failed", "no"), now).is_some()
        };
        assert_eq!((0..100).filter(|_| told(&mut recorder, "u", now)).count(), 25);
        assert!(told(&mut recorder, "other", now));
        now += SignedDuration::from_secs(301);
        assert_eq!((0..100).filter(|_| told(&mut recorder, "u", now)).count(), 1);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut recorder = Recorder::default();
        for number in 0..REMEMBERED + 100 {
            let now = Timestamp::from_millisecond(i64::try_from(number).unwrap()).unwrap();
            recorder.correlate(&happening(&number.to_string(), "r", "m"), now);
        }
        assert_eq!((recorder.similar.len(), recorder.rooms.len()), (REMEMBERED, REMEMBERED));
    }
}
