//! What was converted, as long as there is room for it: what nobody asked for longest goes first, roughly.

use std::collections::BTreeMap;

use serde_json::Value;

/// Bytes of each of the two generations, as JSON.
const GENERATION: usize = 16 * 1024 * 1024;

/// Uid and resource version of an object, and the version it was converted to.
pub(super) type Key = (String, String, String);

/// Two generations: a full young one becomes the old one, of which whatever is asked for becomes young again.
#[derive(Default)]
pub(super) struct Memory {
    young: BTreeMap<Key, (Value, usize)>,
    old: BTreeMap<Key, (Value, usize)>,
    /// Of the young ones.
    bytes: usize,
}

impl Memory {
    pub(super) fn get(&mut self, key: &Key) -> Option<Value> {
        if let Some((value, _)) = self.young.get(key) {
            return Some(value.clone());
        }
        let (value, size) = self.old.remove(key)?;
        let found = value.clone();
        self.put(key.clone(), value, size);
        Some(found)
    }

    pub(super) fn insert(&mut self, key: Key, value: &Value) {
        self.put(key, value.clone(), value.to_string().len());
    }

    fn put(&mut self, key: Key, value: Value, size: usize) {
        if self.bytes + size > GENERATION {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
        self.bytes += size;
        if let Some((_, before)) = self.young.insert(key, (value, size)) {
            self.bytes -= before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_stays_and_the_rest_makes_room() {
        let mut memory = Memory::default();
        let key = |n: usize| (format!("{n:05}"), "1".to_owned(), "v1".to_owned());
        let large = Value::from("x".repeat(1024 * 1024));
        for n in 0..100 {
            memory.insert(key(n), &large);
            assert_eq!(memory.get(&key(0)).as_ref(), Some(&large), "{n}");
        }
        assert!(memory.young.len() + memory.old.len() <= 32);
        assert!(memory.get(&key(1)).is_none());
        assert!(memory.get(&key(99)).is_some());
    }
}
