//! Packet marks, route tables and rule priorities: numbered slots, each used once on a node.

use std::collections::{BTreeMap, BTreeSet};

/// What one VIP uses on its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot {
    /// The packet mark.
    pub(crate) mark: u32,
    /// The route table.
    pub(crate) table: u32,
    /// The priority of the policy rule.
    pub(crate) priority: u32,
}

/// The first and the last route table that the kernel has for itself.
const KERNEL_TABLES: std::ops::RangeInclusive<u32> = 253..=255;

/// The last priority before the rule of the main table (32766).
pub(crate) const LAST_PRIORITY: u32 = 32_765;

/// All slots of a configuration, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Slots {
    mask: u32,
    /// The position of the first mark among the mask's values, from 0.
    first: u64,
    /// How many values the mask has.
    marks: u64,
    table: u32,
    /// Tables that are not ours, in order, from `table` on.
    taken_tables: Vec<u32>,
    tables: u64,
    priority: u32,
    priorities: u64,
}

impl Slots {
    /// The slots of a mark within a mask; none when the mark is 0 or has other bits.
    pub(crate) fn new(
        mark: u32,
        mask: u32,
        table: u32,
        priority: u32,
        gateway_tables: &BTreeSet<u32>,
    ) -> Option<Self> {
        if mark == 0 || mark & !mask != 0 {
            return None;
        }
        let taken: BTreeSet<u32> =
            gateway_tables.iter().copied().chain(KERNEL_TABLES).filter(|&taken| taken >= table).collect();
        let room = u64::from(u32::MAX) - u64::from(table) + 1;
        Some(Self {
            mask,
            first: u64::from(extract(mark, mask)) - 1,
            marks: (1_u64 << mask.count_ones()) - 1,
            table,
            tables: room - taken.len() as u64,
            taken_tables: taken.into_iter().collect(),
            priority,
            priorities: (u64::from(LAST_PRIORITY) + 1).saturating_sub(u64::from(priority)),
        })
    }

    /// How many values the mask has.
    pub(crate) fn marks(&self) -> u64 {
        self.marks
    }

    /// How many priorities there are before the main table's.
    pub(crate) fn priorities(&self) -> u64 {
        self.priorities
    }

    /// How many tables there are.
    pub(crate) fn tables(&self) -> u64 {
        self.tables
    }

    /// How many VIPs fit on a node.
    pub(crate) fn capacity(&self) -> u64 {
        self.marks.min(self.tables).min(self.priorities)
    }

    /// The mark, table and priority of a position below [`capacity`](Self::capacity).
    pub(crate) fn slot(&self, position: u64) -> Option<Slot> {
        (position < self.capacity())
            .then(|| {
                Some(Slot {
                    mark: self.mark(position)?,
                    table: self.table(position)?,
                    priority: self.priority(position)?,
                })
            })
            .flatten()
    }

    fn mark(&self, position: u64) -> Option<u32> {
        let value = (self.first + position) % self.marks + 1;
        (position < self.marks).then(|| deposit(value, self.mask))
    }

    fn table(&self, position: u64) -> Option<u32> {
        let mut table = u64::from(self.table) + position;
        for &taken in &self.taken_tables {
            if u64::from(taken) <= table {
                table += 1;
            }
        }
        u32::try_from(table).ok()
    }

    fn priority(&self, position: u64) -> Option<u32> {
        (position < self.priorities)
            .then(|| u32::try_from(u64::from(self.priority) + position).ok())
            .flatten()
    }

    /// Whether each part of a slot is one that this configuration could give.
    pub(crate) fn allows(&self, slot: Slot) -> bool {
        slot.mark != 0
            && slot.mark & !self.mask == 0
            && slot.table >= self.table
            && self.table(self.capacity().saturating_sub(1)).is_none_or(|last| slot.table <= last)
            && self.taken_tables.binary_search(&slot.table).is_err()
            && slot.priority >= self.priority
            && u64::from(slot.priority - self.priority) < self.capacity()
    }
}

/// The bits of `value` at the mask's places, pushed together.
fn extract(value: u32, mask: u32) -> u32 {
    let places = (0..u32::BITS).filter(|bit| mask >> bit & 1 == 1);
    places.enumerate().fold(0, |all, (place, bit)| all | (value >> bit & 1) << place)
}

/// The bits of `value` spread over the mask's places, lowest first.
fn deposit(value: u64, mask: u32) -> u32 {
    let places = (0..u32::BITS).filter(|bit| mask >> bit & 1 == 1);
    places.enumerate().fold(0, |all, (place, bit)| if value >> place & 1 == 1 { all | 1 << bit } else { all })
}

#[derive(Debug, Default)]
struct Used {
    marks: BTreeSet<u32>,
    tables: BTreeSet<u32>,
    priorities: BTreeSet<u32>,
}

impl Used {
    fn free(&self, slot: Slot) -> bool {
        !self.marks.contains(&slot.mark)
            && !self.tables.contains(&slot.table)
            && !self.priorities.contains(&slot.priority)
    }

    fn add(&mut self, slot: Slot) {
        self.marks.insert(slot.mark);
        self.tables.insert(slot.table);
        self.priorities.insert(slot.priority);
    }
}

/// Which slots are used where.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    nodes: BTreeMap<String, Used>,
    anywhere: Used,
}

impl Ledger {
    /// Writes down a slot; false, and nothing written, when a part of it is used on the node.
    pub(crate) fn take(&mut self, node: &str, slot: Slot) -> bool {
        let used = self.nodes.entry(node.to_owned()).or_default();
        if !used.free(slot) {
            return false;
        }
        used.add(slot);
        self.anywhere.add(slot);
        true
    }

    /// Gives a node's VIP a slot: the one it had elsewhere, the lowest that no node uses, the lowest this node does not
    /// use, or free parts of several.
    pub(crate) fn give(&mut self, slots: &Slots, node: &str, before: Option<Slot>) -> Option<Slot> {
        let used = self.nodes.entry(node.to_owned()).or_default();
        let before = before.filter(|&slot| slots.allows(slot) && used.free(slot));
        let slot = before
            .or_else(|| first(slots, |slot| self.anywhere.free(slot)))
            .or_else(|| first(slots, |slot| used.free(slot)))
            .or_else(|| parts(slots, used))?;
        used.add(slot);
        self.anywhere.add(slot);
        Some(slot)
    }
}

fn first(slots: &Slots, free: impl Fn(Slot) -> bool) -> Option<Slot> {
    (0..slots.capacity()).map_while(|position| slots.slot(position)).find(|&slot| free(slot))
}

/// The lowest free mark, table and priority, each for itself.
fn parts(slots: &Slots, used: &Used) -> Option<Slot> {
    let lowest = |value: &dyn Fn(u64) -> Option<u32>, used: &BTreeSet<u32>| {
        (0..).map_while(value).find(|part| !used.contains(part))
    };
    Some(Slot {
        mark: lowest(&|position| slots.mark(position), &used.marks)?,
        table: lowest(&|position| slots.table(position), &used.tables)?,
        priority: lowest(&|position| slots.priority(position), &used.priorities)?,
    })
}

#[cfg(test)]
mod tests;
