//! Places under decision: which address of which Service is on which node, and why.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::claims::{Claim, Listed};
use super::endpoints::Endpoints;
use super::facts::ServiceFact;
use super::marks::Slot;
use super::memory::SeatKey;
use super::quota::Shares;
use super::refusal::Refusal;

/// Why an address is where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Why {
    /// It was there.
    Kept,
    /// Nothing is decided while the network or the configuration cannot be used.
    Frozen,
    /// Its node has only terminating endpoints; it goes at this time unless they go before, or with no other node never.
    Leaving(Option<Timestamp>),
    /// Its node cannot serve it for this reason, and no other node could.
    Stuck(String),
    /// There is no endpoint at all; it is given up at this time.
    Bare(Timestamp),
    /// It had no place.
    Assigned,
    /// It was on another node.
    Moved { from: String, cause: String },
}

/// A place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) node: String,
    pub(crate) index: Option<u32>,
    pub(crate) slot: Option<Slot>,
    pub(crate) why: Why,
}

/// One address of one Service.
#[derive(Debug, Clone)]
pub(crate) struct Seat<'a> {
    pub(crate) text: String,
    pub(crate) claim: Option<Claim<'a>>,
    /// Where it was given up in this decision and why, when it had a place.
    pub(crate) left: Option<(String, String)>,
    /// Where it was: index and slot to prefer when it is placed again.
    pub(crate) before: Option<(u32, Slot)>,
    pub(crate) outcome: Result<Place, Refusal>,
}

impl Seat<'_> {
    /// The node it is on.
    pub(crate) fn node(&self) -> Option<&str> {
        self.outcome.as_ref().ok().map(|place| place.node.as_str())
    }
}

/// One Service.
#[derive(Debug, Clone)]
pub(crate) struct Table<'a> {
    pub(crate) fact: &'a ServiceFact,
    pub(crate) endpoints: Endpoints,
    pub(crate) shares: Shares,
    pub(crate) seats: Vec<Seat<'a>>,
}

impl<'a> Table<'a> {
    pub(crate) fn new(fact: &'a ServiceFact, endpoints: Endpoints, listed: Vec<Listed<'a>>) -> Self {
        let seats = listed.into_iter().map(|listed| Seat {
            text: listed.text,
            left: None,
            before: None,
            outcome: Err(match &listed.claim {
                Ok(_) => Refusal::NoReadyEndpoint(endpoints.nowhere),
                Err(refusal) => refusal.clone(),
            }),
            claim: listed.claim.ok(),
        });
        Self { fact, seats: seats.collect(), endpoints, shares: Shares::default() }
    }

    /// How many of its addresses a node has.
    pub(crate) fn count(&self, node: &str) -> u64 {
        self.seats.iter().filter(|seat| seat.node() == Some(node)).count() as u64
    }

    /// The key of an address.
    pub(crate) fn key(&self, claim: &Claim<'_>) -> SeatKey {
        (self.fact.key.clone(), claim.ip)
    }
}

/// How many VIPs each node has, of all Services and of others.
#[derive(Debug, Clone, Default)]
pub(crate) struct Totals(BTreeMap<String, u64>);

impl Totals {
    pub(crate) fn add(&mut self, node: &str) {
        *self.0.entry(node.to_owned()).or_default() += 1;
    }

    pub(crate) fn remove(&mut self, node: &str) {
        if let Some(count) = self.0.get_mut(node) {
            *count = count.saturating_sub(1);
        }
    }

    pub(crate) fn of(&self, node: &str) -> u64 {
        self.0.get(node).copied().unwrap_or(0)
    }
}
