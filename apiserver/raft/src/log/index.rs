//! Where every entry of the log is, and the newest of them in memory.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;

use super::record::{Kind, Position, Record};

/// A payload in a segment file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) sequence: u64,
    pub(crate) offset: usize,
}

#[derive(Debug)]
struct Slot {
    term: u64,
    kind: Kind,
    length: usize,
    /// Known once the entry is durable.
    place: Option<Place>,
    /// Always there while `place` is not.
    payload: Option<Bytes>,
}

/// An entry, or where to read it.
#[derive(Debug)]
pub(crate) enum Located {
    Here(Record),
    OnDisk { kind: Kind, position: Position, place: Place, length: usize },
}

/// The entries behind the purged part, without a gap.
#[derive(Debug, Default)]
pub(crate) struct Index {
    purged: Option<Position>,
    first: u64,
    slots: VecDeque<Slot>,
    /// Payload bytes in memory, and how many there should be at most.
    cached: usize,
    cache_limit: usize,
    /// Slots before this one hold no payload.
    evicted: usize,
}

impl Index {
    pub(crate) fn new(cache_limit: usize) -> Self {
        Self { cache_limit, ..Self::default() }
    }

    pub(crate) fn purged(&self) -> Option<Position> {
        self.purged
    }

    /// The last entry; the purged position if there is none behind it.
    pub(crate) fn last(&self) -> Option<Position> {
        let Some(slot) = self.slots.back() else {
            return self.purged;
        };
        Some(Position { term: slot.term, index: self.first + self.slots.len() as u64 - 1 })
    }

    /// The index of the first entry held.
    pub(crate) fn first(&self) -> Option<u64> {
        (!self.slots.is_empty()).then_some(self.first)
    }

    /// Adds the next entry; false if it is not the next one.
    pub(crate) fn push(&mut self, entry: &Record, place: Option<Place>) -> bool {
        match self.last() {
            Some(last) if last.index + 1 != entry.position.index || last.term > entry.position.term => {
                return false;
            }
            Some(_) => {}
            None => self.first = entry.position.index,
        }
        if self.slots.is_empty() {
            self.first = entry.position.index;
            self.evicted = 0;
        }
        self.cached += entry.payload.len();
        self.slots.push_back(Slot {
            term: entry.position.term,
            kind: entry.kind,
            length: entry.payload.len(),
            place,
            payload: Some(entry.payload.clone()),
        });
        self.evict();
        true
    }

    /// Notes that an entry is durable, if it is still in the log.
    pub(crate) fn place(&mut self, position: Position, place: Place) {
        if let Some(slot) = self.slot(position.index).and_then(|at| self.slots.get_mut(at))
            && slot.term == position.term
        {
            slot.place = Some(place);
        }
        self.evict();
    }

    /// Forgets the entries behind `last`, or all.
    pub(crate) fn truncate_after(&mut self, last: Option<u64>) {
        let keep = match last {
            None => 0,
            Some(last) => last.saturating_add(1).saturating_sub(self.first),
        };
        while self.slots.len() as u64 > keep {
            let slot = self.slots.pop_back();
            self.forget(slot);
        }
        self.evicted = self.evicted.min(self.slots.len());
    }

    /// Forgets the entries up to `upto`.
    pub(crate) fn purge(&mut self, upto: Position) {
        while self.first().is_some_and(|first| first <= upto.index) {
            let slot = self.slots.pop_front();
            self.forget(slot);
            self.first += 1;
            self.evicted = self.evicted.saturating_sub(1);
        }
        self.purged = self.purged.max(Some(upto));
    }

    /// The entries of `range` that are held, in order.
    pub(crate) fn locate(&self, range: Range<u64>) -> Vec<Located> {
        let start = range.start.max(self.first);
        (start..range.end)
            .map_while(|index| {
                let slot = self.slots.get(self.slot(index)?)?;
                let position = Position { term: slot.term, index };
                Some(match (&slot.payload, slot.place) {
                    (Some(payload), _) => {
                        Located::Here(Record { kind: slot.kind, position, payload: payload.clone() })
                    }
                    (None, place) => {
                        Located::OnDisk { kind: slot.kind, position, place: place?, length: slot.length }
                    }
                })
            })
            .collect()
    }

    fn slot(&self, index: u64) -> Option<usize> {
        usize::try_from(index.checked_sub(self.first)?).ok()
    }

    fn forget(&mut self, slot: Option<Slot>) {
        if let Some(payload) = slot.and_then(|slot| slot.payload) {
            self.cached -= payload.len();
        }
    }

    fn evict(&mut self) {
        while self.cached > self.cache_limit {
            let Some(slot) = self.slots.get_mut(self.evicted).filter(|s| s.place.is_some()) else {
                break;
            };
            if let Some(payload) = slot.payload.take() {
                self.cached -= payload.len();
            }
            self.evicted += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(index: u64) -> Record {
        Record { kind: Kind::Command, position: Position { term: 1, index }, payload: vec![0; 10].into() }
    }

    fn place(index: u64) -> Place {
        Place { sequence: 1, offset: usize::try_from(index).unwrap() * 100 }
    }

    #[test]
    fn old_entries_leave_memory_once_they_are_durable() {
        let mut index = Index::new(25);
        for i in 1..=5 {
            assert!(index.push(&entry(i), None));
        }
        assert!(index.locate(0..9).iter().all(|e| matches!(e, Located::Here(_))));
        for i in 1..=5 {
            index.place(entry(i).position, place(i));
        }
        let here = index.locate(0..9).iter().filter(|e| matches!(e, Located::Here(_))).count();
        assert_eq!((here, index.locate(0..9).len()), (2, 5));
    }

    #[test]
    fn a_gap_is_refused() {
        let mut index = Index::new(100);
        assert!(index.push(&entry(4), None));
        assert!(!index.push(&entry(6), None));
        assert!(!index.push(&entry(4), None));
    }

    #[test]
    fn a_purge_beyond_the_end_moves_the_log_there() {
        let mut index = Index::new(100);
        index.push(&entry(1), None);
        index.purge(Position { term: 1, index: 9 });
        assert_eq!(index.last(), Some(Position { term: 1, index: 9 }));
        assert!(index.push(&entry(10), None));
        assert_eq!(index.locate(0..20).len(), 1);
    }
}
