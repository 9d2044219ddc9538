//! Free blocks ordered by address, with the largest below each node.
//!
//! Addresses and sizes are written in granules of 31 bits as long as they can be: half as much memory,
//! and vector instructions compare four at a time. What does not fit turns the index over to a new
//! scale, or to 64 bits for good.

mod granules;
mod node;
mod tree;
mod word;

use super::Entry;
use granules::Scale;
use node::Item;
use tree::Tree;

/// How often an index may look for a new scale before it gives up.
const RESCALES: u32 = 8;

/// In granules, or in bytes.
#[derive(Clone)]
enum Form {
    Narrow(Tree<i32>, Scale),
    Wide(Tree<u64>),
}

/// An exact index by address which finds the lowest block that is large enough in logarithmic time.
#[derive(Clone)]
pub struct ByAddress {
    form: Form,
    rescales: u32,
}

/// Keeps what is rarely done out of the way of what is always done.
#[cold]
#[inline(never)]
fn rarely<T>(work: impl FnOnce() -> T) -> T {
    work()
}

#[inline(always)]
fn narrow(entry: Entry, scale: &Scale) -> Option<Item<i32>> {
    Some(Item {
        key: scale.key(entry.address)?,
        size: scale.size(entry.bytes)?,
        name: entry.block,
    })
}

#[inline(always)]
fn wide(entry: Entry) -> Item<u64> {
    Item {
        key: entry.address,
        size: entry.bytes,
        name: entry.block,
    }
}

#[inline(always)]
fn from_narrow(item: Item<i32>, scale: &Scale) -> Entry {
    Entry {
        address: scale.address(item.key),
        bytes: scale.bytes(item.size),
        block: item.name,
    }
}

#[inline(always)]
fn from_wide(item: Item<u64>) -> Entry {
    Entry {
        address: item.key,
        bytes: item.size,
        block: item.name,
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
            form: Form::Narrow(Tree::new(), Scale::BYTES),
            rescales: 0,
        }
    }

    /// Adds a block.
    ///
    /// # Panics
    /// If there is a block at this address already.
    #[inline(always)]
    pub fn insert(&mut self, address: u64, bytes: u64, block: u32) {
        let new = Entry {
            address,
            bytes,
            block,
        };
        match &mut self.form {
            Form::Narrow(tree, scale) => match narrow(new, scale) {
                Some(item) => tree.insert(item),
                None => self.insert_anew(new),
            },
            Form::Wide(tree) => rarely(|| tree.insert(wide(new))),
        }
    }

    /// Removes the block at an address and returns it.
    #[inline(always)]
    pub fn remove(&mut self, address: u64) -> Option<Entry> {
        match &mut self.form {
            Form::Narrow(tree, scale) => {
                let item = tree.remove(scale.key(address)?)?;
                Some(from_narrow(item, scale))
            }
            Form::Wide(tree) => rarely(|| tree.remove(address).map(from_wide)),
        }
    }

    /// Changes the bytes of the block at `address`, as it grows or shrinks at its upper end; false if
    /// there is none.
    pub fn set_bytes(&mut self, address: u64, bytes: u64) -> bool {
        let known = self.floor(address).filter(|known| known.address == address);
        known.is_some_and(|known| self.rekey(address, Entry { bytes, ..known }))
    }

    /// Puts `new` in the place of the block at `old_address`, which grew or shrank; false if there is
    /// none.
    ///
    /// Done in place where no other block lies between both addresses, which is the usual case.
    ///
    /// # Panics
    /// If there is another block at the new address.
    #[inline(always)]
    pub fn rekey(&mut self, old_address: u64, new: Entry) -> bool {
        match &mut self.form {
            Form::Narrow(tree, scale) => {
                let Some(([old, key], size)) = scale.all([old_address, new.address], new.bytes)
                else {
                    return self.rekey_anew(old_address, new);
                };
                let name = new.block;
                tree.change(old, Item { key, size, name })
            }
            Form::Wide(tree) => rarely(|| tree.change(old_address, wide(new))),
        }
    }

    /// Adds what the scale does not fit.
    #[cold]
    fn insert_anew(&mut self, new: Entry) {
        self.reform(new);
        self.insert(new.address, new.bytes, new.block);
    }

    /// Changes an entry to what the scale does not fit.
    #[cold]
    fn rekey_anew(&mut self, old_address: u64, new: Entry) -> bool {
        let is_known = self.remove(old_address).is_some();
        if is_known {
            self.insert(new.address, new.bytes, new.block);
        }
        is_known
    }

    /// Writes all entries down anew, so that `new` fits too.
    fn reform(&mut self, new: Entry) {
        let mut entries: Vec<Entry> = self.iter().collect();
        entries.push(new);
        let scale = Scale::over(&entries).filter(|_| self.rescales < RESCALES);
        self.rescales += 1;
        self.form = match scale {
            Some(scale) => Form::Narrow(Tree::new(), scale),
            None => Form::Wide(Tree::new()),
        };
        entries.pop();
        for entry in entries {
            self.insert(entry.address, entry.bytes, entry.block);
        }
    }

    /// The first fit: the block of the lowest address that has at least `bytes`.
    #[inline(always)]
    pub fn first_fit(&self, bytes: u64) -> Option<Entry> {
        match &self.form {
            Form::Narrow(tree, scale) => {
                let item = tree.first_with(scale.size_above(bytes)?)?;
                Some(from_narrow(item, scale))
            }
            Form::Wide(tree) => rarely(|| tree.first_with(bytes).map(from_wide)),
        }
    }

    /// The first block with at least `bytes` that starts at `address` or above: next fit's question.
    #[inline(always)]
    pub fn first_fit_from(&self, bytes: u64, address: u64) -> Option<Entry> {
        match &self.form {
            Form::Narrow(tree, scale) => {
                let need = scale.size_above(bytes)?;
                let item = tree.first_with_from(need, scale.key_above(address)?)?;
                Some(from_narrow(item, scale))
            }
            Form::Wide(tree) => rarely(|| tree.first_with_from(bytes, address).map(from_wide)),
        }
    }

    /// Bytes of the largest block; 0 if there is none.
    #[inline(always)]
    pub fn largest_bytes(&self) -> u64 {
        match &self.form {
            Form::Narrow(tree, scale) => scale.bytes(tree.best()),
            Form::Wide(tree) => tree.best(),
        }
    }

    /// The worst fit: the largest block; of equal ones the lowest address.
    #[inline(always)]
    pub fn largest(&self) -> Option<Entry> {
        self.first_fit(self.largest_bytes())
    }

    /// The last block that starts at `address` or below.
    #[inline(always)]
    pub fn floor(&self, address: u64) -> Option<Entry> {
        match &self.form {
            Form::Narrow(tree, scale) => {
                let item = tree.at_most(scale.key_below(address)?)?;
                Some(from_narrow(item, scale))
            }
            Form::Wide(tree) => rarely(|| tree.at_most(address).map(from_wide)),
        }
    }

    /// The first block that starts above `address`.
    #[inline(always)]
    fn above(&self, address: u64) -> Option<Entry> {
        match &self.form {
            Form::Narrow(tree, scale) => {
                let item = match scale.key_below(address) {
                    Some(key) => tree.above(key),
                    None => tree.first(),
                };
                item.map(|item| from_narrow(item, scale))
            }
            Form::Wide(tree) => rarely(|| tree.above(address).map(from_wide)),
        }
    }

    /// The block that contains `address`, else the first one after it.
    #[inline(always)]
    pub fn containing_or_after(&self, address: u64) -> Option<Entry> {
        let contains = |entry: &Entry| address - entry.address < entry.bytes;
        let after = || self.above(address);
        self.floor(address).filter(contains).or_else(after)
    }

    /// All blocks, by address.
    pub fn iter(&self) -> impl Iterator<Item = Entry> + '_ {
        let (narrow, wide) = match &self.form {
            Form::Narrow(tree, scale) => (Some((tree, scale)), None),
            Form::Wide(tree) => (None, Some(tree)),
        };
        let narrow = narrow.into_iter();
        let narrow =
            narrow.flat_map(|(tree, scale)| tree.iter().map(|item| from_narrow(item, scale)));
        let wide = wide.into_iter().flat_map(|tree| tree.iter().map(from_wide));
        narrow.chain(wide)
    }

    /// Number of blocks.
    pub fn len(&self) -> usize {
        match &self.form {
            Form::Narrow(tree, _) => tree.len(),
            Form::Wide(tree) => tree.len(),
        }
    }

    /// True if there is no block.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all blocks and keeps the memory.
    pub fn clear(&mut self) {
        match &mut self.form {
            Form::Narrow(tree, _) => tree.clear(),
            Form::Wide(tree) => tree.clear(),
        }
    }

    /// Panics unless the index agrees with itself; for tests.
    #[cfg(test)]
    pub(super) fn check(&self) {
        match &self.form {
            Form::Narrow(tree, _) => tree.check(),
            Form::Wide(tree) => tree.check(),
        }
        assert_eq!(self.iter().count(), self.len());
    }

    /// Nodes in use, leaves and inner ones; for tests.
    #[cfg(test)]
    pub(super) fn nodes(&self) -> usize {
        match &self.form {
            Form::Narrow(tree, _) => tree.nodes(),
            Form::Wide(tree) => tree.nodes(),
        }
    }

    /// Whether entries are written in granules; for tests.
    #[cfg(test)]
    pub(super) fn is_narrow(&self) -> bool {
        matches!(self.form, Form::Narrow(..))
    }
}
