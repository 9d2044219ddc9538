//! What lies next to a key.

use super::super::node::Item;
use super::super::word::Word;
use super::Tree;

impl<W: Word> Tree<W> {
    /// The last entry whose key is not above `key`.
    #[inline(always)]
    pub(in super::super) fn at_most(&self, key: W) -> Option<Item<W>> {
        if self.len == 0 {
            return None;
        }
        let (leaf, at) = self.place_of(key);
        let leaf = &self.leaves[leaf];
        if leaf.holds(at, key) {
            return Some(leaf.item(at));
        }
        let Some(before) = at.checked_sub(1) else {
            return self.last_before();
        };
        self.way.at.set(before as u32);
        Some(leaf.item(before))
    }

    /// The first entry whose key is above `key`.
    #[inline(always)]
    pub(in super::super) fn above(&self, key: W) -> Option<Item<W>> {
        if self.len == 0 {
            return None;
        }
        let (leaf, at) = self.seek(key);
        let leaf = &self.leaves[leaf];
        let at = at + usize::from(leaf.holds(at, key));
        if at < leaf.len() {
            self.way.at.set(at as u32);
            return Some(leaf.item(at));
        }
        self.first_after()
    }

    /// The last entry of the leaf before the one that was reached.
    fn last_before(&self) -> Option<Item<W>> {
        let mut steps = (0..self.height).map(|level| (level, self.way.step(level)));
        let (level, (node, slot)) = steps.find(|(_, (_, slot))| *slot > 0)?;
        let mut node = self.inners[node].names[slot - 1];
        for _ in 0..level {
            let inner = &self.inners[node];
            node = inner.names[inner.len() - 1];
        }
        let leaf = &self.leaves[node];
        Some(leaf.item(leaf.len() - 1))
    }

    /// The first entry of the leaf after the one that was reached.
    fn first_after(&self) -> Option<Item<W>> {
        let mut steps = (0..self.height).map(|level| (level, self.way.step(level)));
        let (level, (node, slot)) =
            steps.find(|(_, (node, slot))| slot + 1 < self.inners[*node].len())?;
        let mut node = self.inners[node].names[slot + 1];
        for _ in 0..level {
            node = self.inners[node].names[0];
        }
        Some(self.leaves[node].item(0))
    }

    /// The first entry of all.
    pub(in super::super) fn first(&self) -> Option<Item<W>> {
        let mut node = self.root;
        for level in (0..self.height).rev() {
            self.way.take(level, node, 0);
            node = self.inners[node].names[0];
        }
        self.way.arrive(node, 0);
        (self.len > 0).then(|| self.leaves[node].item(0))
    }

    /// All entries in order.
    pub(in super::super) fn iter(&self) -> impl Iterator<Item = Item<W>> + '_ {
        std::iter::successors(self.first(), |item| self.above(item.key))
    }
}
