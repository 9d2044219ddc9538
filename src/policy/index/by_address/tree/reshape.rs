//! What changes the shape of the tree: splitting, lending, joining.
//!
//! Neighbours are children of one node. A full one lends to a neighbour before it is split, and one that
//! is half empty is joined with a neighbour where both fit, so that memory follows the entries.

use super::super::node::{FAN, Item, Node, Word};
use super::{NONE, Tree};

/// A neighbour with more takes nothing from a full node.
const LENT: usize = FAN * 3 / 4;

/// Two nodes are joined up to this, which leaves room before the next split.
const JOINED: usize = FAN - FAN / 8;

impl<W: Word> Tree<W> {
    /// Makes the first leaf.
    #[cold]
    pub(super) fn begin(&mut self) {
        self.clear();
        self.root = self.new_node();
    }

    /// Takes one step towards room in the leaf that was reached, which is full.
    #[cold]
    pub(super) fn make_room(&mut self, key: W) {
        for level in 0..self.height {
            let (above, slot) = self.way.step(level);
            if self.lend(level, above, slot) {
                return;
            }
            if !self.nodes[above].is_full() {
                let left_len = self.left_len(level, key);
                self.split(level, above, slot, left_len);
                return;
            }
        }
        let left_len = self.left_len(self.height, key);
        let root = self.new_node();
        let child = Item {
            key: W::GREATEST,
            size: self.best,
            name: self.root,
        };
        self.nodes[root as usize].insert(0, child);
        self.root = root;
        self.height += 1;
        self.split(self.height - 1, root as usize, 0, left_len);
    }

    /// How many items stay on the left where a node on the way to `key` is split.
    fn left_len(&self, level: u32, key: W) -> usize {
        let mut steps = (0..self.height).map(|level| self.way.step(level));
        let is_last = steps.all(|(node, slot)| slot + 1 == self.nodes[node].len());
        let leaf = &self.nodes[self.way.leaf.get() as usize];
        // Behind the last key more are likely to follow: the left leaf is left full.
        if level == 0 && is_last && leaf.keys[FAN - 1] < key {
            FAN - 2
        } else {
            FAN / 2
        }
    }

    /// Splits the child at `slot` of a node that has room.
    fn split(&mut self, level: u32, above: usize, slot: usize, left_len: usize) {
        let right = Item {
            key: self.nodes[above].keys[slot],
            size: W::LEAST,
            name: self.new_node(),
        };
        self.nodes[above].insert(slot + 1, right);
        self.deal(level, above, slot, left_len);
    }

    /// Gives the emptier neighbour of a full node as much as makes both equal, if it has room.
    fn lend(&mut self, level: u32, above: usize, slot: usize) -> bool {
        let len_at = |slot: usize| self.child_len(above, slot);
        let left = slot.checked_sub(1).map(|left| (len_at(left), left));
        let right = (slot + 1 < self.nodes[above].len()).then(|| (len_at(slot + 1), slot));
        let emptier = left.into_iter().chain(right).min();
        let Some((_, left_slot)) = emptier.filter(|(len, _)| *len <= LENT) else {
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
            if !self.join(level, above, slot) || !self.nodes[above].is_sparse() {
                break;
            }
        }
        while self.height > 0 && self.nodes[self.root as usize].len() == 1 {
            self.spare.push(self.root);
            self.root = self.nodes[self.root as usize].names[0];
            self.height -= 1;
        }
        self.way.leaf.set(NONE);
    }

    /// Joins the child at `slot` with a neighbour if both fit into one node; true if so. If they do not,
    /// a child that has little gets some of the neighbour's.
    fn join(&mut self, level: u32, above: usize, slot: usize) -> bool {
        let right_slot = (slot + 1).min(self.nodes[above].len() - 1);
        let both_len = |left: usize| self.child_len(above, left) + self.child_len(above, left + 1);
        let right_first = [right_slot - 1, slot.saturating_sub(1)];
        let fits = right_first
            .into_iter()
            .find(|left| both_len(*left) <= JOINED);
        let Some(left_slot) = fits else {
            if self.child_len(above, slot) <= FAN / 4 {
                self.even_out(level, above, right_slot - 1);
            }
            return false;
        };
        let total = both_len(left_slot);
        self.deal(level, above, left_slot, total);
        let upper = self.nodes[above].item(left_slot + 1);
        self.nodes[above].remove(left_slot + 1);
        self.nodes[above].keys[left_slot] = upper.key;
        self.spare.push(upper.name);
        true
    }

    /// Deals the items of the children at `left_slot` and after it out evenly.
    fn even_out(&mut self, level: u32, above: usize, left_slot: usize) {
        let total = self.child_len(above, left_slot) + self.child_len(above, left_slot + 1);
        self.deal(level, above, left_slot, total / 2);
    }

    /// Deals the items of the children at `left_slot` and after it out, `left_len` to the left one.
    fn deal(&mut self, level: u32, above: usize, left_slot: usize, left_len: usize) {
        let pair = [left_slot, left_slot + 1].map(|slot| self.nodes[above].names[slot] as usize);
        let nodes = self.nodes.get_disjoint_mut(pair);
        let [left, right] = nodes.expect("two nodes of the tree are two nodes");
        Node::deal(left, right, left_len);
        // Above the leaves the greatest key of a node is where its range ends.
        let end = match level {
            0 if right.len() > 0 => right.keys[0].before(),
            _ => left.keys[left_len - 1],
        };
        let bests = [left.best(), right.best()];
        let above = &mut self.nodes[above];
        above.keys[left_slot] = end;
        above.sizes[left_slot..left_slot + 2].copy_from_slice(&bests);
        self.way.leaf.set(NONE);
    }

    #[inline]
    fn child_len(&self, above: usize, slot: usize) -> usize {
        self.nodes[self.nodes[above].names[slot] as usize].len()
    }

    fn new_node(&mut self) -> u32 {
        if let Some(node) = self.spare.pop() {
            self.nodes[node as usize] = Node::EMPTY;
            return node;
        }
        self.nodes.push(Node::EMPTY);
        (self.nodes.len() - 1) as u32
    }
}
