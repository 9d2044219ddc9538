//! Which keys are live, and in which slots.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use foldhash::fast::RandomState;

use super::super::{Slot, StreamId};

/// Numbers below this are taken for dense whatever else there is.
const SURELY_DENSE: u64 = 1 << 10;
/// Marks a number that is not live.
const NONE: Slot = Slot::MAX;

/// What is known of a live allocation.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Held {
    pub stream: StreamId,
    pub bytes: u64,
}

/// Live allocations by their keys.
///
/// Files that number their allocations have keys of about as many values as there are
/// requests: these index a table. All others, as addresses are, lie in a map.
#[derive(Debug, Default)]
pub(super) struct Live {
    dense: Vec<Slot>,
    sparse: HashMap<u64, Slot, RandomState>,
    /// By slot.
    held: Vec<Held>,
}

impl Live {
    /// The slot of a live key.
    #[inline(always)]
    pub fn slot(&self, key: u64) -> Option<Slot> {
        match self.dense.get(key as usize) {
            Some(&NONE) | None if self.sparse.is_empty() => None,
            Some(&NONE) | None => self.sparse.get(&key).copied(),
            Some(&slot) => Some(slot),
        }
    }

    /// What is known of a slot that is, or was the last to be, live.
    #[inline(always)]
    pub fn held(&self, slot: Slot) -> Held {
        self.held[slot as usize]
    }

    /// Gives `key`, one of so many `requests`, the slot that `fresh` answers; none where it
    /// is live already.
    #[inline(always)]
    pub fn insert(
        &mut self,
        key: u64,
        requests: usize,
        held: Held,
        fresh: impl FnOnce() -> Slot,
    ) -> Option<Slot> {
        if key >= self.dense.len() as u64 && key < SURELY_DENSE.max(2 * requests as u64) {
            self.grow(key);
        }
        let slot = match self.dense.get_mut(key as usize) {
            Some(place) => {
                if *place != NONE || (!self.sparse.is_empty() && self.sparse.contains_key(&key)) {
                    return None;
                }
                *place = fresh();
                *place
            }
            None => match self.sparse.entry(key) {
                Entry::Occupied(_) => return None,
                Entry::Vacant(place) => *place.insert(fresh()),
            },
        };
        match self.held.get_mut(slot as usize) {
            Some(place) => *place = held,
            // Slots are handed out one by one.
            None => self.held.push(held),
        }
        Some(slot)
    }

    /// Makes room for `key` in the table, and for as many again.
    #[cold]
    fn grow(&mut self, key: u64) {
        let len = key as usize + 1;
        self.dense
            .resize(len.next_power_of_two().max(SURELY_DENSE as usize), NONE);
    }

    /// The key is no longer live; what its slot was.
    #[inline(always)]
    pub fn remove(&mut self, key: u64) -> Option<Slot> {
        if let Some(place) = self.dense.get_mut(key as usize)
            && *place != NONE
        {
            return Some(std::mem::replace(place, NONE));
        }
        if self.sparse.is_empty() {
            return None;
        }
        self.sparse.remove(&key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_live_once_wherever_it_lies() {
        let mut live = Live::default();
        let held = |bytes| Held { stream: 0, bytes };
        // Too large for the table at first, and then not: it stays where it is.
        assert_eq!(live.insert(5000, 1, held(1), || 0), Some(0));
        assert_eq!(live.insert(7, 2, held(2), || 1), Some(1));
        assert_eq!(live.insert(6000, 4000, held(3), || 2), Some(2));
        for key in [5000, 7, 6000] {
            assert_eq!(live.insert(key, 4000, held(9), || unreachable!()), None);
        }
        assert_eq!(live.slot(5000), Some(0));
        assert_eq!(live.held(2).bytes, 3);
        assert_eq!(live.remove(5000), Some(0));
        assert_eq!(live.remove(5000), None);
        assert_eq!(live.slot(5000), None);
        assert_eq!(live.insert(5000, 4000, held(4), || 0), Some(0));
        assert_eq!(live.held(0).bytes, 4);
        assert_eq!(live.remove(u64::MAX), None);
    }
}
