//! The outcomes that proposers have not acknowledged, so that a repeated proposal is
//! applied once.

use imbl::OrdMap;

use crate::outcome::Outcome;

/// Sessions remembered: one a start of a server, so this is the last 256 starts.
const SESSIONS: usize = 256;
/// Outcomes remembered in a session: more than a server keeps in flight.
const OUTCOMES: usize = 4096;

/// All sessions. A clone costs a reference count.
#[derive(Clone, Default)]
pub(crate) struct Sessions {
    pub(crate) by_id: OrdMap<u128, Session>,
    /// Counts remembered outcomes; orders sessions by their last use.
    pub(crate) clock: u64,
}

#[derive(Clone, Default)]
pub(crate) struct Session {
    /// Nothing up to this sequence is remembered or may be applied again.
    pub(crate) floor: u64,
    pub(crate) used: u64,
    pub(crate) outcomes: OrdMap<u64, Outcome>,
}

/// What is known of a proposal.
pub(crate) enum Recall {
    New,
    Known(Outcome),
    /// It was answered and acknowledged, or is too old to tell.
    Forgotten,
}

impl Sessions {
    pub(crate) fn recall(&self, session: u128, sequence: u64) -> Recall {
        if session == 0 {
            return Recall::New;
        }
        let Some(known) = self.by_id.get(&session) else {
            return Recall::New;
        };
        if sequence <= known.floor {
            return Recall::Forgotten;
        }
        known.outcomes.get(&sequence).map_or(Recall::New, |outcome| Recall::Known(outcome.clone()))
    }

    pub(crate) fn remember(&mut self, session: u128, sequence: u64, acknowledged: u64, outcome: &Outcome) {
        if session == 0 {
            return;
        }
        self.clock += 1;
        let known = self.by_id.entry(session).or_default();
        known.used = self.clock;
        known.outcomes.insert(sequence, outcome.clone());
        // A proposal cannot acknowledge itself or what comes after it.
        known.raise_floor(acknowledged.min(sequence.saturating_sub(1)));
        while known.outcomes.len() > OUTCOMES {
            let Some((oldest, _)) = known.outcomes.get_min() else {
                break;
            };
            let oldest = *oldest;
            known.raise_floor(oldest);
        }
        if self.by_id.len() > SESSIONS {
            let idle = self.by_id.iter().min_by_key(|(_, known)| known.used);
            if let Some(idle) = idle.map(|(id, _)| *id) {
                self.by_id.remove(&idle);
            }
        }
    }
}

impl Session {
    fn raise_floor(&mut self, floor: u64) {
        self.floor = self.floor.max(floor);
        while let Some((sequence, _)) = self.outcomes.get_min() {
            let sequence = *sequence;
            if sequence > self.floor {
                break;
            }
            self.outcomes.remove(&sequence);
        }
    }
}
