//! What a bin or a digit holds: a bucket, and once that is full a node that divides by a digit.
//!
//! A node has a child for each value of six bits, those from the highest in which its entries
//! differ: bits of the size, and of the address where all sizes are equal. What all of them
//! have in common is skipped, as in Morrison, "PATRICIA" (1968). A bit for each child says
//! whether it has entries.

#[cfg(test)]
mod check;

use super::buckets::{Buckets, FULL, Slot};
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
    nodes: Vec<Node<W>>,
    spare: Vec<u32>,
}

impl<W: Word> Digits<W> {
    pub(super) fn new() -> Self {
        Digits {
            buckets: Buckets::new(),
            nodes: Vec::new(),
            spare: Vec::new(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.buckets.clear();
        self.nodes.clear();
        self.spare.clear();
    }

    /// The entry at a place of a bucket.
    pub(super) fn get(&self, bucket: Slot, place: usize) -> (W, u32) {
        self.buckets.get(bucket, place)
    }

    /// Gives a bucket back.
    pub(super) fn free(&mut self, bucket: Slot) {
        self.buckets.free(bucket);
    }

    /// Adds an entry. Panics if it is there already.
    #[inline]
    pub(super) fn insert(&mut self, root: &mut Slot, entry: (W, u32)) {
        if root.has_room() {
            self.buckets.push(root, entry);
        } else {
            self.insert_below(root, entry);
        }
    }

    /// Adds an entry below a node, or to a bucket that is full.
    fn insert_below(&mut self, root: &mut Slot, entry: (W, u32)) {
        let (word, _) = entry;
        if !root.is_node() {
            *root = self.extend(*root);
            if !root.is_node() {
                return self.buckets.push(root, entry);
            }
        }
        if !self.nodes[root.at as usize].is_like(word) {
            *root = self.lift(*root, word);
        }
        let mut at = root.at as usize;
        loop {
            let node = &mut self.nodes[at];
            let digit = node.digit(word);
            node.used |= 1 << digit;
            node.count += 1;
            let child = &mut node.children[digit];
            if child.has_room() {
                return self.buckets.push(child, entry);
            }
            let mut slot = *child;
            if !slot.is_node() {
                slot = self.extend(slot);
                self.nodes[at].children[digit] = slot;
                if !slot.is_node() {
                    return self.buckets.push(&mut self.nodes[at].children[digit], entry);
                }
            }
            if !self.nodes[slot.at as usize].is_like(word) {
                slot = self.lift(slot, word);
                self.nodes[at].children[digit] = slot;
            }
            at = slot.at as usize;
        }
    }

    /// Makes room in a full bucket: twice the places, or a node.
    #[cold]
    fn extend(&mut self, slot: Slot) -> Slot {
        if slot.room() < FULL {
            return self.buckets.grow(slot);
        }
        let (first, _) = self.buckets.get(slot, 0);
        let others = (1..FULL).map(|place| self.buckets.get(slot, place).0);
        let highest = others.map(|word| word.highest_difference(first)).max();
        let shift = highest.expect("more than one entry").saturating_sub(5);
        let new = self.new_node(Node::new(first, shift, 0));
        for place in 0..FULL {
            let entry = self.buckets.get(slot, place);
            self.insert_below(&mut Slot::of_node(new), entry);
        }
        self.buckets.free(slot);
        Slot::of_node(new)
    }

    /// Puts a node above one that a word does not agree with.
    #[cold]
    fn lift(&mut self, slot: Slot, word: W) -> Slot {
        let Node { like, shift, count, .. } = self.nodes[slot.at as usize];
        // As many bits as there are between both, up to a whole digit.
        let highest = word.highest_difference(like);
        let shift = highest.saturating_sub(5).max(shift + 6);
        let mut node = Node::new(like, shift, count);
        let digit = node.digit(like);
        node.used = 1 << digit;
        node.children[digit] = slot;
        Slot::of_node(self.new_node(node))
    }

    fn new_node(&mut self, node: Node<W>) -> u32 {
        if let Some(at) = self.spare.pop() {
            self.nodes[at as usize] = node;
            return at;
        }
        self.nodes.push(node);
        (self.nodes.len() - 1) as u32
    }

    /// Removes an entry; false if it was not there.
    #[inline]
    pub(super) fn remove(&mut self, root: &mut Slot, word: W) -> bool {
        if !root.is_node() {
            return self.take(root, word);
        }
        self.remove_below(root, word)
    }

    #[inline]
    fn take(&mut self, slot: &mut Slot, word: W) -> bool {
        let was_there = self.buckets.take(slot, word);
        if slot.is_sparse() {
            *slot = self.buckets.shrink(*slot);
        }
        was_there
    }

    /// Removes an entry below a node.
    fn remove_below(&mut self, root: &mut Slot, word: W) -> bool {
        if self.is_few(*root) {
            *root = self.gather(*root);
            return self.take(root, word);
        }
        let mut at = root.at as usize;
        loop {
            let node = &mut self.nodes[at];
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
            let was_there = self.take(&mut child, word);
            let node = &mut self.nodes[at];
            node.children[digit] = child;
            node.used &= !(u64::from(child.is_empty()) << digit);
            if !was_there {
                self.uncount(*root, word);
            }
            return was_there;
        }
    }

    /// Counts an entry again that was not there.
    #[cold]
    fn uncount(&mut self, mut slot: Slot, word: W) {
        while slot.is_node() {
            let node = &mut self.nodes[slot.at as usize];
            node.count += 1;
            slot = node.children[node.digit(word)];
        }
    }

    #[inline]
    fn is_few(&self, slot: Slot) -> bool {
        self.nodes[slot.at as usize].count <= FEW
    }

    /// Puts the few entries below a node into one bucket.
    #[cold]
    fn gather(&mut self, slot: Slot) -> Slot {
        let mut bucket = self.buckets.new_bucket(FULL);
        self.pour(slot, &mut bucket);
        bucket
    }

    /// Moves all entries of a slot into a bucket.
    fn pour(&mut self, slot: Slot, bucket: &mut Slot) {
        if slot.is_node() {
            for digit in 0..FAN {
                let child = self.nodes[slot.at as usize].children[digit];
                self.pour(child, bucket);
            }
            self.spare.push(slot.at);
            return;
        }
        for place in 0..slot.len() {
            let entry = self.buckets.get(slot, place);
            self.buckets.push(bucket, entry);
        }
        self.buckets.free(slot);
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
            let node = &self.nodes[slot.at as usize];
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
            let node = &self.nodes[slot.at as usize];
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
            let node = &self.nodes[slot.at as usize];
            slot = node.first(node.used);
        }
        self.buckets.at_least(slot, W::MIN).expect("an entry")
    }

    /// The last entry of a slot that has some.
    #[inline]
    pub(super) fn last(&self, mut slot: Slot) -> (W, u32) {
        while slot.is_node() {
            let node = &self.nodes[slot.at as usize];
            slot = node.last(node.used);
        }
        self.buckets.below(slot, W::MAX).expect("an entry")
    }
}
