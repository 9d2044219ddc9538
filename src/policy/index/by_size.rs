//! Free blocks ordered by bytes, then by address.

#[cfg(test)]
mod tests;

use super::Entry;
use super::bins::Bins;
use super::group::TWICE;
use super::scale::Scale;

/// An exact index by size: log-linear bins under a two-level bitmap, each a bucket of entries
/// in no order, or a tree by the digits of size and address once there are more.
///
/// The last block in order lies apart: requests are cut from it more than from any other, and
/// everybody asks for its size. Every operation takes a time that grows with the logarithm of
/// the entries of one bin at most, also where all have one size.
pub struct BySize {
    len: usize,
    total_bytes: u64,
    /// The last block in order; one of no bytes where there is none.
    top: Entry,
    /// No other block has more bytes.
    bound_bytes: u64,
    /// All blocks but the last.
    rest: Bins<u64>,
    /// The same, once sizes and addresses do not fit one `u64` together.
    wide: Option<Box<Bins<u128>>>,
}

/// Stands for the last block where there is none.
const NO_BLOCK: Entry = Entry {
    address: 0,
    bytes: 0,
    block: 0,
};

/// Where a block is in order.
#[inline]
fn place(entry: Entry) -> (u64, u64) {
    (entry.bytes, entry.address)
}

impl Default for BySize {
    fn default() -> Self {
        Self::new()
    }
}

/// Calls a method of the bins, whichever are in use.
macro_rules! rest {
    ($index:expr, $bins:ident => $call:expr) => {
        match &$index.wide {
            None => {
                let $bins = &$index.rest;
                $call
            }
            Some($bins) => $call,
        }
    };
}

impl BySize {
    /// An index without entries.
    pub fn new() -> Self {
        BySize {
            len: 0,
            total_bytes: 0,
            top: NO_BLOCK,
            bound_bytes: 0,
            rest: Bins::new(Scale::NONE),
            wide: None,
        }
    }

    /// Adds a block.
    ///
    /// # Panics
    /// If a block of these bytes at this address is there already, or if all bytes together exceed a
    /// `u64`: free blocks lie in one address space and do not overlap.
    #[inline]
    pub fn insert(&mut self, bytes: u64, address: u64, block: u32) {
        let total_bytes = self.total_bytes.checked_add(bytes);
        self.total_bytes = total_bytes.expect("free blocks exceed the address space");
        self.len += 1;
        if bytes < self.top.bytes {
            self.insert_in_rest(bytes, address, block);
        } else {
            self.insert_near_top(bytes, address, block);
        }
    }

    /// Adds a block, already counted, that may be the last one.
    #[cold]
    #[inline(never)]
    fn insert_near_top(&mut self, bytes: u64, address: u64, block: u32) {
        let mut new = Entry {
            address,
            bytes,
            block,
        };
        if self.len == 1 {
            self.top = new;
            return;
        }
        assert!(place(new) != place(self.top), "{TWICE}");
        if place(new) > place(self.top) {
            std::mem::swap(&mut self.top, &mut new);
        }
        self.insert_in_rest(new.bytes, new.address, new.block);
    }

    #[inline]
    fn insert_in_rest(&mut self, bytes: u64, address: u64, block: u32) {
        if bytes > self.bound_bytes {
            self.bound_bytes = bytes;
        }
        if self.wide.is_none() && self.rest.holds(bytes, address) {
            self.rest.insert(bytes, address, block);
        } else {
            self.insert_wide(bytes, address, block);
        }
    }

    /// Adds a block that the words cannot hold as they are.
    #[cold]
    #[inline(never)]
    fn insert_wide(&mut self, bytes: u64, address: u64, block: u32) {
        if self.wide.is_none() {
            self.rescale(bytes, address);
        }
        match &mut self.wide {
            None => self.rest.insert(bytes, address, block),
            Some(bins) => bins.insert(bytes, address, block),
        }
    }

    /// Gives the words room for an entry that they cannot hold. They only ever grow, so that this
    /// happens a hundred times at most.
    fn rescale(&mut self, bytes: u64, address: u64) {
        let entries: Vec<Entry> = self.rest.iter().collect();
        let (mut sizes, mut addresses) = (bytes, address);
        for entry in &entries {
            sizes |= entry.bytes;
            addresses |= entry.address;
        }
        match self.rest.scale().widened(sizes, addresses) {
            Some(scale) => {
                self.rest.restart(scale);
                for Entry {
                    bytes,
                    address,
                    block,
                } in entries
                {
                    self.rest.insert(bytes, address, block);
                }
            }
            None => {
                let mut wide = Bins::new(Scale::ANY);
                for Entry {
                    bytes,
                    address,
                    block,
                } in entries
                {
                    wide.insert(bytes, address, block);
                }
                self.rest = Bins::new(Scale::NONE);
                self.wide = Some(Box::new(wide));
            }
        }
    }

    /// Removes a block; false if it was not there.
    #[inline]
    pub fn remove(&mut self, bytes: u64, address: u64) -> bool {
        if bytes == self.top.bytes && address == self.top.address {
            return self.remove_top();
        }
        let was_there = self.remove_from_rest(bytes, address);
        if was_there {
            self.len -= 1;
            self.total_bytes -= bytes;
        }
        was_there
    }

    #[inline]
    fn remove_from_rest(&mut self, bytes: u64, address: u64) -> bool {
        match &mut self.wide {
            None => self.rest.remove(bytes, address),
            Some(_) => self.remove_wide(bytes, address),
        }
    }

    #[cold]
    #[inline(never)]
    fn remove_wide(&mut self, bytes: u64, address: u64) -> bool {
        let wide = self.wide.as_mut();
        wide.is_some_and(|bins| bins.remove(bytes, address))
    }

    /// Removes the last block, if there is one; the one before it takes its place.
    #[inline(never)]
    fn remove_top(&mut self) -> bool {
        if self.len == 0 {
            return false;
        }
        self.len -= 1;
        self.total_bytes -= self.top.bytes;
        let last = rest!(self, bins => bins.last());
        self.top = last.unwrap_or(NO_BLOCK);
        self.bound_bytes = self.top.bytes;
        if let Some(last) = last {
            self.remove_from_rest(last.bytes, last.address);
        }
        true
    }

    /// Puts `new` in the place of the block `old`; false if that was not there.
    ///
    /// # Panics
    /// As [`insert`](Self::insert).
    #[inline]
    pub fn change(&mut self, old: Entry, new: Entry) -> bool {
        let is_top = place(old) == place(self.top) && self.len > 0;
        if is_top && new.bytes > self.bound_bytes {
            self.top = new;
            let total_bytes = (self.total_bytes - old.bytes).checked_add(new.bytes);
            self.total_bytes = total_bytes.expect("free blocks exceed the address space");
            return true;
        }
        let was_there = self.remove(old.bytes, old.address);
        if was_there {
            self.insert(new.bytes, new.address, new.block);
        }
        was_there
    }

    /// The best fit: the smallest block of at least `bytes`; of equal ones the lowest address.
    #[inline(always)]
    pub fn first_at_least(&self, bytes: u64) -> Option<Entry> {
        if bytes <= self.bound_bytes {
            let found = match &self.wide {
                None => self.rest.first_of(bytes),
                Some(_) => self.first_of_wide(bytes),
            };
            if found.is_some() {
                return found;
            }
        }
        self.top_if(self.top.bytes >= bytes)
    }

    #[cold]
    #[inline(never)]
    fn first_of_wide(&self, bytes: u64) -> Option<Entry> {
        self.wide.as_ref()?.first_of(bytes)
    }

    /// The first block in order that is not before `(bytes, address)`.
    #[inline]
    pub fn first_at_least_from(&self, bytes: u64, address: u64) -> Option<Entry> {
        if bytes <= self.bound_bytes {
            let found = rest!(self, bins => bins.at_least(bytes, address));
            if found.is_some() {
                return found;
            }
        }
        self.top_if(place(self.top) >= (bytes, address))
    }

    /// The first block in order after `(bytes, address)`, which need not be there.
    #[inline]
    pub fn next_after(&self, bytes: u64, address: u64) -> Option<Entry> {
        match address.checked_add(1) {
            Some(address) => self.first_at_least_from(bytes, address),
            None => self.first_at_least_from(bytes.checked_add(1)?, 0),
        }
    }

    /// The last block in order before `(bytes, address)`, which need not be there.
    #[inline]
    pub fn prev_before(&self, bytes: u64, address: u64) -> Option<Entry> {
        let top = self.top_if(place(self.top) < (bytes, address));
        top.or_else(|| rest!(self, bins => bins.below(bytes, address)))
    }

    #[inline]
    fn top_if(&self, condition: bool) -> Option<Entry> {
        (condition && self.len > 0).then_some(self.top)
    }

    /// Bytes of the largest block; 0 if there is none.
    #[inline]
    pub fn largest_bytes(&self) -> u64 {
        self.top.bytes
    }

    /// The worst fit: the largest block; of equal ones the lowest address.
    #[inline]
    pub fn largest(&self) -> Option<Entry> {
        self.first_at_least(self.largest_bytes())
    }

    /// All blocks, by bytes and then by address.
    pub fn iter(&self) -> impl Iterator<Item = Entry> + '_ {
        std::iter::successors(self.first_at_least(0), |last| {
            self.next_after(last.bytes, last.address)
        })
    }

    /// Number of blocks.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there is no block.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sum of the bytes of all blocks.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Removes all blocks and keeps the memory.
    pub fn clear(&mut self) {
        self.rest.clear();
        if let Some(wide) = &mut self.wide {
            wide.clear();
        }
        self.len = 0;
        self.total_bytes = 0;
        self.top = NO_BLOCK;
        self.bound_bytes = 0;
    }

    /// Panics unless the index agrees with itself; for tests.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let rest = rest!(self, bins => bins.check());
        assert_eq!(rest, self.len.saturating_sub(1));
        let last = rest!(self, bins => bins.last());
        assert!(last.is_none_or(|last| place(last) < place(self.top)));
        assert!(last.is_none_or(|last| last.bytes <= self.bound_bytes));
        let entries: Vec<Entry> = self.iter().collect();
        assert!(entries.is_sorted_by_key(|entry| place(*entry)));
        assert_eq!(entries.len(), self.len());
        assert_eq!(
            entries.iter().map(|e| e.bytes).sum::<u64>(),
            self.total_bytes
        );
    }

    /// Nodes in use; for tests.
    #[cfg(test)]
    pub(super) fn nodes(&self) -> usize {
        rest!(self, bins => bins.nodes())
    }
}
