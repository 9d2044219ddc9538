//! What changes the shape of the tree: splitting, lending, joining.
//!
//! Neighbours are children of one node. A full one lends to a neighbour before it is split, and one that
//! is half empty is joined with a neighbour where both fit, so that memory follows the entries.

use super::super::node::{FAN, Item, LEAF, Node, Nodes};
use super::super::word::Word;
use super::{NONE, Tree};

/// Of `N` items. A neighbour with more takes nothing from a full node.
const fn lent(most: usize) -> usize {
    most * 3 / 4
}

/// Two nodes are joined up to this, which leaves room before the next split.
const fn joined(most: usize) -> usize {
    most - most / 8
}

/// Items that a node of a level may have.
fn most(level: u32) -> usize {
    if level == 0 { LEAF } else { FAN }
}

impl<W: Word> Tree<W> {
    /// Makes the first leaf.
    #[cold]
    pub(super) fn begin(&mut self) {
        self.clear();
        self.root = self.leaves.make();
    }

    /// Takes one step towards room in the leaf that was reached, which is full.
    #[cold]
    pub(super) fn make_room(&mut self, key: W) {
        for level in 0..self.height {
            let (above, slot) = self.way.step(level);
            if self.lend(level, above, slot) {
                return;
            }
            if !self.inners[above].is_full() {
                let left_len = self.left_len(level, key);
                self.split(level, above, slot, left_len);
                return;
            }
        }
        let left_len = self.left_len(self.height, key);
        let root = self.inners.make();
        let child = Item {
            key: W::GREATEST,
            size: self.best,
            name: self.root,
        };
        self.inners[root].insert(0, child);
        self.root = root;
        self.height += 1;
        self.split(self.height - 1, root, 0, left_len);
    }

    /// How many items stay on the left where a node on the way to `key` is split.
    fn left_len(&self, level: u32, key: W) -> usize {
        let mut steps = (0..self.height).map(|level| self.way.step(level));
        let is_last = steps.all(|(node, slot)| slot + 1 == self.inners[node].len());
        // Behind the last key more are likely to follow: the left leaf is left full.
        if level == 0 && is_last && self.leaves[self.way.leaf.get()].keys[LEAF - 1] < key {
            LEAF - 2
        } else {
            most(level) / 2
        }
    }

    /// Splits the child at `slot` of a node that has room.
    fn split(&mut self, level: u32, above: u32, slot: usize, left_len: usize) {
        let name = match level {
            0 => self.leaves.make(),
            _ => self.inners.make(),
        };
        let right = Item {
            key: self.inners[above].keys[slot],
            size: W::LEAST,
            name,
        };
        self.inners[above].insert(slot + 1, right);
        self.deal(level, above, slot, left_len);
    }

    /// Gives the emptier neighbour of a full node as much as makes both equal, if it has room.
    fn lend(&mut self, level: u32, above: u32, slot: usize) -> bool {
        let len_at = |slot: usize| self.child_len(level, above, slot);
        let left = slot.checked_sub(1).map(|left| (len_at(left), left));
        let right = (slot + 1 < self.inners[above].len()).then(|| (len_at(slot + 1), slot));
        let emptier = left.into_iter().chain(right).min();
        let Some((_, left_slot)) = emptier.filter(|(len, _)| *len <= lent(most(level))) else {
            return false;
        };
        self.even_out(level, above, left_slot);
        true
    }

    /// Makes the leaf that was reached, and nodes above it, less sparse.
    #[cold]
    pub(super) fn thin_out(&mut self) {
        if self.len == 0 {
            self.clear();
            return;
        }
        for level in 0..self.height {
            let (above, slot) = self.way.step(level);
            if !self.join(level, above, slot) || !self.inners[above].is_sparse() {
                break;
            }
        }
        while self.height > 0 && self.inners[self.root].len() == 1 {
            let child = self.inners[self.root].names[0];
            self.inners.release(self.root);
            self.root = child;
            self.height -= 1;
        }
        self.way.leaf.set(NONE);
    }

    /// Joins the child at `slot` with a neighbour if both fit into one node; true if so. If they do not,
    /// a child that has little gets some of the neighbour's.
    fn join(&mut self, level: u32, above: u32, slot: usize) -> bool {
        let right_slot = (slot + 1).min(self.inners[above].len() - 1);
        let both_len = |left: usize| {
            self.child_len(level, above, left) + self.child_len(level, above, left + 1)
        };
        let right_first = [right_slot - 1, slot.saturating_sub(1)];
        let fits = right_first
            .into_iter()
            .find(|left| both_len(*left) <= joined(most(level)));
        let Some(left_slot) = fits else {
            if self.child_len(level, above, slot) <= most(level) / 4 {
                self.even_out(level, above, right_slot - 1);
            }
            return false;
        };
        let total = both_len(left_slot);
        self.deal(level, above, left_slot, total);
        let upper = self.inners[above].item(left_slot + 1);
        self.inners[above].remove(left_slot + 1);
        self.inners[above].keys[left_slot] = upper.key;
        match level {
            0 => self.leaves.release(upper.name),
            _ => self.inners.release(upper.name),
        }
        true
    }

    /// Deals the items of the children at `left_slot` and after it out evenly.
    fn even_out(&mut self, level: u32, above: u32, left_slot: usize) {
        let total =
            self.child_len(level, above, left_slot) + self.child_len(level, above, left_slot + 1);
        self.deal(level, above, left_slot, total / 2);
    }

    /// Deals the items of the children at `left_slot` and after it out, `left_len` to the left one.
    fn deal(&mut self, level: u32, above: u32, left_slot: usize, left_len: usize) {
        let names = [left_slot, left_slot + 1].map(|slot| self.inners[above].names[slot]);
        let (end, bests) = match level {
            0 => deal(&mut self.leaves, names, left_len, |_, right| right.before()),
            _ => deal(&mut self.inners, names, left_len, |left, _| left),
        };
        let above = &mut self.inners[above];
        above.keys[left_slot] = end;
        above.sizes[left_slot..left_slot + 2].copy_from_slice(&bests);
        self.way.leaf.set(NONE);
    }

    fn child_len(&self, level: u32, above: u32, slot: usize) -> usize {
        let name = self.inners[above].names[slot];
        match level {
            0 => self.leaves[name].len(),
            _ => self.inners[name].len(),
        }
    }
}

/// Deals the items of two nodes out again; returns the greatest key of the left node's range, which `end`
/// chooses between the last key on the left and the first on the right, and the greatest sizes.
fn deal<W: Word, const N: usize>(
    nodes: &mut Nodes<W, N>,
    names: [u32; 2],
    left_len: usize,
    end: impl Fn(W, W) -> W,
) -> (W, [W; 2]) {
    let [left, right] = nodes.pair(names);
    Node::deal(left, right, left_len);
    let end = end(left.keys[left_len - 1], right.keys[0]);
    (end, [left.best(), right.best()])
}
