//! The invariants of the tree, checked from scratch.

use super::super::node::{FAN, Key, NONE, Value};
use super::{Pool, Root};

/// What a walk over one tree has seen.
#[derive(Default)]
struct Seen {
    leaves: Vec<u32>,
    inners: Vec<u32>,
}

impl<K: Key + std::fmt::Debug, V: Value> Pool<K, V> {
    /// Panics unless `roots` are sound trees that use every node which is not spare, each once.
    pub(in super::super) fn check(&self, roots: &[Root]) {
        let (mut leaves, mut inners) = (self.spare_leaves.clone(), self.spare_inners.clone());
        for root in roots.iter().filter(|root| !root.is_empty()) {
            let mut seen = Seen::default();
            self.check_node(root.node, root.level, None, None, &mut seen);
            if root.level > 0 {
                assert!(self.inners[root.node as usize].len >= 2, "an idle root");
            }
            self.check_chain(&seen.leaves);
            leaves.append(&mut seen.leaves);
            inners.append(&mut seen.inners);
        }
        for (mut used, pool_len) in [(leaves, self.leaves.len()), (inners, self.inners.len())] {
            used.sort_unstable();
            assert!(used.iter().copied().eq(0..pool_len as u32), "a node lost");
        }
    }

    /// Nodes in use, leaves and inner ones.
    pub(in super::super) fn nodes(&self) -> usize {
        let spare = self.spare_leaves.len() + self.spare_inners.len();
        self.leaves.len() + self.inners.len() - spare
    }

    /// Checks a node whose keys must lie in `low..high`; returns the greatest value below it.
    fn check_node(
        &self,
        node: u32,
        level: u32,
        low: Option<K>,
        high: Option<K>,
        seen: &mut Seen,
    ) -> V::Best {
        let within = |key: K| {
            assert!(low.is_none_or(|low| low <= key), "{key:?} below its node");
            assert!(high.is_none_or(|high| key < high), "{key:?} above its node");
        };
        if level == 0 {
            seen.leaves.push(node);
            let leaf = &self.leaves[node as usize];
            self.check_keys(&leaf.keys, leaf.len);
            leaf.keys[..leaf.len].iter().copied().for_each(within);
            return leaf.best();
        }
        seen.inners.push(node);
        let inner = &self.inners[node as usize];
        self.check_keys(&inner.keys, inner.len);
        assert!(inner.keys[0] == K::MIN, "a separator of the first child");
        inner.keys[1..inner.len].iter().copied().for_each(within);
        for slot in 0..inner.len {
            let low = if slot == 0 {
                low
            } else {
                Some(inner.keys[slot])
            };
            let last = slot + 1 == inner.len;
            let high = if last {
                high
            } else {
                Some(inner.keys[slot + 1])
            };
            let best = self.check_node(inner.children[slot], level - 1, low, high, seen);
            assert!(inner.bests[slot] == best, "a stale maximum");
        }
        inner.best()
    }

    fn check_keys(&self, keys: &[K; FAN], len: usize) {
        assert!(len > 0, "an empty node");
        assert!(keys[..len].is_sorted_by(|a, b| a < b), "keys out of order");
        assert!(keys[len..].iter().all(|key| *key == K::MAX), "filler lost");
    }

    fn check_chain(&self, leaves: &[u32]) {
        let mut prev = NONE;
        for (at, node) in leaves.iter().enumerate() {
            let leaf = &self.leaves[*node as usize];
            assert_eq!(leaf.prev, prev, "a broken chain");
            assert_eq!(leaf.next, leaves.get(at + 1).copied().unwrap_or(NONE));
            prev = *node;
        }
    }
}
