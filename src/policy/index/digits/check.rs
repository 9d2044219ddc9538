//! Whether a tree of digits agrees with itself; for tests.

use super::{Digits, FAN, FEW};
use crate::policy::index::buckets::Slot;
use crate::policy::index::scale::Word;

impl<W: Word> Digits<W> {
    /// Panics unless the entries of a slot are where they belong; returns their words.
    pub(in crate::policy::index) fn check(&self, slot: Slot) -> Vec<W> {
        if !slot.is_node() {
            return self.buckets.check(slot);
        }
        let node = &self.nodes.items[slot.at as usize];
        let mut all = Vec::new();
        for digit in 0..FAN {
            let child = node.children[digit];
            let words = self.check(child);
            assert_eq!(node.used >> digit & 1 == 1, !words.is_empty());
            assert!(words.iter().all(|word| node.is_like(*word)));
            assert!(words.iter().all(|word| node.digit(*word) == digit));
            if child.is_node() {
                assert!(self.nodes.items[child.at as usize].shift < node.shift);
            }
            all.extend(words);
        }
        assert_eq!(all.len(), node.count as usize);
        assert!(node.count >= FEW, "a node of {} entries", node.count);
        all
    }

    /// Panics unless every bucket and node belongs to one of these slots or is spare.
    pub(in crate::policy::index) fn check_pools(&self, roots: &[Slot]) {
        let (mut buckets, mut nodes, mut open) = (Vec::new(), 0, roots.to_vec());
        while let Some(slot) = open.pop() {
            if slot.is_node() {
                nodes += 1;
                open.extend(self.nodes.items[slot.at as usize].children);
            } else {
                buckets.push(slot);
            }
        }
        assert_eq!(nodes, self.nodes());
        self.buckets.check_pools(&buckets);
    }

    /// Nodes in use.
    pub(in crate::policy::index) fn nodes(&self) -> usize {
        self.nodes.in_use()
    }
}
