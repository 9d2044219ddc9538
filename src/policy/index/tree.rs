//! A B+-tree whose inner nodes know the greatest value below each child.
//!
//! The nodes live in a pool which many trees may share. A node that falls below a quarter is joined
//! with a neighbour where both fit, and one that becomes empty is taken out, so that no node is ever
//! empty and memory follows the number of entries. Freed nodes are used again.

#[cfg(test)]
mod check;
mod reshape;

use super::node::{FAN, Inner, Key, Leaf, NONE, Value};

/// Levels above the leaves that a path can hold: an inner node is split into halves of `FAN / 2`
/// children, so eight levels need more leaves than a `u32` can name.
const LEVELS: usize = 8;

/// Below this a node looks for a neighbour to join.
const SPARSE: usize = FAN / 4;

/// Two nodes are joined up to this, which leaves room before the next split.
const JOINED: usize = FAN * 3 / 4;

/// One tree in a [`Pool`].
#[derive(Clone, Copy)]
pub(super) struct Root {
    node: u32,
    /// Levels of inner nodes above the leaves.
    level: u32,
}

impl Root {
    /// The tree without entries.
    pub(super) const EMPTY: Root = Root {
        node: NONE,
        level: 0,
    };

    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.node == NONE
    }
}

/// The inner nodes passed on the way to a leaf, with the slot taken in each; by level, leaves being 0.
///
/// It is filled in place and handed on by reference: copying what was just written in parts stalls.
#[derive(Default)]
struct Path {
    steps: [(u32, u32); LEVELS],
}

impl Path {
    #[inline]
    fn step(&self, level: u32) -> (usize, usize) {
        let (node, slot) = self.steps[level as usize];
        (node as usize, slot as usize)
    }
}

/// The nodes of one or more trees.
pub(super) struct Pool<K, V: Value> {
    leaves: Vec<Leaf<K, V>>,
    inners: Vec<Inner<K, V::Best>>,
    spare_leaves: Vec<u32>,
    spare_inners: Vec<u32>,
}

impl<K: Key, V: Value> Pool<K, V> {
    pub(super) fn new() -> Self {
        Pool {
            leaves: Vec::new(),
            inners: Vec::new(),
            spare_leaves: Vec::new(),
            spare_inners: Vec::new(),
        }
    }

    /// Forgets all trees and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.leaves.clear();
        self.inners.clear();
        self.spare_leaves.clear();
        self.spare_inners.clear();
    }

    /// Adds an entry. Panics if the key is there already.
    #[inline]
    pub(super) fn insert(&mut self, root: &mut Root, key: K, value: V) {
        if root.is_empty() {
            root.node = self.new_leaf();
        }
        let mut path = Path::default();
        let node = self.descend_along(*root, key, &mut path);
        let leaf = &mut self.leaves[node];
        let at = leaf.lower(key);
        let taken = at < leaf.len && leaf.keys[at] == key;
        assert!(!taken, "an index was given the same block twice");
        if leaf.len == FAN {
            self.insert_split(root, &path, node, key, value);
            return;
        }
        leaf.insert(at, key, value);
        self.raise(*root, &path, 1, value.best());
    }

    /// Removes an entry and returns its value.
    #[inline]
    pub(super) fn remove(&mut self, root: &mut Root, key: K) -> Option<V> {
        let mut path = Path::default();
        let (node, at) = self.locate(*root, key, &mut path)?;
        let leaf = &mut self.leaves[node];
        let value = leaf.values[at];
        leaf.remove(at);
        if leaf.len < SPARSE {
            self.shrink(root, &path, node);
        } else {
            self.lower(*root, &path, 0, node, value.best());
        }
        Some(value)
    }

    /// Changes the value of a key by `change`; false if the key is not there.
    #[inline]
    pub(super) fn update(&mut self, root: Root, key: K, change: impl FnOnce(&mut V)) -> bool {
        let mut path = Path::default();
        let Some((node, at)) = self.locate(root, key, &mut path) else {
            return false;
        };
        self.update_at(root, &path, node, at, change);
        true
    }

    /// Moves an entry to another key and changes its value; false if `old` is not there.
    ///
    /// Cheap while the order stays as it is. Panics if there is another entry under `new`.
    pub(super) fn rekey(
        &mut self,
        root: &mut Root,
        old: K,
        new: K,
        change: impl FnOnce(&mut V),
    ) -> bool {
        let mut path = Path::default();
        let Some((node, at)) = self.locate(*root, old, &mut path) else {
            return false;
        };
        let (low, high) = self.room(*root, &path, node, at);
        if low.is_none_or(|low| low < new) && high.is_none_or(|high| new < high) {
            self.leaves[node].keys[at] = new;
            self.update_at(*root, &path, node, at, change);
        } else {
            let mut value = self.leaves[node].values[at];
            change(&mut value);
            self.remove(root, old);
            self.insert(root, new, value);
        }
        true
    }

    /// First entry whose key is not below `key`.
    #[inline]
    pub(super) fn at_least(&self, root: Root, key: K) -> Option<(K, V)> {
        let leaf = self.leaf_of(root, key)?;
        self.entry_or_next(leaf, leaf.lower(key))
    }

    /// First entry whose key is above `key`.
    #[inline]
    pub(super) fn above(&self, root: Root, key: K) -> Option<(K, V)> {
        let leaf = self.leaf_of(root, key)?;
        self.entry_or_next(leaf, leaf.upper(key))
    }

    /// Last entry whose key is below `key`.
    #[inline]
    pub(super) fn below(&self, root: Root, key: K) -> Option<(K, V)> {
        let leaf = self.leaf_of(root, key)?;
        self.entry_before(leaf, leaf.lower(key))
    }

    /// Last entry whose key is not above `key`.
    #[inline]
    pub(super) fn at_most(&self, root: Root, key: K) -> Option<(K, V)> {
        let leaf = self.leaf_of(root, key)?;
        self.entry_before(leaf, leaf.upper(key))
    }

    /// First entry of all.
    #[inline]
    pub(super) fn first(&self, root: Root) -> Option<(K, V)> {
        let leaf = &self.leaves[self.edge(root, |_| 0)?];
        Some((leaf.keys[0], leaf.values[0]))
    }

    /// Last entry of all.
    #[inline]
    pub(super) fn last(&self, root: Root) -> Option<(K, V)> {
        let leaf = &self.leaves[self.edge(root, |len| len - 1)?];
        Some((leaf.keys[leaf.len - 1], leaf.values[leaf.len - 1]))
    }

    /// The greatest value below the root, as its inner nodes know it.
    #[inline]
    pub(super) fn best(&self, root: Root) -> Option<V::Best> {
        (!root.is_empty()).then(|| self.best_of(root.level, root.node as usize))
    }

    /// First entry whose value reaches `need`.
    #[inline]
    pub(super) fn first_with(&self, root: Root, need: V::Best) -> Option<(K, V)> {
        if root.is_empty() {
            return None;
        }
        let (mut node, mut level) = (root.node as usize, root.level);
        while level > 0 {
            let inner = &self.inners[node];
            node = inner.children[inner.slot_with(need, 0)?] as usize;
            level -= 1;
        }
        self.scan(node, need, 0)
    }

    /// First entry from `key` on whose value reaches `need`.
    pub(super) fn first_with_from(&self, root: Root, need: V::Best, key: K) -> Option<(K, V)> {
        if root.is_empty() {
            return None;
        }
        let mut path = Path::default();
        let node = self.descend_along(root, key, &mut path);
        let start = self.leaves[node].lower(key);
        if let Some(found) = self.scan(node, need, start) {
            return Some(found);
        }
        (1..=root.level).find_map(|level| {
            let (node, slot) = path.step(level);
            let inner = &self.inners[node];
            let node = inner.children[inner.slot_with(need, slot + 1)?];
            let level = level - 1;
            self.first_with(Root { node, level }, need)
        })
    }

    /// All entries in order.
    pub(super) fn iter(&self, root: Root) -> impl Iterator<Item = (K, V)> + '_ {
        let first = self.edge(root, |_| 0).map(|node| &self.leaves[node]);
        let leaves = std::iter::successors(first, |leaf| self.leaves.get(leaf.next as usize));
        leaves.flat_map(|leaf| (0..leaf.len).map(|at| (leaf.keys[at], leaf.values[at])))
    }

    /// The leaf whose range holds `key`, in a tree with entries; `visit` sees level, node and slot.
    #[inline]
    fn descend(&self, root: Root, key: K, mut visit: impl FnMut(u32, u32, u32)) -> usize {
        let mut node = root.node;
        for level in (1..=root.level).rev() {
            let inner = &self.inners[node as usize];
            let slot = inner.slot(key);
            visit(level, node, slot as u32);
            node = inner.children[slot];
        }
        node as usize
    }

    #[inline]
    fn descend_along(&self, root: Root, key: K, path: &mut Path) -> usize {
        self.descend(root, key, |level, node, slot| {
            path.steps[level as usize] = (node, slot);
        })
    }

    #[inline]
    fn leaf_of(&self, root: Root, key: K) -> Option<&Leaf<K, V>> {
        let leaf = || &self.leaves[self.descend(root, key, |_, _, _| ())];
        (!root.is_empty()).then(leaf)
    }

    /// Leaf and position of a key that is there.
    #[inline]
    fn locate(&self, root: Root, key: K, path: &mut Path) -> Option<(usize, usize)> {
        if root.is_empty() {
            return None;
        }
        let node = self.descend_along(root, key, path);
        let leaf = &self.leaves[node];
        let at = leaf.lower(key);
        (at < leaf.len && leaf.keys[at] == key).then_some((node, at))
    }

    /// The leaf at one end of the tree, `pick` choosing the slot from the number of children.
    #[inline]
    fn edge(&self, root: Root, pick: impl Fn(usize) -> usize) -> Option<usize> {
        let mut node = root.node;
        for _ in 0..root.level {
            let inner = &self.inners[node as usize];
            node = inner.children[pick(inner.len)];
        }
        (!root.is_empty()).then_some(node as usize)
    }

    #[inline]
    fn entry_or_next(&self, leaf: &Leaf<K, V>, at: usize) -> Option<(K, V)> {
        if at < leaf.len {
            return Some((leaf.keys[at], leaf.values[at]));
        }
        let next = self.leaves.get(leaf.next as usize)?;
        Some((next.keys[0], next.values[0]))
    }

    #[inline]
    fn entry_before(&self, leaf: &Leaf<K, V>, at: usize) -> Option<(K, V)> {
        if at > 0 {
            return Some((leaf.keys[at - 1], leaf.values[at - 1]));
        }
        let prev = self.leaves.get(leaf.prev as usize)?;
        Some((prev.keys[prev.len - 1], prev.values[prev.len - 1]))
    }

    /// First entry of a leaf, from `start` on, that reaches `need`.
    #[inline]
    fn scan(&self, node: usize, need: V::Best, start: usize) -> Option<(K, V)> {
        let leaf = &self.leaves[node];
        let at = (start..leaf.len).find(|at| leaf.values[*at].best() >= need)?;
        Some((leaf.keys[at], leaf.values[at]))
    }

    #[inline]
    fn best_of(&self, level: u32, node: usize) -> V::Best {
        if level == 0 {
            self.leaves[node].best()
        } else {
            self.inners[node].best()
        }
    }

    /// Keys between which the entry at `at` may move without leaving its place, ends excluded.
    fn room(&self, root: Root, path: &Path, node: usize, at: usize) -> (Option<K>, Option<K>) {
        let leaf = &self.leaves[node];
        // At the edge of a leaf its separators bind, which may be narrower than the neighbours' keys.
        let low = if at > 0 {
            Some(leaf.keys[at - 1])
        } else {
            (1..=root.level).find_map(|level| {
                let (node, slot) = path.step(level);
                (slot > 0).then(|| self.inners[node].keys[slot])
            })
        };
        let high = if at + 1 < leaf.len {
            Some(leaf.keys[at + 1])
        } else {
            (1..=root.level).find_map(|level| {
                let (node, slot) = path.step(level);
                let inner = &self.inners[node];
                (slot + 1 < inner.len).then(|| inner.keys[slot + 1])
            })
        };
        (low, high)
    }
}
