//! The changes that turn one table into another, in the order one transaction can take them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::text::elements;
use super::{Base, Chain, Part, Rule, Set, TABLE, Table, Value};

/// How many elements an interval map may lose one by one. Each costs the kernel time in proportion to the map (about
/// 4 ms at 10,000 elements, with every nftables user of the namespace waiting); a new map costs a fraction of it.
const REBUILD_ABOVE: usize = 10;

/// One change within a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Makes the table.
    AddTable,
    /// Removes it with all that is in it.
    DeleteTable,
    /// Makes an empty set or map of this shape.
    AddSet(String, Set),
    /// Removes a set that no rule uses any more.
    DeleteSet(String),
    /// Adds elements.
    AddElements(String, Set, BTreeMap<Vec<Part>, Value>),
    /// Removes elements.
    DeleteElements(String, Set, BTreeMap<Vec<Part>, Value>),
    /// Makes an empty chain.
    AddChain(String, Option<Base>),
    /// Removes an empty chain that nothing leads to any more.
    DeleteChain(String),
    /// Removes all rules of a chain.
    FlushChain(String),
    /// Adds a rule at the end of a chain.
    AddRule(String, Rule),
}

/// What turns `observed` into `desired`; nothing when they are equal.
pub fn changes(desired: Option<&Table>, observed: Option<&Table>) -> Vec<Change> {
    match (desired, observed) {
        (None, None) => Vec::new(),
        (None, Some(_)) => vec![Change::DeleteTable],
        (Some(desired), None) => whole(desired),
        (Some(desired), Some(observed)) if comparable(desired, observed) => update(desired, observed),
        (Some(desired), Some(_)) => std::iter::once(Change::DeleteTable).chain(whole(desired)).collect(),
    }
}

/// Whether the tables differ in nothing that has to be made anew.
fn comparable(desired: &Table, observed: &Table) -> bool {
    let sets = desired
        .sets
        .iter()
        .all(|(name, set)| observed.sets.get(name).is_none_or(|other| set.same_shape(other)));
    let chains = desired
        .chains
        .iter()
        .all(|(name, chain)| observed.chains.get(name).is_none_or(|other| chain.base == other.base));
    sets && chains
}

fn whole(desired: &Table) -> Vec<Change> {
    let mut list = vec![Change::AddTable];
    list.extend(update(desired, &Table::default()));
    list
}

fn update(desired: &Table, observed: &Table) -> Vec<Change> {
    let rebuilt = rebuilt_sets(desired, observed);
    // A set that goes, or is made anew, first has to be let go by its rules.
    let released = |rules: &[Rule]| rules.iter().filter_map(Rule::set).any(|set| rebuilt.contains(set));
    let empty = Chain::default();
    let rewritten: BTreeSet<&String> = desired
        .chains
        .iter()
        .filter(|(name, chain)| {
            let old = observed.chains.get(*name).unwrap_or(&empty);
            chain.rules != old.rules || released(&chain.rules)
        })
        .map(|(name, _)| name)
        .collect();

    let mut list = Vec::new();
    for (name, chain) in &desired.chains {
        if !observed.chains.contains_key(name) {
            list.push(Change::AddChain(name.clone(), chain.base));
        }
    }
    for (name, chain) in &observed.chains {
        let goes = !desired.chains.contains_key(name);
        if (goes || rewritten.contains(name)) && !chain.rules.is_empty() {
            list.push(Change::FlushChain(name.clone()));
        }
    }
    for (name, set) in &observed.sets {
        if rebuilt.contains(name.as_str()) || !desired.sets.contains_key(name) {
            list.push(Change::DeleteSet(name.clone()));
        } else if let Some(wanted) = desired.sets.get(name) {
            push_elements(
                &mut list,
                name,
                set,
                &missing(&set.elements, &wanted.elements),
                Change::DeleteElements,
            );
        }
    }
    for (name, set) in &desired.sets {
        let kept = observed.sets.get(name).filter(|_| !rebuilt.contains(name.as_str()));
        let shape = Set { elements: BTreeMap::new(), ..set.clone() };
        if kept.is_none() {
            list.push(Change::AddSet(name.clone(), shape));
        }
        let there = kept.map(|set| set.elements.clone()).unwrap_or_default();
        push_elements(&mut list, name, set, &missing(&set.elements, &there), Change::AddElements);
    }
    for (name, chain) in &desired.chains {
        if rewritten.contains(name) {
            list.extend(chain.rules.iter().map(|rule| Change::AddRule(name.clone(), rule.clone())));
        }
    }
    for name in observed.chains.keys() {
        if !desired.chains.contains_key(name) {
            list.push(Change::DeleteChain(name.clone()));
        }
    }
    list
}

/// Interval maps over several columns that lose so many elements that a new map is the faster way.
fn rebuilt_sets<'a>(desired: &'a Table, observed: &Table) -> BTreeSet<&'a str> {
    let slow = |set: &Set| set.interval && set.key.len() > 1;
    desired
        .sets
        .iter()
        .filter(|(name, set)| {
            slow(set)
                && observed
                    .sets
                    .get(*name)
                    .is_some_and(|old| missing(&old.elements, &set.elements).len() > REBUILD_ABOVE)
        })
        .map(|(name, _)| name.as_str())
        .collect()
}

/// What `from` has and `other` has not, or has with another value.
fn missing(
    from: &BTreeMap<Vec<Part>, Value>,
    other: &BTreeMap<Vec<Part>, Value>,
) -> BTreeMap<Vec<Part>, Value> {
    from.iter()
        .filter(|&(key, value)| other.get(key) != Some(value))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn push_elements(
    list: &mut Vec<Change>,
    name: &str,
    set: &Set,
    elements: &BTreeMap<Vec<Part>, Value>,
    change: fn(String, Set, BTreeMap<Vec<Part>, Value>) -> Change,
) {
    if !elements.is_empty() {
        let shape = Set { elements: BTreeMap::new(), ..set.clone() };
        list.push(change(name.to_owned(), shape, elements.clone()));
    }
}

/// As a line for `nft -f`.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddTable => write!(f, "add table inet {TABLE}"),
            Self::DeleteTable => write!(f, "delete table inet {TABLE}"),
            Self::AddSet(name, set) => {
                write!(f, "add {} inet {TABLE} {name} {{ {}; }}", set.word(), set.declaration())
            }
            Self::DeleteSet(name) => write!(f, "delete set inet {TABLE} {name}"),
            Self::AddElements(name, _, added) => {
                write!(f, "add element inet {TABLE} {name} {{ {} }}", elements(added.iter(), ", "))
            }
            Self::DeleteElements(name, _, deleted) => {
                write!(f, "delete element inet {TABLE} {name} {{ {} }}", elements(deleted.iter(), ", "))
            }
            Self::AddChain(name, None) => write!(f, "add chain inet {TABLE} {name}"),
            Self::AddChain(name, Some(base)) => write!(f, "add chain inet {TABLE} {name} {{ {base} }}"),
            Self::DeleteChain(name) => write!(f, "delete chain inet {TABLE} {name}"),
            Self::FlushChain(name) => write!(f, "flush chain inet {TABLE} {name}"),
            Self::AddRule(chain, rule) => write!(f, "add rule inet {TABLE} {chain} {rule}"),
        }
    }
}
