//! The tree by address: a B+-tree whose inner nodes know the greatest size below each child.
//!
//! The way to the leaf that was reached last is remembered: a hole that was found is changed at once
//! afterwards, and its neighbours mostly lie in the same leaf.

#[cfg(test)]
mod check;
mod neighbours;
mod reshape;

use std::cell::Cell;

use super::node::{FAN, Item, LEAF, Nodes};
use super::word::Word;

/// Levels above the leaves that the way to a leaf can have; far more than `u32` names of nodes need.
const LEVELS: usize = if cfg!(test) { 16 } else { 8 };

/// The name of no node.
const NONE: u32 = u32::MAX;

/// The way to a leaf: the inner node passed on each level and the slot taken in it, level 0 being the
/// one above the leaves.
#[derive(Clone, Default)]
struct Way {
    nodes: [Cell<u32>; LEVELS],
    slots: [Cell<u32>; LEVELS],
    /// The leaf; `NONE` where the nodes have changed since.
    leaf: Cell<u32>,
    /// The place in the leaf that was found or changed last.
    at: Cell<u32>,
}

impl Way {
    #[inline(always)]
    fn step(&self, level: u32) -> (u32, usize) {
        let level = level as usize;
        (self.nodes[level].get(), self.slots[level].get() as usize)
    }

    #[inline(always)]
    fn arrive(&self, leaf: u32, at: usize) {
        self.leaf.set(leaf);
        self.at.set(at as u32);
    }

    #[inline(always)]
    fn take(&self, level: u32, node: u32, slot: usize) {
        self.nodes[level as usize].set(node);
        self.slots[level as usize].set(slot as u32);
    }
}

/// The tree.
#[derive(Clone)]
pub(super) struct Tree<W> {
    leaves: Nodes<W, LEAF>,
    inners: Nodes<W, FAN>,
    root: u32,
    /// Levels above the leaves.
    height: u32,
    /// The greatest size.
    best: W,
    len: usize,
    way: Way,
}

impl<W: Word> Tree<W> {
    pub(super) fn new() -> Self {
        Tree {
            leaves: Nodes::EMPTY,
            inners: Nodes::EMPTY,
            root: NONE,
            height: 0,
            best: W::LEAST,
            len: 0,
            way: Way::default(),
        }
    }

    /// Forgets all entries and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.leaves.clear();
        self.inners.clear();
        (self.root, self.height) = (NONE, 0);
        (self.best, self.len) = (W::LEAST, 0);
        self.way.leaf.set(NONE);
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The greatest size; the least word where there is no entry.
    #[inline(always)]
    pub(super) fn best(&self) -> W {
        self.best
    }

    /// Adds an entry. Panics if the key is there already.
    #[inline(always)]
    pub(super) fn insert(&mut self, item: Item<W>) {
        if self.len == 0 {
            self.begin();
        }
        let (leaf, at) = self.place_of(item.key);
        let node = &mut self.leaves[leaf];
        assert!(
            !node.holds(at, item.key),
            "an index was given the same block twice"
        );
        if node.is_full() {
            self.make_room(item.key);
            return self.insert(item);
        }
        node.insert(at, item);
        self.len += 1;
        self.way.at.set(at as u32);
        self.raise(item.size);
    }

    /// Removes an entry and returns it.
    #[inline(always)]
    pub(super) fn remove(&mut self, key: W) -> Option<Item<W>> {
        let (leaf, at) = self.find(key)?;
        let item = self.leaves[leaf].item(at);
        let best = self.best_without(leaf, at, item.size, W::LEAST);
        let node = &mut self.leaves[leaf];
        node.remove(at);
        self.len -= 1;
        // The next to change is mostly the one before.
        self.way.at.set((at as u32).saturating_sub(1));
        let is_sparse = node.is_sparse() && (self.height > 0 || self.len == 0);
        self.sink(item.size, best);
        if is_sparse {
            self.thin_out();
        }
        Some(item)
    }

    /// Puts `new` in the place of the entry at `old`; false if there is none.
    ///
    /// Done in place where the order stays as it is. Panics if there is another entry at the new key.
    #[inline(always)]
    pub(super) fn change(&mut self, old: W, new: Item<W>) -> bool {
        let Some((leaf, at)) = self.find(old) else {
            return false;
        };
        if !self.keeps_place(leaf, at, old, new.key) {
            self.move_far(old, new);
            return true;
        }
        let before = self.leaves[leaf].sizes[at];
        let best = self.best_without(leaf, at, before, new.size);
        let node = &mut self.leaves[leaf];
        node.keys[at] = new.key;
        node.sizes[at] = new.size;
        node.names[at] = new.name;
        if new.size < before {
            self.sink(before, best);
        } else {
            self.raise(new.size);
        }
        true
    }

    #[cold]
    fn move_far(&mut self, old: W, new: Item<W>) {
        self.remove(old);
        self.insert(new);
    }

    /// Whether the entry at `at` may have the key `new` without another place in the order.
    #[inline(always)]
    fn keeps_place(&self, leaf: u32, at: usize, old: W, new: W) -> bool {
        let node = &self.leaves[leaf];
        if new > old {
            if at + 1 < node.len() {
                return new < node.keys[at + 1];
            }
            let (above, slot) = self.way.step(0);
            return self.height == 0 || new <= self.inners[above].keys[slot];
        }
        if new == old {
            return true;
        }
        if at > 0 {
            return node.keys[at - 1] < new;
        }
        let mut steps = (0..self.height).map(|level| self.way.step(level));
        steps
            .find(|(_, slot)| *slot > 0)
            .is_none_or(|(above, slot)| self.inners[above].keys[slot - 1] < new)
    }

    /// The entry at a key.
    #[inline(always)]
    fn find(&self, key: W) -> Option<(u32, usize)> {
        if self.len == 0 {
            return None;
        }
        let (leaf, at) = self.seek(key);
        self.leaves[leaf].holds(at, key).then_some((leaf, at))
    }

    /// [`Self::place_of`], which is known where the key is the one that was found or changed last.
    #[inline(always)]
    fn seek(&self, key: W) -> (u32, usize) {
        let (leaf, at) = (self.way.leaf.get(), self.way.at.get() as usize);
        match self.leaves.get(leaf) {
            Some(node) if node.holds(at, key) => (leaf, at),
            _ => self.place_of(key),
        }
    }

    /// The leaf whose range holds `key`, and the place of the first entry in it that is not below, in a
    /// tree that has nodes.
    #[inline(always)]
    fn place_of(&self, key: W) -> (u32, usize) {
        let mut node = self.root;
        for level in (0..self.height).rev() {
            let inner = &self.inners[node];
            let slot = inner.rank(key);
            self.way.take(level, node, slot);
            node = inner.names[slot];
        }
        let at = self.leaves[node].rank(key);
        self.way.arrive(node, at);
        (node, at)
    }

    /// The first entry whose size reaches `need`.
    #[inline(always)]
    pub(super) fn first_with(&self, need: W) -> Option<Item<W>> {
        if need > self.best || self.len == 0 {
            return None;
        }
        Some(self.first_below(self.height, self.root, need))
    }

    /// The first entry below a node of which one reaches `need`.
    #[inline(always)]
    fn first_below(&self, height: u32, mut node: u32, need: W) -> Item<W> {
        for level in (0..height).rev() {
            let inner = &self.inners[node];
            let slot = inner.first_with(need);
            self.way.take(level, node, slot);
            node = inner.names[slot];
        }
        let leaf = &self.leaves[node];
        let at = leaf.first_with(need);
        self.way.arrive(node, at);
        leaf.item(at)
    }

    /// The first entry from `key` on whose size reaches `need`.
    #[inline(always)]
    pub(super) fn first_with_from(&self, need: W, key: W) -> Option<Item<W>> {
        if need > self.best || self.len == 0 {
            return None;
        }
        let (leaf, at) = self.seek(key);
        let leaf = &self.leaves[leaf];
        if let Some(at) = leaf.first_with_from(need, at) {
            self.way.at.set(at as u32);
            return Some(leaf.item(at));
        }
        self.first_with_after(need)
    }

    /// The first entry behind the leaf that was reached whose size reaches `need`.
    fn first_with_after(&self, need: W) -> Option<Item<W>> {
        for level in 0..self.height {
            let (node, slot) = self.way.step(level);
            let inner = &self.inners[node];
            if let Some(slot) = inner.first_with_from(need, slot + 1) {
                self.way.take(level, node, slot);
                return Some(self.first_below(level, inner.names[slot], need));
            }
        }
        None
    }

    /// Tells the nodes above the leaf that was reached of a size in it; all of them, for where it is the
    /// greatest cannot be guessed.
    #[inline(always)]
    fn raise(&mut self, size: W) {
        for level in 0..self.height {
            let (node, slot) = self.way.step(level);
            let known = &mut self.inners[node].sizes[slot];
            *known = size.max(*known);
        }
        self.best = size.max(self.best);
    }

    /// The greatest size of a leaf, that was reached, when its entry at `at` has gone from `before` down
    /// to `after`.
    #[inline(always)]
    fn best_without(&self, leaf: u32, at: usize, before: W, after: W) -> W {
        let best = self.best_known(0);
        if before == best && after < before {
            self.leaves[leaf].best_with(at, after)
        } else {
            best
        }
    }

    /// What is known, on `level` and above, of the sizes below the way to the leaf that was reached.
    #[inline(always)]
    fn best_known(&self, level: u32) -> W {
        if level == self.height {
            return self.best;
        }
        let (node, slot) = self.way.step(level);
        self.inners[node].sizes[slot]
    }

    /// Tells the nodes above the leaf that was reached, in which a size is no longer `before`, that its
    /// greatest is `best` now.
    #[inline(always)]
    fn sink(&mut self, before: W, mut best: W) {
        for level in 0..self.height {
            let (node, slot) = self.way.step(level);
            if self.inners[node].sizes[slot] == best {
                return;
            }
            let known = self.best_known(level + 1);
            let node = &mut self.inners[node];
            let above = if known == before {
                node.best_with(slot, best)
            } else {
                known
            };
            node.sizes[slot] = best;
            best = above;
        }
        self.best = best;
    }
}
