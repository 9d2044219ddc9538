//! The invariants of the tree, checked from scratch.

use super::super::node::{FAN, Node};
use super::super::word::Word;
use super::Tree;

/// The nodes that a walk has seen.
#[derive(Default)]
struct Seen {
    leaves: Vec<u32>,
    inners: Vec<u32>,
}

/// Checks a node whose keys lie in the range from `low` to `high`, both included.
fn check_items<W: Word + std::fmt::Debug, const N: usize>(node: &Node<W, N>, [low, high]: [W; 2]) {
    let len = node.len();
    let keys = &node.keys[..len];
    assert!(len > 0 && keys.is_sorted_by(|a, b| a < b), "{keys:?}");
    assert!(low <= keys[0] && keys[len - 1] <= high, "{keys:?} outside");
    assert!(node.keys[len..].iter().all(|key| *key == W::GREATEST));
    assert!(node.sizes[len..].iter().all(|size| *size == W::LEAST));
}

impl<W: Word + std::fmt::Debug> Tree<W> {
    /// Panics unless the tree is sound and uses every node which is not spare, once.
    pub(in super::super) fn check(&self) {
        if self.len == 0 {
            assert_eq!((self.nodes(), self.best), (0, W::LEAST));
            return;
        }
        let mut seen = Seen::default();
        let range = [W::LEAST, W::GREATEST];
        let (best, len) = self.check_node(self.root, self.height, range, &mut seen);
        assert_eq!((self.best, self.len), (best, len));
        assert!(
            self.height == 0 || self.inners[self.root].len() >= 2,
            "an idle root"
        );
        for (mut used, (spare, count)) in [
            (seen.leaves, self.leaves.census()),
            (seen.inners, self.inners.census()),
        ] {
            used.extend(spare);
            used.sort_unstable();
            assert!(used.into_iter().eq(0..count as u32), "a node lost");
        }
    }

    /// Nodes in use, leaves and inner ones.
    pub(in super::super) fn nodes(&self) -> usize {
        let used = |(spare, count): (&[u32], usize)| count - spare.len();
        used(self.leaves.census()) + used(self.inners.census())
    }

    /// Checks a node and all below it; returns its greatest size and the number of entries below it.
    fn check_node(&self, name: u32, height: u32, range: [W; 2], seen: &mut Seen) -> (W, usize) {
        if height == 0 {
            seen.leaves.push(name);
            let leaf = &self.leaves[name];
            check_items(leaf, range);
            return (leaf.best(), leaf.len());
        }
        seen.inners.push(name);
        let inner = &self.inners[name];
        check_items(inner, range);
        let [mut low, high] = range;
        assert!(
            inner.keys[inner.len() - 1] == high,
            "an end that no key reaches"
        );
        assert!(inner.len() >= FAN / 4, "a sparse node");
        let mut entries = 0;
        for at in 0..inner.len() {
            let child = inner.item(at);
            let below = self.check_node(child.name, height - 1, [low, child.key], seen);
            assert_eq!(below.0, child.size, "a stale maximum");
            entries += below.1;
            low = child.key;
        }
        (inner.best(), entries)
    }
}
