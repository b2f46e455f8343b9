//! Moves that bring nodes closer to their shares. A move pays when it lowers the sum of the squared distances, which is
//! when the two nodes are more than one whole address apart; so moves come to an end, and then nothing moves.

use std::collections::BTreeMap;

use super::quota::Shares;

/// An address that may move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Movable<'a> {
    /// Its position in the Service's list.
    pub(crate) seat: usize,
    /// Its index; of several the highest moves first.
    pub(crate) index: u32,
    /// Where it is.
    pub(crate) node: &'a str,
}

/// A move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) seat: usize,
    pub(crate) from: String,
    pub(crate) to: String,
}

/// The moves that are wanted. `counts` holds how many addresses of the Service each node has, movable or not; `takes`
/// says whether a node may have this address when it has so many of the Service's and has been given so many moves.
pub(crate) fn moves(
    shares: &Shares,
    counts: &BTreeMap<String, u64>,
    movable: &[Movable<'_>],
    takes: impl Fn(usize, &str, u64, u64) -> bool,
) -> Vec<Move> {
    let mut counts = counts.clone();
    for node in shares.nodes() {
        counts.entry(node.clone()).or_default();
    }
    let mut given: BTreeMap<String, u64> = BTreeMap::new();
    let mut rest: Vec<&Movable<'_>> = movable.iter().collect();
    rest.sort_by_key(|movable| (std::cmp::Reverse(movable.index), movable.seat));
    let mut moves = Vec::new();
    while let Some((position, to)) = next(shares, &counts, &given, &rest, &takes) {
        let movable = rest.remove(position);
        if let Some(count) = counts.get_mut(movable.node) {
            *count = count.saturating_sub(1);
        }
        *counts.entry(to.clone()).or_default() += 1;
        *given.entry(to.clone()).or_default() += 1;
        moves.push(Move { seat: movable.seat, from: movable.node.to_owned(), to });
    }
    moves
}

fn next(
    shares: &Shares,
    counts: &BTreeMap<String, u64>,
    given: &BTreeMap<String, u64>,
    rest: &[&Movable<'_>],
    takes: &impl Fn(usize, &str, u64, u64) -> bool,
) -> Option<(usize, String)> {
    let mut donors: Vec<(&String, i128)> =
        counts.iter().map(|(node, &count)| (node, shares.surplus(node, count))).collect();
    donors.sort_by_key(|&(node, surplus)| (std::cmp::Reverse(surplus), node));
    let mut receivers: Vec<&String> = shares.nodes().filter(|node| shares.endpoints(node) > 0).collect();
    let count = |node: &String| counts.get(node).copied().unwrap_or(0);
    receivers.sort_by_key(|node| shares.need(node, count(node)));
    for (donor, surplus) in donors {
        for &receiver in &receivers {
            if surplus - shares.surplus(receiver, count(receiver)) <= shares.whole() {
                break;
            }
            let before = given.get(receiver).copied().unwrap_or(0);
            let found = rest.iter().position(|movable| {
                movable.node == donor && takes(movable.seat, receiver, count(receiver), before)
            });
            if let Some(position) = found {
                return Some((position, receiver.clone()));
            }
        }
    }
    None
}
