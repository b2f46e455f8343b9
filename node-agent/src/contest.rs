//! Which addresses others on the network have or say they have (RFC 5227). Pure: times are arguments.
//!
//! An address is asked for before it is added, for less time than the RFC has: on the segments VIPs are on, who is there
//! answers within milliseconds. Whoever answers later, as long as the RFC waits, still has it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use litek8s_plan::{Contest, Mac};
use tokio::time::Instant;

/// An address on the interface of that number.
pub(crate) type Place = (u32, IpAddr);

/// How long the first answer is waited for before an address is used.
const FIRST: Duration = Duration::from_millis(40);
/// How long an answer still counts: as long as the RFC asks and waits (section 2.1.1).
const WHOLE: Duration = Duration::from_secs(2);
/// For how long an address that nobody had counts as free.
const FREE: Duration = Duration::from_secs(10);
/// The pause until somebody who has an address is asked again; doubled up to the longest.
const PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How long a claim is looked at before it is answered: the API may be about to say that the address moved.
const HOLD_BACK: Duration = Duration::from_secs(1);
/// At most once in this time an address is defended (RFC 5227, section 2.4, `DEFEND_INTERVAL`).
const DEFEND: Duration = Duration::from_secs(10);
/// How long a claim is told of.
const TELL: Duration = Duration::from_secs(60);
/// How long a node that was asked to let go of an address is not taken for somebody else.
const HAND_OVER: Duration = Duration::from_secs(30);

/// What is known.
#[derive(Debug, Default)]
pub(crate) struct Contests {
    /// When an address was asked for last.
    asked: BTreeMap<Place, Instant>,
    held: BTreeMap<Place, Held>,
    claims: BTreeMap<Place, Claim>,
    /// Addresses that another node is letting go of: its hardware address there, and when it was heard of last.
    leaving: BTreeMap<IpAddr, (Option<Mac>, Instant)>,
}

/// Somebody has an address that we do not have.
#[derive(Debug, Clone, Copy)]
struct Held {
    mac: Mac,
    heard: Instant,
    again: Instant,
    pause: Duration,
}

/// Somebody says he has an address that we have.
#[derive(Debug, Clone, Copy)]
struct Claim {
    mac: Mac,
    heard: Instant,
    defend: Option<Instant>,
    defended: Option<Instant>,
}

impl Contests {
    /// What stands against an address, and whether to ask for it now. One that is in place is not asked for. One that
    /// another node is asked to let go of was in good use until now: it is used while the answer is waited for, as RFC
    /// 4429 has it, so that nobody misses it meanwhile.
    pub(crate) fn judge(&mut self, place: Place, in_place: bool, now: Instant) -> (Option<Contest>, bool) {
        let asked = self.asked.get(&place).copied();
        if let Some(held) = self.held.get(&place).copied() {
            let silent = asked.filter(|asked| *asked > held.heard).is_some_and(|asked| now >= asked + WHOLE);
            if !silent {
                let ask = now >= held.again && asked.is_none_or(|asked| asked < held.again);
                if ask {
                    self.asked.insert(place, now);
                }
                return (Some(Contest::Held(held.mac)), ask);
            }
            self.held.remove(&place);
        }
        if in_place {
            return (self.claims.get(&place).map(|claim| Contest::Claimed(claim.mac)), false);
        }
        let ask = asked.is_none_or(|asked| now >= asked + FREE);
        let asked = if ask { now } else { asked.unwrap_or(now) };
        self.asked.insert(place, asked);
        let wait = now < asked + FIRST && !self.leaving.contains_key(&place.1);
        (wait.then_some(Contest::Asking), ask)
    }

    /// Another node is asked to let go of an address that it has with this hardware address.
    pub(crate) fn leaves(&mut self, address: IpAddr, mac: Option<Mac>, now: Instant) {
        let before = self.leaving.get(&address).and_then(|(mac, _)| *mac);
        self.leaving.insert(address, (mac.or(before), now));
    }

    /// Whose claims to an address do not count.
    pub(crate) fn leaver(&self, address: IpAddr) -> Option<Mac> {
        self.leaving.get(&address).and_then(|(mac, _)| *mac)
    }

    /// Somebody says that he has an address.
    pub(crate) fn claimed(&mut self, place: Place, mac: Mac, now: Instant) {
        let asked = self.asked.get(&place).copied();
        if let Some(held) = self.held.get_mut(&place) {
            if asked.is_some_and(|asked| asked > held.heard) {
                held.pause = (held.pause * 2).min(LONGEST_PAUSE);
                held.again = now + held.pause;
            }
            (held.mac, held.heard) = (mac, now);
        } else if asked.is_some_and(|asked| now < asked + WHOLE) {
            self.claims.remove(&place);
            self.held.insert(place, Held { mac, heard: now, again: now + PAUSE, pause: PAUSE });
        } else {
            let claim =
                self.claims.entry(place).or_insert(Claim { mac, heard: now, defend: None, defended: None });
            (claim.mac, claim.heard) = (mac, now);
            if claim.defended.is_none_or(|defended| now >= defended + DEFEND) {
                claim.defend.get_or_insert(now + HOLD_BACK);
            }
        }
    }

    /// The addresses to defend now.
    pub(crate) fn defences(&mut self, now: Instant) -> BTreeSet<Place> {
        let due = self.claims.iter_mut().filter(|(_, claim)| claim.defend.is_some_and(|at| now >= at));
        due.map(|(place, claim)| {
            (claim.defend, claim.defended) = (None, Some(now));
            *place
        })
        .collect()
    }

    /// Forgets every address but these, and what is long ago.
    pub(crate) fn keep(&mut self, places: &BTreeSet<Place>, now: Instant) {
        self.asked.retain(|place, _| places.contains(place));
        self.held.retain(|place, _| places.contains(place));
        self.claims.retain(|place, claim| places.contains(place) && now < claim.heard + TELL);
        self.leaving.retain(|_, (_, heard)| now < *heard + HAND_OVER);
    }

    /// When to look again.
    pub(crate) fn next(&self, now: Instant) -> Option<Instant> {
        let asked = self.asked.iter().flat_map(|(place, asked)| {
            let whole = self.held.contains_key(place).then_some(*asked + WHOLE);
            [Some(*asked + FIRST), whole].into_iter().flatten()
        });
        let held = self.held.values().map(|held| held.again);
        let claims = self
            .claims
            .values()
            .flat_map(|claim| [claim.defend, Some(claim.heard + TELL)].into_iter().flatten());
        asked.chain(held).chain(claims).filter(|at| *at > now).min()
    }
}

#[cfg(test)]
mod tests;
