//! What a bin or a digit holds: a bucket, and once that is full a node that divides by a digit.
//!
//! A node has a child for each value of six bits, those from the highest in which its entries
//! differ: bits of the size, and of the address where all sizes are equal. What all of them
//! have in common is skipped, as in Morrison, "PATRICIA" (1968). A bit for each child says
//! whether it has entries.

#[cfg(test)]
mod check;

use super::buckets::{Buckets, FULL, Pool, Slot};
use super::group::Group;
use super::scale::Word;

/// Children of a node.
const FAN: usize = 64;

/// A node with so few entries becomes a bucket again.
const FEW: u32 = FULL as u32 / 2;

/// Entries that agree above a digit, by that digit.
struct Node<W> {
    /// A word of this node; of others only the bits above the digit are known to be equal.
    like: W,
    /// One bit a child: it has entries.
    used: u64,
    /// Where the digit begins.
    shift: u32,
    /// Entries below this node.
    count: u32,
    children: [Slot; FAN],
}

impl<W: Word> Node<W> {
    fn new(like: W, shift: u32, count: u32) -> Self {
        Node {
            like,
            used: 0,
            shift,
            count,
            children: [Slot::NONE; FAN],
        }
    }

    /// Whether a word agrees with those of the node above the digit.
    #[inline]
    fn is_like(&self, word: W) -> bool {
        word.prefix(self.shift) == self.like.prefix(self.shift)
    }

    #[inline]
    fn digit(&self, word: W) -> usize {
        word.digit(self.shift)
    }

    /// The children with entries above a digit, a bit for each.
    #[inline]
    fn used_above(&self, digit: usize) -> u64 {
        // Two shifts: one by 64 is none.
        self.used & (u64::MAX << digit << 1)
    }

    /// The children with entries below a digit, a bit for each.
    #[inline]
    fn used_below(&self, digit: usize) -> u64 {
        self.used & ((1 << digit) - 1)
    }

    /// The first of the children `used`, some of which there are.
    #[inline]
    fn first(&self, used: u64) -> Slot {
        self.children[used.trailing_zeros() as usize]
    }

    /// The last of the children `used`, some of which there are.
    #[inline]
    fn last(&self, used: u64) -> Slot {
        self.children[used.ilog2() as usize]
    }
}

/// The buckets and nodes of an index; a [`Slot`] of a bin is the root of a tree of them.
pub(super) struct Digits<W> {
    buckets: Buckets<W>,
    nodes: Pool<Node<W>>,
}

impl<W: Word> Digits<W> {
    pub(super) fn new() -> Self {
        Digits {
            buckets: Buckets::new(),
            nodes: Pool::new(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.buckets.clear();
        self.nodes.clear();
    }

    /// A bucket with room for more than a full bin.
    #[cold]
    pub(super) fn new_bucket(&mut self, entries: impl Iterator<Item = (W, u32)>) -> Slot {
        self.buckets.large(entries)
    }

    /// Gives a bucket back; returns what it held.
    pub(super) fn take_bucket(&mut self, bucket: Slot) -> Group<W, 4> {
        self.buckets.take_large(bucket)
    }

    /// Adds an entry to a bucket or a tree. Panics if it is there already.
    #[inline]
    pub(super) fn insert(&mut self, root: &mut Slot, entry: (W, u32)) {
        if !root.is_node() {
            if !root.is_full() {
                return self.buckets.push(root, entry);
            }
            *root = self.divide(*root);
        }
        self.insert_in_tree(root, entry);
    }

    fn insert_in_tree(&mut self, root: &mut Slot, entry: (W, u32)) {
        let (word, _) = entry;
        if !self.nodes.items[root.at as usize].is_like(word) {
            *root = self.lift(*root, word);
        }
        let mut at = root.at as usize;
        loop {
            let node = &mut self.nodes.items[at];
            let digit = node.digit(word);
            node.used |= 1 << digit;
            node.count += 1;
            let child = &mut node.children[digit];
            if !child.is_full() {
                return self.buckets.push(child, entry);
            }
            let mut slot = *child;
            if !slot.is_node() {
                slot = if slot.len() < FULL {
                    self.buckets.grow(slot)
                } else {
                    self.divide(slot)
                };
                if !slot.is_node() {
                    self.buckets.push(&mut slot, entry);
                    self.nodes.items[at].children[digit] = slot;
                    return;
                }
                self.nodes.items[at].children[digit] = slot;
            }
            if !self.nodes.items[slot.at as usize].is_like(word) {
                slot = self.lift(slot, word);
                self.nodes.items[at].children[digit] = slot;
            }
            at = slot.at as usize;
        }
    }

    /// Divides the entries of a full bucket.
    #[cold]
    fn divide(&mut self, slot: Slot) -> Slot {
        let bucket = self.buckets.take_large(slot);
        let (like, _) = bucket.get(0);
        let others = bucket.entries(FULL).skip(1);
        let highest = others.map(|(word, _)| word.highest_difference(like)).max();
        let shift = highest.expect("more than one entry").saturating_sub(5);
        let mut slot = Slot::of_node(self.nodes.add(Node::new(like, shift, 0)));
        for entry in bucket.entries(FULL) {
            self.insert_in_tree(&mut slot, entry);
        }
        slot
    }

    /// Puts a node above one that a word does not agree with.
    #[cold]
    fn lift(&mut self, slot: Slot, word: W) -> Slot {
        let Node {
            like, shift, count, ..
        } = self.nodes.items[slot.at as usize];
        // As many bits as there are between both, up to a whole digit.
        let highest = word.highest_difference(like);
        let shift = highest.saturating_sub(5).max(shift + 6);
        let mut node = Node::new(like, shift, count);
        let digit = node.digit(like);
        node.used = 1 << digit;
        node.children[digit] = slot;
        Slot::of_node(self.nodes.add(node))
    }

    /// Removes an entry; false if it was not there.
    #[inline]
    pub(super) fn remove(&mut self, root: &mut Slot, word: W) -> bool {
        if root.is_node() {
            if !self.is_few(*root) {
                return self.remove_from_tree(*root, word);
            }
            *root = self.gather(*root);
        }
        self.buckets.take(root, word)
    }

    fn remove_from_tree(&mut self, root: Slot, word: W) -> bool {
        let mut at = root.at as usize;
        loop {
            let node = &mut self.nodes.items[at];
            node.count -= 1;
            let digit = node.digit(word);
            let mut child = node.children[digit];
            if child.is_node() {
                if !self.is_few(child) {
                    at = child.at as usize;
                    continue;
                }
                child = self.gather(child);
            }
            let was_there = self.buckets.take(&mut child, word);
            if child.is_sparse() {
                child = self.buckets.shrink(child);
            }
            let node = &mut self.nodes.items[at];
            node.children[digit] = child;
            node.used &= !(u64::from(child.is_empty()) << digit);
            if !was_there {
                self.uncount(root, word);
            }
            return was_there;
        }
    }

    /// Counts an entry again that was not there.
    #[cold]
    fn uncount(&mut self, mut slot: Slot, word: W) {
        while slot.is_node() {
            let node = &mut self.nodes.items[slot.at as usize];
            node.count += 1;
            slot = node.children[node.digit(word)];
        }
    }

    #[inline]
    fn is_few(&self, slot: Slot) -> bool {
        self.nodes.items[slot.at as usize].count <= FEW
    }

    /// Puts the few entries below a node into one bucket.
    #[cold]
    fn gather(&mut self, slot: Slot) -> Slot {
        let (mut bucket, mut len) = (Group::EMPTY, 0);
        self.take_apart(slot, &mut |entry| {
            bucket.push(len, entry);
            len += 1;
        });
        self.buckets.add_large(bucket, len)
    }

    /// Gives all nodes and buckets of a slot back.
    fn take_apart(&mut self, slot: Slot, visit: &mut impl FnMut((W, u32))) {
        if slot.is_node() {
            for digit in 0..FAN {
                let child = self.nodes.items[slot.at as usize].children[digit];
                self.take_apart(child, visit);
            }
            self.nodes.free(slot.at);
        } else {
            self.buckets.entries(slot).for_each(&mut *visit);
            self.buckets.free(slot);
        }
    }

    /// The first entry of a slot that is not before `word`.
    #[inline]
    pub(super) fn at_least(&self, slot: Slot, word: W) -> Option<(W, u32)> {
        if slot.is_node() {
            return self.at_least_below(slot, word);
        }
        self.buckets.at_least(slot, word)
    }

    fn at_least_below(&self, mut slot: Slot, word: W) -> Option<(W, u32)> {
        // The child after the way that `word` takes, of the lowest node that has one.
        let mut after = None;
        while slot.is_node() {
            let node = &self.nodes.items[slot.at as usize];
            if !node.is_like(word) {
                let whole = (word < node.like).then_some(slot).or(after);
                return whole.map(|slot| self.first(slot));
            }
            let digit = node.digit(word);
            let used = node.used_above(digit);
            if used != 0 {
                after = Some(node.first(used));
            }
            slot = node.children[digit];
        }
        let found = self.buckets.at_least(slot, word);
        found.or_else(|| after.map(|slot| self.first(slot)))
    }

    /// The last entry of a slot that is before `word`.
    #[inline]
    pub(super) fn below(&self, mut slot: Slot, word: W) -> Option<(W, u32)> {
        let mut before = None;
        while slot.is_node() {
            let node = &self.nodes.items[slot.at as usize];
            if !node.is_like(word) {
                let whole = (word > node.like).then_some(slot).or(before);
                return whole.map(|slot| self.last(slot));
            }
            let digit = node.digit(word);
            let used = node.used_below(digit);
            if used != 0 {
                before = Some(node.last(used));
            }
            slot = node.children[digit];
        }
        let found = self.buckets.below(slot, word);
        found.or_else(|| before.map(|slot| self.last(slot)))
    }

    /// The first entry of a slot that has some.
    #[inline]
    pub(super) fn first(&self, mut slot: Slot) -> (W, u32) {
        while slot.is_node() {
            let node = &self.nodes.items[slot.at as usize];
            slot = node.first(node.used);
        }
        self.buckets.first(slot)
    }

    /// The last entry of a slot that has some.
    #[inline]
    pub(super) fn last(&self, mut slot: Slot) -> (W, u32) {
        while slot.is_node() {
            let node = &self.nodes.items[slot.at as usize];
            slot = node.last(node.used);
        }
        self.buckets.below(slot, W::MAX).expect("an entry")
    }
}
