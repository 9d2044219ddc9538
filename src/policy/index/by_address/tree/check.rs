//! The invariants of the tree, checked from scratch.

use super::super::node::{FAN, Word};
use super::Tree;

impl<W: Word + std::fmt::Debug> Tree<W> {
    /// Panics unless the tree is sound and uses every node which is not spare, once.
    pub(in super::super) fn check(&self) {
        let mut used = self.spare.clone();
        if self.len == 0 {
            assert_eq!((self.nodes.len(), self.best), (0, W::LEAST));
            return;
        }
        let (best, len) =
            self.check_node(self.root, self.height, [W::LEAST, W::GREATEST], &mut used);
        assert_eq!((self.best, self.len), (best, len));
        let root = &self.nodes[self.root as usize];
        assert!(self.height == 0 || root.len() >= 2, "an idle root");
        used.sort_unstable();
        assert!(
            used.into_iter().eq(0..self.nodes.len() as u32),
            "a node lost"
        );
    }

    /// Nodes in use, leaves and inner ones.
    pub(in super::super) fn nodes(&self) -> usize {
        self.nodes.len() - self.spare.len()
    }

    /// Checks a node whose keys lie in the range from `low` to `high`, both included; returns its
    /// greatest size and the number of entries below it.
    fn check_node(
        &self,
        name: u32,
        height: u32,
        [low, high]: [W; 2],
        used: &mut Vec<u32>,
    ) -> (W, usize) {
        used.push(name);
        let node = &self.nodes[name as usize];
        let len = node.len();
        let keys = &node.keys[..len];
        assert!(len > 0 && keys.is_sorted_by(|a, b| a < b), "{keys:?}");
        assert!(low <= keys[0] && keys[len - 1] <= high, "{keys:?} outside");
        assert!(node.keys[len..].iter().all(|key| *key == W::GREATEST));
        assert!(node.sizes[len..].iter().all(|size| *size == W::LEAST));
        if height == 0 {
            return (node.best(), len);
        }
        assert!(keys[len - 1] == high, "an end that no key reaches");
        assert!(len >= FAN / 4, "a sparse node");
        let (mut low, mut entries) = (low, 0);
        for at in 0..len {
            let child = node.item(at);
            let below = self.check_node(child.name, height - 1, [low, child.key], used);
            assert_eq!(below.0, child.size, "a stale maximum");
            entries += below.1;
            low = child.key;
        }
        (node.best(), entries)
    }
}
