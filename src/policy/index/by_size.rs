//! Free blocks ordered by bytes, then by address.

use super::Entry;
use super::bins::Bins;
use super::few::{FEW, Few};

/// The bins go back into the list once no more than so many are left.
const BACK: usize = FEW / 4;

/// An exact index by size: a sorted list while there are few entries, else log-linear bins under a
/// two-level bitmap, each bin in order.
///
/// Every operation takes logarithmic time in the entries of one bin, also where all have one size.
pub struct BySize {
    /// The entries in order, while they are few; the bins are empty then.
    few: Few,
    /// The entries are in the bins; the list is empty then.
    spread: bool,
    bins: Bins,
    total_bytes: u64,
}

impl Default for BySize {
    fn default() -> Self {
        Self::new()
    }
}

impl BySize {
    /// An index without entries.
    pub fn new() -> Self {
        BySize {
            few: Few::new(),
            spread: false,
            bins: Bins::new(),
            total_bytes: 0,
        }
    }

    /// Adds a block.
    ///
    /// # Panics
    /// If a block of these bytes at this address is there already, or if all bytes together exceed a
    /// `u64`: free blocks lie in one address space and do not overlap.
    #[inline]
    pub fn insert(&mut self, bytes: u64, address: u64, block: u32) {
        let new = Entry {
            address,
            bytes,
            block,
        };
        if !self.spread && self.few.is_full() {
            self.spread();
        }
        if self.spread {
            self.bins.insert(new);
        } else {
            let at = self.few.lower(bytes, address);
            assert!(
                !self.few.is_at(at, bytes, address),
                "a block of {bytes} bytes at {address} is there already"
            );
            self.few.insert(at, new);
        }
        let total_bytes = self.total_bytes.checked_add(bytes);
        self.total_bytes = total_bytes.expect("free blocks exceed the address space");
    }

    /// Puts the entries of the list into the bins.
    #[cold]
    fn spread(&mut self) {
        self.spread = true;
        self.bins.begin();
        for entry in self.few.iter() {
            self.bins.insert(entry);
        }
        self.few.clear();
    }

    /// Puts the few entries that the bins still have into the list.
    #[cold]
    fn gather(&mut self) {
        for entry in self.bins.iter() {
            self.few.insert(self.few.len(), entry);
        }
        self.bins.clear();
        self.spread = false;
    }

    /// Removes a block; false if it was not there.
    #[inline]
    pub fn remove(&mut self, bytes: u64, address: u64) -> bool {
        if self.spread {
            if !self.bins.remove(bytes, address) {
                return false;
            }
            if self.bins.len() <= BACK {
                self.gather();
            }
        } else {
            let at = self.few.lower(bytes, address);
            if !self.few.is_at(at, bytes, address) {
                return false;
            }
            self.few.remove(at);
        }
        self.total_bytes -= bytes;
        true
    }

    /// Puts `new` in the place of the block `old`; false if that was not there.
    ///
    /// # Panics
    /// As [`insert`](Self::insert).
    #[inline]
    pub fn change(&mut self, old: Entry, new: Entry) -> bool {
        if self.spread {
            let was_there = self.remove(old.bytes, old.address);
            if was_there {
                self.insert(new.bytes, new.address, new.block);
            }
            return was_there;
        }
        let at = self.few.lower(old.bytes, old.address);
        if !self.few.is_at(at, old.bytes, old.address) {
            return false;
        }
        self.few.change(at, new);
        let total_bytes = (self.total_bytes - old.bytes).checked_add(new.bytes);
        self.total_bytes = total_bytes.expect("free blocks exceed the address space");
        true
    }

    /// The best fit: the smallest block of at least `bytes`; of equal ones the lowest address.
    #[inline]
    pub fn first_at_least(&self, bytes: u64) -> Option<Entry> {
        self.first_at_least_from(bytes, 0)
    }

    /// The first block in order that is not before `(bytes, address)`.
    #[inline]
    pub fn first_at_least_from(&self, bytes: u64, address: u64) -> Option<Entry> {
        if self.spread {
            return self.bins.at_least(bytes, address);
        }
        self.few.get(self.few.lower(bytes, address))
    }

    /// The first block in order after `(bytes, address)`, which need not be there.
    #[inline]
    pub fn next_after(&self, bytes: u64, address: u64) -> Option<Entry> {
        if self.spread {
            return self.bins.above(bytes, address);
        }
        let at = self.few.lower(bytes, address);
        let is_there = self.few.is_at(at, bytes, address);
        self.few.get(at + usize::from(is_there))
    }

    /// The last block in order before `(bytes, address)`, which need not be there.
    #[inline]
    pub fn prev_before(&self, bytes: u64, address: u64) -> Option<Entry> {
        if self.spread {
            return self.bins.below(bytes, address);
        }
        let at = self.few.lower(bytes, address);
        self.few.get(at.checked_sub(1)?)
    }

    /// Bytes of the largest block; 0 if there is none.
    #[inline]
    pub fn largest_bytes(&self) -> u64 {
        if self.spread {
            return self.bins.largest_bytes();
        }
        self.few.largest_bytes()
    }

    /// The worst fit: the largest block; of equal ones the lowest address.
    #[inline]
    pub fn largest(&self) -> Option<Entry> {
        self.first_at_least(self.largest_bytes())
    }

    /// All blocks, by bytes and then by address.
    pub fn iter(&self) -> impl Iterator<Item = Entry> + '_ {
        self.few.iter().chain(self.bins.iter())
    }

    /// Number of blocks.
    pub fn len(&self) -> usize {
        self.few.len() + self.bins.len()
    }

    /// True if there is no block.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sum of the bytes of all blocks.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Removes all blocks and keeps the memory.
    pub fn clear(&mut self) {
        self.few.clear();
        self.bins.clear();
        self.spread = false;
        self.total_bytes = 0;
    }

    /// Panics unless the index agrees with itself; for tests.
    #[cfg(test)]
    pub(super) fn check(&self) {
        self.bins.check();
        assert!(self.few.len() == 0 || !self.spread);
        let entries: Vec<Entry> = self.iter().collect();
        assert!(entries.is_sorted_by_key(|entry| (entry.bytes, entry.address)));
        assert_eq!(entries.len(), self.len());
        assert_eq!(
            entries.iter().map(|e| e.bytes).sum::<u64>(),
            self.total_bytes
        );
    }

    /// Nodes in use, leaves and inner ones; for tests.
    #[cfg(test)]
    pub(super) fn nodes(&self) -> usize {
        self.bins.nodes()
    }
}
