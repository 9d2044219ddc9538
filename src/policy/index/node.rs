//! The nodes of the B+-tree: fixed arrays, sorted, with room for [`FAN`] items.

/// Items in a node: wide enough for three levels at ten thousand entries, narrow enough to shift.
/// Narrower in tests, where small programs shall build tall trees.
pub(super) const FAN: usize = if cfg!(test) { 16 } else { 32 };

/// Items that `rank` counts in one go.
const STRIDE: usize = 8;

/// The name of no node.
pub(super) const NONE: u32 = u32::MAX;

/// What the tree is ordered by.
pub(super) trait Key: Copy + Ord {
    /// The least key, which stands for the separator of an inner node's first child.
    const MIN: Self;
    /// The greatest key, which fills the unused end of a node. It may also be a key of its own.
    const MAX: Self;
}

impl Key for u64 {
    const MIN: Self = u64::MIN;
    const MAX: Self = u64::MAX;
}

impl Key for u128 {
    const MIN: Self = u128::MIN;
    const MAX: Self = u128::MAX;
}

/// What the tree holds for a key, and the part of it whose maximum each inner node knows.
pub(super) trait Value: Copy + Default {
    /// The part that is maximised; `()` where nobody asks.
    type Best: Copy + Ord + Default;

    /// This value's part of the maximum.
    fn best(self) -> Self::Best;
}

/// Keys below `key` (or not above it, with `inclusive`) in a sorted array filled up with the greatest.
///
/// Counts without a branch on the keys, for they are what a predictor cannot guess: first over the
/// last key of each stride, then within one stride.
#[inline]
fn rank<K: Key>(keys: &[K; FAN], key: K, inclusive: bool) -> usize {
    let counts = |k: K| usize::from(if inclusive { k <= key } else { k < key });
    let strides: usize = (1..FAN / STRIDE)
        .map(|stride| counts(keys[stride * STRIDE - 1]))
        .sum();
    let start = strides * STRIDE;
    let within: usize = keys[start..start + STRIDE].iter().map(|k| counts(*k)).sum();
    start + within
}

/// Opens a gap at `at` in the first `len` items and fills it.
#[inline]
fn open<T: Copy>(items: &mut [T; FAN], len: usize, at: usize, item: T) {
    items.copy_within(at..len, at + 1);
    items[at] = item;
}

/// Closes the gap at `at` in the first `len` items and fills the end.
#[inline]
fn close<T: Copy>(items: &mut [T; FAN], len: usize, at: usize, filler: T) {
    items.copy_within(at + 1..len, at);
    items[len - 1] = filler;
}

/// Moves the items `from..len` of `left` to the start of `right`, which is empty.
fn halve<T: Copy>(left: &mut [T; FAN], right: &mut [T; FAN], from: usize, len: usize, filler: T) {
    right[..len - from].copy_from_slice(&left[from..len]);
    left[from..len].fill(filler);
}

/// The bottom of the tree: entries in order, linked to the leaves on both sides.
pub(super) struct Leaf<K, V> {
    pub(super) keys: [K; FAN],
    pub(super) values: [V; FAN],
    pub(super) len: usize,
    pub(super) prev: u32,
    pub(super) next: u32,
}

impl<K: Key, V: Value> Leaf<K, V> {
    pub(super) fn new() -> Self {
        Leaf {
            keys: [K::MAX; FAN],
            values: [V::default(); FAN],
            len: 0,
            prev: NONE,
            next: NONE,
        }
    }

    /// Position of the first key that is not below `key`.
    #[inline]
    pub(super) fn lower(&self, key: K) -> usize {
        rank(&self.keys, key, false)
    }

    /// Position of the first key above `key`. The filler counts as a key, hence the limit.
    #[inline]
    pub(super) fn upper(&self, key: K) -> usize {
        rank(&self.keys, key, true).min(self.len)
    }

    #[inline]
    pub(super) fn insert(&mut self, at: usize, key: K, value: V) {
        open(&mut self.keys, self.len, at, key);
        open(&mut self.values, self.len, at, value);
        self.len += 1;
    }

    #[inline]
    pub(super) fn remove(&mut self, at: usize) {
        close(&mut self.keys, self.len, at, K::MAX);
        close(&mut self.values, self.len, at, V::default());
        self.len -= 1;
    }

    /// Moves the entries from `from` on to `right`, which is empty.
    pub(super) fn split_into(&mut self, right: &mut Self, from: usize) {
        halve(&mut self.keys, &mut right.keys, from, self.len, K::MAX);
        halve(
            &mut self.values,
            &mut right.values,
            from,
            self.len,
            V::default(),
        );
        right.len = self.len - from;
        self.len = from;
    }

    /// Takes over the entries of the right neighbour.
    pub(super) fn append(&mut self, right: &Self) {
        let end = self.len + right.len;
        self.keys[self.len..end].copy_from_slice(&right.keys[..right.len]);
        self.values[self.len..end].copy_from_slice(&right.values[..right.len]);
        self.len = end;
    }

    #[inline]
    pub(super) fn best(&self) -> V::Best {
        let best = self.values[..self.len].iter().map(|value| value.best());
        best.max().unwrap_or_default()
    }
}

/// Above the leaves: for each child its separator, its name and the maximum below it.
///
/// Child `i` holds keys from its separator up to the separator of child `i + 1`. Child 0 has the least
/// key there, for its lower end is the one that the parent holds for this node, and moves with it.
pub(super) struct Inner<K, B> {
    pub(super) keys: [K; FAN],
    pub(super) bests: [B; FAN],
    pub(super) children: [u32; FAN],
    pub(super) len: usize,
}

impl<K: Key, B: Copy + Ord + Default> Inner<K, B> {
    pub(super) fn new() -> Self {
        Inner {
            keys: [K::MAX; FAN],
            bests: [B::default(); FAN],
            children: [NONE; FAN],
            len: 0,
        }
    }

    /// Slot of the child whose range holds `key`.
    #[inline]
    pub(super) fn slot(&self, key: K) -> usize {
        // The filler is not a child.
        rank(&self.keys, key, true).min(self.len) - 1
    }

    /// First slot, from `start` on, below which something reaches `need`.
    #[inline]
    pub(super) fn slot_with(&self, need: B, start: usize) -> Option<usize> {
        let bests = self.bests[start..self.len].iter();
        let found = bests.clone().position(|best| *best >= need);
        found.map(|offset| start + offset)
    }

    pub(super) fn insert(&mut self, at: usize, key: K, child: u32, best: B) {
        open(&mut self.keys, self.len, at, key);
        open(&mut self.bests, self.len, at, best);
        open(&mut self.children, self.len, at, child);
        self.len += 1;
    }

    pub(super) fn remove(&mut self, at: usize) {
        close(&mut self.keys, self.len, at, K::MAX);
        close(&mut self.bests, self.len, at, B::default());
        close(&mut self.children, self.len, at, NONE);
        self.len -= 1;
        self.keys[0] = K::MIN;
    }

    /// Moves the children from `from` on to `right`, which is empty; returns where its range starts.
    pub(super) fn split_into(&mut self, right: &mut Self, from: usize) -> K {
        halve(&mut self.keys, &mut right.keys, from, self.len, K::MAX);
        halve(
            &mut self.bests,
            &mut right.bests,
            from,
            self.len,
            B::default(),
        );
        halve(
            &mut self.children,
            &mut right.children,
            from,
            self.len,
            NONE,
        );
        right.len = self.len - from;
        self.len = from;
        std::mem::replace(&mut right.keys[0], K::MIN)
    }

    /// Takes over the children of the right neighbour, whose range starts at `separator`.
    pub(super) fn append(&mut self, right: &Self, separator: K) {
        let end = self.len + right.len;
        self.keys[self.len..end].copy_from_slice(&right.keys[..right.len]);
        self.keys[self.len] = separator;
        self.bests[self.len..end].copy_from_slice(&right.bests[..right.len]);
        self.children[self.len..end].copy_from_slice(&right.children[..right.len]);
        self.len = end;
    }

    #[inline]
    pub(super) fn best(&self) -> B {
        let best = self.bests[..self.len].iter().copied();
        best.max().unwrap_or_default()
    }
}
