//! The slots of configurations as they are documented.

use super::*;

fn slots(mark: u32, mask: u32) -> Slots {
    Slots::new(mark, mask, 20_001, 20_001, &BTreeSet::new()).unwrap()
}

fn marks(mark: u32, mask: u32, count: u64) -> Vec<u32> {
    let slots = slots(mark, mask);
    (0..slots.marks().min(count)).map(|position| slots.mark(position).unwrap()).collect()
}

#[test]
fn marks_are_the_mask_s_values_from_the_first_on() {
    assert_eq!(marks(0x01, 0x7f, 127), (1..=127).collect::<Vec<_>>());
    assert_eq!(marks(0x10, 0xf0, 127), (1..=15).map(|value| value << 4).collect::<Vec<_>>());
    assert_eq!(marks(0x01, 0x8001, 127), [0x1, 0x8000, 0x8001]);
    assert_eq!(marks(0x03, 0x07, 127), [3, 4, 5, 6, 7, 1, 2]);
    assert_eq!(marks(0x8000_0000, 0x8000_0000, 127), [0x8000_0000]);
    assert_eq!(marks(0x01, 0x7f, 3), [1, 2, 3]);
    assert_eq!(slots(1, u32::MAX).marks(), u64::from(u32::MAX));
}

#[test]
fn a_mark_outside_its_mask_has_no_slots() {
    for (mark, mask) in [(0x01, 0xf0), (0x00, 0x7f), (0x01, 0x00)] {
        assert_eq!(Slots::new(mark, mask, 1, 1, &BTreeSet::new()), None);
    }
}

#[test]
fn mark_table_and_priority_go_together() {
    let slots = slots(1, 0x7f);
    assert_eq!(slots.slot(0), Some(Slot { mark: 1, table: 20_001, priority: 20_001 }));
    assert_eq!(slots.slot(1), Some(Slot { mark: 2, table: 20_002, priority: 20_002 }));
    assert_eq!(slots.slot(127), None);
}

#[test]
fn tables_of_the_kernel_and_of_gateways_are_left_out() {
    let tables = |table: u32, gateways: &[u32], count: u64| {
        let slots = Slots::new(1, 0x7f, table, 100, &gateways.iter().copied().collect()).unwrap();
        (0..count).map(|position| slots.table(position).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(tables(198, &[200], 4), [198, 199, 201, 202]);
    assert_eq!(tables(252, &[], 3), [252, 256, 257]);
    assert_eq!(tables(254, &[256, 257, 10], 2), [258, 259]);
    let last = Slots::new(1, 0x7f, u32::MAX, 100, &BTreeSet::new()).unwrap();
    assert_eq!((last.table(0), last.table(1), last.capacity()), (Some(u32::MAX), None, 1));
}

#[test]
fn priorities_end_before_the_main_table() {
    let slots = Slots::new(1, 0x7f, 20_001, 32_760, &BTreeSet::new()).unwrap();
    assert_eq!((slots.priorities(), slots.capacity()), (6, 6));
    assert_eq!(slots.priority(5), Some(32_765));
    assert_eq!(slots.priority(6), None);
}

#[test]
fn a_slot_is_the_old_one_else_free_everywhere_else_free_here() {
    let slots = slots(1, 0x3);
    let [one, two, three] = [0, 1, 2].map(|position| slots.slot(position).unwrap());
    let mut ledger = Ledger::default();
    assert_eq!(ledger.give(&slots, "a", None), Some(one));
    assert_eq!(ledger.give(&slots, "b", None), Some(two));
    assert_eq!(ledger.give(&slots, "b", Some(one)), Some(one));
    assert_eq!(ledger.give(&slots, "c", None), Some(three));
    assert_eq!(ledger.give(&slots, "c", None), Some(one));
    assert_eq!(ledger.give(&slots, "c", None), Some(two));
    assert_eq!(ledger.give(&slots, "c", None), None);
}

#[test]
fn a_slot_used_on_the_node_is_not_given_again() {
    let slots = slots(1, 0x3);
    let mut ledger = Ledger::default();
    let mixed = Slot { mark: 1, table: 20_002, priority: 20_003 };
    assert!(slots.allows(mixed));
    assert!(ledger.take("a", mixed));
    assert!(!ledger.take("a", slots.slot(0).unwrap()));
    assert_eq!(ledger.give(&slots, "a", None), Some(Slot { mark: 2, table: 20_001, priority: 20_001 }));
    assert_eq!(ledger.give(&slots, "a", None), Some(Slot { mark: 3, table: 20_003, priority: 20_002 }));
    assert_eq!(ledger.give(&slots, "a", None), None);
}
