//! A node of the tree by address: three columns of fixed length, in order.
//!
//! All work on a node goes over whole columns, whatever is asked: no branch depends on the items, for
//! none could be guessed, and the compiler turns each loop into vector instructions. Searches stay out of
//! line: where they are taken into another loop, it does not. Loops count places: zipped columns are vectors
//! only where all of the zipping is inlined, which hangs on how the crate is cut into parts.

use std::ops::{Index, IndexMut};

use super::word::{Cell, Word};

/// Items in a leaf. Fewer in tests, where small programs shall build tall trees.
pub(super) const LEAF: usize = if cfg!(test) { 8 } else { 16 };

/// Items in a node above the leaves.
pub(super) const FAN: usize = if cfg!(test) { 8 } else { 32 };

/// Items in any node.
const MOST: usize = 32;

const _: () = assert!(LEAF <= MOST && FAN <= MOST);

/// An entry of a leaf, or what an inner node knows of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item<W> {
    /// Address of the entry; the greatest that may lie below the child.
    pub(super) key: W,
    /// Size of the entry; the greatest below the child.
    pub(super) size: W,
    /// Block of the entry; node of the child.
    pub(super) name: u32,
}

impl<W: Word> Item<W> {
    const NOTHING: Self = Item {
        key: W::GREATEST,
        size: W::LEAST,
        name: u32::MAX,
    };
}

/// Leaves and inner nodes have one shape.
#[derive(Clone)]
pub(super) struct Node<W, const N: usize> {
    pub(super) keys: [W; N],
    pub(super) sizes: [W; N],
    pub(super) names: [u32; N],
    pub(super) len: u32,
}

/// The places of the items.
const PLACES: [u8; MOST] = {
    let mut places = [0; MOST];
    let mut at = 0;
    while at < MOST {
        places[at] = at as u8;
        at += 1;
    }
    places
};

/// Read from `MOST - at` on, a mask of the items before `at`.
const BEFORE: [i32; 2 * MOST] = {
    let mut masks = [0; 2 * MOST];
    let mut at = 0;
    while at < MOST {
        masks[at] = -1;
        at += 1;
    }
    masks
};

/// Read from `MOST - at` on, a mask of the item `at`.
const ONLY: [i32; 2 * MOST] = {
    let mut masks = [0; 2 * MOST];
    masks[MOST] = -1;
    masks
};

/// A part of the tables above.
#[inline(always)]
fn masks<const N: usize>(table: &'static [i32; 2 * MOST], at: usize) -> &'static [i32; N] {
    let part = table[MOST - at..].first_chunk();
    part.expect("an item lies within its node")
}

/// The least of some places; of bytes, for they have an instruction for it.
#[inline(always)]
fn least(places: impl Iterator<Item = u8>) -> usize {
    usize::from(places.fold(u8::MAX, u8::min))
}

/// Items that a vector holds.
const LANES: usize = 4;

/// Opens a gap at `at`, which takes the last item away, and fills it.
#[inline(always)]
fn open<T: Cell, const N: usize>(items: &mut [T; N], at: usize, item: T) {
    let is_before = masks::<N>(&BEFORE, at);
    for start in (0..N).step_by(LANES).rev() {
        let before = match start {
            0 => [item, items[0], items[1], items[2]],
            _ => [
                items[start - 1],
                items[start],
                items[start + 1],
                items[start + 2],
            ],
        };
        for (lane, &before) in before.iter().enumerate() {
            let here = start + lane;
            items[here] = T::choose(is_before[here], items[here], before);
        }
    }
    items[at] = item;
}

/// Closes the gap at `at` and fills the end.
#[inline(always)]
fn close<T: Cell, const N: usize>(items: &mut [T; N], at: usize, filler: T) {
    let is_before = masks::<N>(&BEFORE, at);
    for start in (0..N).step_by(LANES) {
        let end = if start + LANES < N {
            items[start + LANES]
        } else {
            filler
        };
        let after = [items[start + 1], items[start + 2], items[start + 3], end];
        for (lane, &after) in after.iter().enumerate() {
            let here = start + lane;
            items[here] = T::choose(is_before[here], items[here], after);
        }
    }
}

/// Deals the items of two neighbours out again, so that the left one has `left_len`.
fn deal<T: Copy, const N: usize>(
    [left, right]: [&mut [T; N]; 2],
    [from_left, from_right]: [usize; 2],
    left_len: usize,
    filler: T,
) {
    let total = from_left + from_right;
    let mut all = [filler; 2 * MOST];
    all[..N].copy_from_slice(left);
    all[from_left..total].copy_from_slice(&right[..from_right]);
    left.fill(filler);
    left[..left_len].copy_from_slice(&all[..left_len]);
    right.fill(filler);
    right[..total - left_len].copy_from_slice(&all[left_len..total]);
}

impl<W: Word, const N: usize> Node<W, N> {
    pub(super) const EMPTY: Self = Node {
        keys: [Item::<W>::NOTHING.key; N],
        sizes: [Item::<W>::NOTHING.size; N],
        names: [Item::<W>::NOTHING.name; N],
        len: 0,
    };

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.len() == N
    }

    /// Whether the node shall look for a neighbour to join; it need not at every removal.
    #[inline(always)]
    pub(super) fn is_sparse(&self) -> bool {
        self.len() < N / 2 && self.len().is_multiple_of(N / 8)
    }

    /// Whether the item at a place that `rank` may name is there and has this key.
    #[inline(always)]
    pub(super) fn holds(&self, at: usize, key: W) -> bool {
        at < self.len() && self.keys[at] == key
    }

    #[inline(always)]
    pub(super) fn item(&self, at: usize) -> Item<W> {
        Item {
            key: self.keys[at],
            size: self.sizes[at],
            name: self.names[at],
        }
    }

    /// How many keys are below `key`: in a leaf the place of the first that is not, in an inner node the
    /// child whose range holds the key.
    #[inline(never)]
    pub(super) fn rank(&self, key: W) -> usize {
        let below = self.keys.iter().map(|known| known.below(key));
        below.fold(0, |sum: i32, below| sum.wrapping_sub(below)) as usize
    }

    /// The first item whose size reaches `need`, or a place behind all where there is none.
    #[inline(never)]
    pub(super) fn first_with(&self, need: W) -> usize {
        least((0..N).map(|at| PLACES[at] | self.sizes[at].below(need) as u8))
    }

    /// The same from `start` on.
    #[inline(always)]
    pub(super) fn first_with_from(&self, need: W, start: usize) -> Option<usize> {
        if start >= self.len() {
            return None;
        }
        let masks = masks::<N>(&BEFORE, start);
        let places = (0..N).map(|at| {
            let passed = self.sizes[at].below(need) | masks[at];
            PLACES[at] | passed as u8
        });
        Some(least(places)).filter(|at| *at < self.len())
    }

    /// The greatest size, if that of item `at` were `instead`.
    ///
    /// For it is asked right after a size has changed: a vector that is read just after a part of it was
    /// written has to wait for the write.
    #[inline(never)]
    pub(super) fn best_with(&self, at: usize, instead: W) -> W {
        let masks = masks::<N>(&ONLY, at);
        let others = (0..N).map(|at| W::choose(masks[at], W::LEAST, self.sizes[at]));
        others.fold(instead, |best, size| if size > best { size } else { best })
    }

    /// The greatest size.
    pub(super) fn best(&self) -> W {
        self.sizes.into_iter().max().unwrap_or(W::LEAST)
    }

    /// Puts an item in, where there is room.
    #[inline(always)]
    pub(super) fn insert(&mut self, at: usize, item: Item<W>) {
        open(&mut self.keys, at, item.key);
        open(&mut self.sizes, at, item.size);
        open(&mut self.names, at, item.name);
        self.len += 1;
    }

    /// Takes an item out.
    #[inline(always)]
    pub(super) fn remove(&mut self, at: usize) {
        close(&mut self.keys, at, Item::<W>::NOTHING.key);
        close(&mut self.sizes, at, Item::<W>::NOTHING.size);
        close(&mut self.names, at, Item::<W>::NOTHING.name);
        self.len -= 1;
    }

    /// Deals the items of two neighbours out again, so that the left one has `left_len`: splits, lends
    /// and joins.
    pub(super) fn deal(left: &mut Self, right: &mut Self, left_len: usize) {
        let lens = [left.len(), right.len()];
        let Item { key, size, name } = Item::<W>::NOTHING;
        deal([&mut left.keys, &mut right.keys], lens, left_len, key);
        deal([&mut left.sizes, &mut right.sizes], lens, left_len, size);
        deal([&mut left.names, &mut right.names], lens, left_len, name);
        left.len = left_len as u32;
        right.len = (lens[0] + lens[1] - left_len) as u32;
    }
}

/// The nodes of one kind, those that are not in use among them.
#[derive(Clone)]
pub(super) struct Nodes<W, const N: usize> {
    all: Vec<Node<W, N>>,
    spare: Vec<u32>,
}

impl<W: Word, const N: usize> Nodes<W, N> {
    pub(super) const EMPTY: Self = Nodes {
        all: Vec::new(),
        spare: Vec::new(),
    };

    /// Forgets all nodes and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.all.clear();
        self.spare.clear();
    }

    #[inline(always)]
    pub(super) fn get(&self, name: u32) -> Option<&Node<W, N>> {
        self.all.get(name as usize)
    }

    /// A node without items.
    pub(super) fn make(&mut self) -> u32 {
        if let Some(name) = self.spare.pop() {
            self[name] = Node::EMPTY;
            return name;
        }
        self.all.push(Node::EMPTY);
        (self.all.len() - 1) as u32
    }

    /// Takes a node out of use.
    pub(super) fn release(&mut self, name: u32) {
        self.spare.push(name);
    }

    /// Two nodes that are neighbours.
    pub(super) fn pair(&mut self, names: [u32; 2]) -> [&mut Node<W, N>; 2] {
        let nodes = self.all.get_disjoint_mut(names.map(|name| name as usize));
        nodes.expect("two nodes of the tree are two nodes")
    }

    /// Names of the nodes that are not in use, and how many there are in all; for tests.
    #[cfg(test)]
    pub(super) fn census(&self) -> (&[u32], usize) {
        (&self.spare, self.all.len())
    }
}

impl<W, const N: usize> Index<u32> for Nodes<W, N> {
    type Output = Node<W, N>;

    #[inline(always)]
    fn index(&self, name: u32) -> &Node<W, N> {
        &self.all[name as usize]
    }
}

impl<W, const N: usize> IndexMut<u32> for Nodes<W, N> {
    #[inline(always)]
    fn index_mut(&mut self, name: u32) -> &mut Node<W, N> {
        &mut self.all[name as usize]
    }
}
