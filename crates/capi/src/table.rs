//! Open things by number. A number that was closed stays wrong for a long time, instead of naming the next thing.

use std::sync::Arc;

/// Things open at a time in one table: as many as one session of a server may have open.
pub(crate) const OPEN_MAX: usize = base::limits::SESSION_OPEN_FILES_MAX;
/// Every number has this bit: the system's own descriptors, which count from 0, stay far below.
const BASE: i32 = 1 << 30;
const SLOT_BITS: u32 = 12;
/// How often a slot is used before a number comes again.
const GENERATIONS: i32 = 1 << (30 - SLOT_BITS);

const _: () = assert!(OPEN_MAX <= 1 << SLOT_BITS);

/// Open things.
#[derive(Debug)]
pub(crate) struct Table<T> {
    slots: Vec<Slot<T>>,
    /// Slots without a thing.
    free: Vec<usize>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: i32,
    thing: Option<Arc<T>>,
}

impl<T> Table<T> {
    /// Nothing open.
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    /// Whether nothing more can be opened.
    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty() && self.slots.len() >= OPEN_MAX
    }

    /// Opens; returns its number, or nothing if the table is full.
    pub(crate) fn insert(&mut self, thing: T) -> Option<i32> {
        if self.is_full() {
            return None;
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, thing: None });
            self.slots.len() - 1
        });
        let slot = &mut self.slots[index];
        slot.thing = Some(Arc::new(thing));
        Some(BASE | slot.generation << SLOT_BITS | index as i32)
    }

    /// Returns the entry with this number.
    pub(crate) fn get(&self, number: i32) -> Option<Arc<T>> {
        self.slots.get(self.index(number)?)?.thing.clone()
    }

    /// Closes what has this number, and returns it.
    pub(crate) fn remove(&mut self, number: i32) -> Option<Arc<T>> {
        let index = self.index(number)?;
        let slot = &mut self.slots[index];
        let thing = slot.thing.take()?;
        slot.generation = (slot.generation + 1) % GENERATIONS;
        self.free.push(index);
        Some(thing)
    }

    fn index(&self, number: i32) -> Option<usize> {
        let index = (number & ((1 << SLOT_BITS) - 1)) as usize;
        let slot = self.slots.get(index)?;
        (number >= BASE && (number - BASE) >> SLOT_BITS == slot.generation).then_some(index)
    }

    /// Has `change` look at everything that is open; what it returns takes the old thing's place. The old thing is not
    /// dropped.
    pub(crate) fn supersede(&mut self, mut change: impl FnMut(&T) -> Option<T>) {
        for thing in self.slots.iter_mut().filter_map(|slot| slot.thing.as_mut()) {
            if let Some(new) = change(thing) {
                std::mem::forget(std::mem::replace(thing, Arc::new(new)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn the_table_is_bounded() {
        let mut table = Table::new();
        let numbers: Vec<_> = (0..OPEN_MAX).map(|value| table.insert(value).unwrap()).collect();
        assert!(table.is_full() && table.insert(0).is_none());
        assert_eq!(table.remove(numbers[9]).as_deref(), Some(&9));
        let again = table.insert(5).unwrap();
        assert_ne!(again, numbers[9]);
        assert!(table.get(numbers[9]).is_none() && table.remove(numbers[9]).is_none());
        assert_eq!(table.get(again).as_deref(), Some(&5));
    }

    #[test]
    fn numbers_of_others_name_nothing() {
        let mut table = Table::new();
        let number = table.insert(()).unwrap();
        assert!(number >= BASE);
        for other in
            [-1, 0, 1, 2, 3, i32::MIN, i32::MAX, number + 1, number ^ BASE, number + (1 << SLOT_BITS)]
        {
            assert!(table.get(other).is_none(), "{other}");
        }
    }

    #[test]
    fn a_slot_can_be_used_for_ever() {
        let mut table = Table::new();
        for _ in 0..GENERATIONS + 3 {
            let number = table.insert(()).unwrap();
            assert!(number >= BASE && table.remove(number).is_some());
        }
    }

    proptest! {
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((any::<bool>(), 0usize..8), 0..200)) {
            let (mut table, mut map, mut known) = (Table::new(), HashMap::new(), Vec::new());
            for (value, (is_insert, pick)) in steps.into_iter().enumerate() {
                if is_insert || known.is_empty() {
                    let number = table.insert(value).unwrap();
                    prop_assert!(map.insert(number, value).is_none());
                    known.push(number);
                } else {
                    let number = known[pick % known.len()];
                    prop_assert_eq!(table.remove(number).as_deref().copied(), map.remove(&number));
                }
                for number in &known {
                    prop_assert_eq!(table.get(*number).as_deref().copied(), map.get(number).copied());
                }
            }
        }
    }
}
