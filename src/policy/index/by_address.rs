//! Free blocks ordered by address, with the largest below each node.

use super::Entry;
use super::node::Value;
use super::tree::{Pool, Root};

/// What the index holds for an address.
#[derive(Clone, Copy, Default)]
struct Hole {
    bytes: u64,
    block: u32,
}

impl Value for Hole {
    type Best = u64;

    #[inline]
    fn best(self) -> u64 {
        self.bytes
    }
}

/// An exact index by address which finds the lowest block that is large enough in logarithmic time.
pub struct ByAddress {
    pool: Pool<u64, Hole>,
    root: Root,
    len: usize,
}

#[inline]
fn entry((address, hole): (u64, Hole)) -> Entry {
    Entry {
        address,
        bytes: hole.bytes,
        block: hole.block,
    }
}

impl Default for ByAddress {
    fn default() -> Self {
        Self::new()
    }
}

impl ByAddress {
    /// An index without entries.
    pub fn new() -> Self {
        ByAddress {
            pool: Pool::new(),
            root: Root::EMPTY,
            len: 0,
        }
    }

    /// Adds a block.
    ///
    /// # Panics
    /// If there is a block at this address already.
    #[inline]
    pub fn insert(&mut self, address: u64, bytes: u64, block: u32) {
        let hole = Hole { bytes, block };
        self.pool.insert(&mut self.root, address, hole);
        self.len += 1;
    }

    /// Removes the block at an address and returns it.
    #[inline]
    pub fn remove(&mut self, address: u64) -> Option<Entry> {
        let hole = self.pool.remove(&mut self.root, address)?;
        self.len -= 1;
        Some(entry((address, hole)))
    }

    /// Changes the bytes of the block at `address`, as it grows or shrinks at its upper end; false if
    /// there is none.
    #[inline]
    pub fn set_bytes(&mut self, address: u64, bytes: u64) -> bool {
        let change = |hole: &mut Hole| hole.bytes = bytes;
        self.pool.update(self.root, address, change)
    }

    /// Puts `new` in the place of the block at `old_address`, which grew or shrank at its lower end;
    /// false if there is none.
    ///
    /// Takes one descent where no other block lies between both addresses, which is the usual case.
    ///
    /// # Panics
    /// If there is another block at the new address.
    #[inline]
    pub fn rekey(&mut self, old_address: u64, new: Entry) -> bool {
        let (bytes, block) = (new.bytes, new.block);
        let change = |hole: &mut Hole| *hole = Hole { bytes, block };
        let root = &mut self.root;
        self.pool.rekey(root, old_address, new.address, change)
    }

    /// The first fit: the block of the lowest address that has at least `bytes`.
    #[inline]
    pub fn first_fit(&self, bytes: u64) -> Option<Entry> {
        self.pool.first_with(self.root, bytes).map(entry)
    }

    /// The first block with at least `bytes` that starts at `address` or above: next fit's question.
    #[inline]
    pub fn first_fit_from(&self, bytes: u64, address: u64) -> Option<Entry> {
        let found = self.pool.first_with_from(self.root, bytes, address);
        found.map(entry)
    }

    /// Bytes of the largest block; 0 if there is none.
    #[inline]
    pub fn largest_bytes(&self) -> u64 {
        self.pool.best(self.root).unwrap_or(0)
    }

    /// The worst fit: the largest block; of equal ones the lowest address.
    #[inline]
    pub fn largest(&self) -> Option<Entry> {
        self.first_fit(self.pool.best(self.root)?)
    }

    /// The last block that starts at `address` or below.
    #[inline]
    pub fn floor(&self, address: u64) -> Option<Entry> {
        self.pool.at_most(self.root, address).map(entry)
    }

    /// The block that contains `address`, else the first one after it.
    #[inline]
    pub fn containing_or_after(&self, address: u64) -> Option<Entry> {
        let contains = |entry: &Entry| address - entry.address < entry.bytes;
        let after = || self.pool.above(self.root, address).map(entry);
        self.floor(address).filter(contains).or_else(after)
    }

    /// All blocks, by address.
    pub fn iter(&self) -> impl Iterator<Item = Entry> + '_ {
        self.pool.iter(self.root).map(entry)
    }

    /// Number of blocks.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there is no block.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Removes all blocks and keeps the memory.
    pub fn clear(&mut self) {
        self.pool.clear();
        self.root = Root::EMPTY;
        self.len = 0;
    }

    /// Panics unless the index agrees with itself; for tests.
    #[cfg(test)]
    pub(super) fn check(&self) {
        self.pool.check(&[self.root]);
        assert_eq!(self.iter().count(), self.len);
    }

    /// Nodes in use, leaves and inner ones; for tests.
    #[cfg(test)]
    pub(super) fn nodes(&self) -> usize {
        self.pool.nodes()
    }
}
