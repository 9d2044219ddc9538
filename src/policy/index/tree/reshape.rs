//! What changes the shape of a tree or the maxima in it: splitting, joining, raising, lowering.

use super::super::node::{FAN, Inner, Key, Leaf, NONE, Value};
use super::{JOINED, Path, Pool, Root, SPARSE};

impl<K: Key, V: Value> Pool<K, V> {
    #[inline]
    pub(super) fn update_at(
        &mut self,
        root: Root,
        path: &Path,
        node: usize,
        at: usize,
        change: impl FnOnce(&mut V),
    ) {
        let value = &mut self.leaves[node].values[at];
        let before = value.best();
        change(value);
        let after = value.best();
        if after > before {
            self.raise(root, path, 1, after);
        } else if after < before {
            self.lower(root, path, 0, node, before);
        }
    }

    /// Tells the inner nodes from `level` up that something below them has reached `best`.
    #[inline]
    pub(super) fn raise(&mut self, root: Root, path: &Path, level: u32, best: V::Best) {
        for level in level..=root.level {
            let (node, slot) = path.step(level);
            let known = &mut self.inners[node].bests[slot];
            if *known >= best {
                break;
            }
            *known = best;
        }
    }

    /// Tells the inner nodes above `node`, which is on `level`, that `lost` is gone below them.
    #[inline]
    pub(super) fn lower(
        &mut self,
        root: Root,
        path: &Path,
        level: u32,
        node: usize,
        lost: V::Best,
    ) {
        let mut child = node;
        for level in level + 1..=root.level {
            let (node, slot) = path.step(level);
            if self.inners[node].bests[slot] != lost {
                break;
            }
            let best = self.best_of(level - 1, child);
            self.inners[node].bests[slot] = best;
            if best == lost {
                break;
            }
            child = node;
        }
    }

    /// Inserts into a full leaf: splits it, and as many nodes above it as are full too.
    pub(super) fn insert_split(
        &mut self,
        root: &mut Root,
        path: &Path,
        node: usize,
        key: K,
        value: V,
    ) {
        let (mut separator, mut right) = self.split_leaf(node, key, value);
        let mut left = node;
        for level in 1..=root.level {
            let (node, slot) = path.step(level);
            let best = self.best_of(level - 1, left);
            let right_best = self.best_of(level - 1, right as usize);
            self.inners[node].bests[slot] = best;
            if self.inners[node].len < FAN {
                self.inners[node].insert(slot + 1, separator, right, right_best);
                self.raise(*root, path, level + 1, value.best());
                return;
            }
            let upper = self.new_inner();
            let [lower, half] = self.two_inners(node, upper as usize);
            let start = lower.split_into(half, FAN / 2);
            if slot < lower.len {
                lower.insert(slot + 1, separator, right, right_best);
            } else {
                half.insert(slot + 1 - lower.len, separator, right, right_best);
            }
            separator = start;
            (left, right) = (node, upper);
        }
        self.grow(root, left, separator, right);
    }

    /// Splits a full leaf and inserts; returns the new right leaf with its separator.
    fn split_leaf(&mut self, node: usize, key: K, value: V) -> (K, u32) {
        let new = self.new_leaf();
        let next = self.leaves[node].next;
        let [left, right] = self.two_leaves(node, new as usize);
        let at = left.lower(key);
        // Behind the last key of a tree more are likely to follow: leave the left leaf full.
        let from = if at == FAN && next == NONE {
            FAN
        } else {
            FAN / 2
        };
        left.split_into(right, from);
        if at <= from && from < FAN {
            left.insert(at, key, value);
        } else {
            right.insert(at - from, key, value);
        }
        right.prev = node as u32;
        right.next = next;
        left.next = new;
        let separator = right.keys[0];
        if let Some(after) = self.leaves.get_mut(next as usize) {
            after.prev = new;
        }
        (separator, new)
    }

    /// Puts a new root above `left`, the old one, and `right`.
    fn grow(&mut self, root: &mut Root, left: usize, separator: K, right: u32) {
        let new = self.new_inner();
        let left_best = self.best_of(root.level, left);
        let right_best = self.best_of(root.level, right as usize);
        let inner = &mut self.inners[new as usize];
        inner.insert(0, K::MIN, left as u32, left_best);
        inner.insert(1, separator, right, right_best);
        root.node = new;
        root.level += 1;
    }

    /// Restores the tree above a leaf that has become sparse: takes empty nodes out, joins sparse
    /// ones, lowers maxima, and drops a root with a single child.
    pub(super) fn shrink(&mut self, root: &mut Root, path: &Path, leaf: usize) {
        let mut node = leaf;
        for level in 0..root.level {
            let (parent, slot) = path.step(level + 1);
            let len = self.len_of(level, node);
            if len == 0 {
                self.inners[parent].remove(slot);
                self.release(level, node);
            } else if len >= SPARSE || !self.join(level, parent, slot) {
                self.refresh(*root, path, level, node);
                return;
            }
            node = parent;
        }
        self.drop_root(root);
    }

    /// Computes the maxima above `node`, which is on `level`, anew.
    fn refresh(&mut self, root: Root, path: &Path, level: u32, node: usize) {
        let mut child = node;
        for level in level + 1..=root.level {
            let (node, slot) = path.step(level);
            let best = self.best_of(level - 1, child);
            if self.inners[node].bests[slot] == best {
                break;
            }
            self.inners[node].bests[slot] = best;
            child = node;
        }
    }

    /// Joins the child at `slot` with a neighbour, the right one first, if both fit into one node.
    fn join(&mut self, level: u32, parent: usize, slot: usize) -> bool {
        let children = self.inners[parent].len;
        let fits = |left: usize| {
            let pair = [left, left + 1].map(|slot| self.inners[parent].children[slot] as usize);
            pair.map(|node| self.len_of(level, node))
                .iter()
                .sum::<usize>()
                <= JOINED
        };
        let left_slot = if slot + 1 < children && fits(slot) {
            slot
        } else if slot > 0 && fits(slot - 1) {
            slot - 1
        } else {
            return false;
        };
        let inner = &mut self.inners[parent];
        let [left, right] = [left_slot, left_slot + 1].map(|slot| inner.children[slot] as usize);
        let separator = inner.keys[left_slot + 1];
        inner.remove(left_slot + 1);
        if level == 0 {
            let [left, right] = self.two_leaves(left, right);
            left.append(right);
        } else {
            let [left, right] = self.two_inners(left, right);
            left.append(right, separator);
        }
        self.release(level, right);
        self.inners[parent].bests[left_slot] = self.best_of(level, left);
        true
    }

    /// Lowers a root that has one child, and forgets a leaf without entries.
    fn drop_root(&mut self, root: &mut Root) {
        while root.level > 0 && self.inners[root.node as usize].len == 1 {
            let child = self.inners[root.node as usize].children[0];
            self.release(root.level, root.node as usize);
            root.node = child;
            root.level -= 1;
        }
        if self.len_of(root.level, root.node as usize) == 0 {
            self.release(root.level, root.node as usize);
            *root = Root::EMPTY;
        }
    }

    fn len_of(&self, level: u32, node: usize) -> usize {
        if level == 0 {
            self.leaves[node].len
        } else {
            self.inners[node].len
        }
    }

    fn two_leaves(&mut self, a: usize, b: usize) -> [&mut Leaf<K, V>; 2] {
        let pair = self.leaves.get_disjoint_mut([a, b]);
        pair.expect("two nodes of the tree are two nodes")
    }

    fn two_inners(&mut self, a: usize, b: usize) -> [&mut Inner<K, V::Best>; 2] {
        let pair = self.inners.get_disjoint_mut([a, b]);
        pair.expect("two nodes of the tree are two nodes")
    }

    pub(super) fn new_leaf(&mut self) -> u32 {
        if let Some(node) = self.spare_leaves.pop() {
            self.leaves[node as usize] = Leaf::new();
            return node;
        }
        self.leaves.push(Leaf::new());
        (self.leaves.len() - 1) as u32
    }

    fn new_inner(&mut self) -> u32 {
        if let Some(node) = self.spare_inners.pop() {
            self.inners[node as usize] = Inner::new();
            return node;
        }
        self.inners.push(Inner::new());
        (self.inners.len() - 1) as u32
    }

    /// Takes a node out of use, and a leaf out of the chain.
    fn release(&mut self, level: u32, node: usize) {
        if level > 0 {
            self.spare_inners.push(node as u32);
            return;
        }
        let Leaf { prev, next, .. } = self.leaves[node];
        if let Some(leaf) = self.leaves.get_mut(prev as usize) {
            leaf.next = next;
        }
        if let Some(leaf) = self.leaves.get_mut(next as usize) {
            leaf.prev = prev;
        }
        self.spare_leaves.push(node as u32);
    }
}
