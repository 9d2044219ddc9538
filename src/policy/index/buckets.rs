//! Buckets: where the entries of a digit lie, four or sixteen places.

use super::group::Group;
use super::scale::Word;

/// Places in a small bucket.
const SMALL: u16 = 4;

/// Places in a large one.
const LARGE: u16 = 16;

/// Places in the largest bucket.
pub(super) const FULL: usize = LARGE as usize;

/// Stands for the places of a bucket in a slot whose entries a node holds.
const NODE: u16 = u16::MAX;

/// Where the entries of a full bin or of a digit lie: in a bucket, or below a node.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    /// Number of the bucket or of the node.
    pub(super) at: u32,
    len: u16,
    /// Places of the bucket; none before the first entry.
    room: u16,
}

impl Slot {
    /// No bucket.
    pub(super) const NONE: Slot = Slot {
        at: 0,
        len: 0,
        room: 0,
    };

    pub(super) fn of_node(at: u32) -> Self {
        let (len, room) = (NODE, NODE);
        Slot { at, len, room }
    }

    #[inline]
    pub(super) fn is_node(self) -> bool {
        self.room == NODE
    }

    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Whether the bucket takes no more.
    #[inline]
    pub(super) fn is_full(self) -> bool {
        self.len >= self.room
    }

    /// Whether a small bucket would do for long.
    #[inline]
    pub(super) fn is_sparse(self) -> bool {
        self.len <= SMALL / 2 && self.room == LARGE
    }

    #[inline]
    pub(super) fn len(self) -> usize {
        usize::from(self.len)
    }
}

/// Things that are used again.
pub(super) struct Pool<T> {
    pub(super) items: Vec<T>,
    spare: Vec<u32>,
}

impl<T> Pool<T> {
    pub(super) fn new() -> Self {
        Pool {
            items: Vec::new(),
            spare: Vec::new(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.items.clear();
        self.spare.clear();
    }

    pub(super) fn add(&mut self, item: T) -> u32 {
        if let Some(at) = self.spare.pop() {
            self.items[at as usize] = item;
            return at;
        }
        self.items.push(item);
        (self.items.len() - 1) as u32
    }

    pub(super) fn free(&mut self, at: u32) {
        self.spare.push(at);
    }

    /// How many are in use; for tests.
    #[cfg(test)]
    pub(super) fn in_use(&self) -> usize {
        self.items.len() - self.spare.len()
    }
}

/// All buckets of an index.
pub(super) struct Buckets<W> {
    small: Pool<Group<W, 1>>,
    large: Pool<Group<W, 4>>,
}

/// Does the same with the bucket of a slot, whichever it is.
macro_rules! bucket {
    ($buckets:expr, $slot:expr, $bucket:ident => $call:expr) => {
        if $slot.room <= SMALL {
            let $bucket = &$buckets.small.items[$slot.at as usize];
            $call
        } else {
            let $bucket = &$buckets.large.items[$slot.at as usize];
            $call
        }
    };
    (mut $buckets:expr, $slot:expr, $bucket:ident => $call:expr) => {
        if $slot.room <= SMALL {
            let $bucket = &mut $buckets.small.items[$slot.at as usize];
            $call
        } else {
            let $bucket = &mut $buckets.large.items[$slot.at as usize];
            $call
        }
    };
}

impl<W: Word> Buckets<W> {
    pub(super) fn new() -> Self {
        Buckets {
            small: Pool::new(),
            large: Pool::new(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.small.clear();
        self.large.clear();
    }

    /// A large bucket with these entries.
    pub(super) fn large(&mut self, entries: impl Iterator<Item = (W, u32)>) -> Slot {
        let (mut bucket, mut len) = (Group::EMPTY, 0);
        for entry in entries {
            bucket.push(len, entry);
            len += 1;
        }
        self.add_large(bucket, len)
    }

    /// A large bucket of which `len` places are taken.
    pub(super) fn add_large(&mut self, bucket: Group<W, 4>, len: usize) -> Slot {
        Slot {
            at: self.large.add(bucket),
            len: len as u16,
            room: LARGE,
        }
    }

    /// Gives a large bucket back; returns what it held.
    pub(super) fn take_large(&mut self, slot: Slot) -> Group<W, 4> {
        self.free(slot);
        self.large.items[slot.at as usize]
    }

    /// Gives the bucket of a slot back.
    pub(super) fn free(&mut self, slot: Slot) {
        match slot.room {
            SMALL => self.small.free(slot.at),
            LARGE => self.large.free(slot.at),
            _ => {}
        }
    }

    /// A bucket with more room for the entries of one that is not large.
    #[cold]
    pub(super) fn grow(&mut self, slot: Slot) -> Slot {
        if slot.room == 0 {
            let at = self.small.add(Group::EMPTY);
            return Slot {
                at,
                room: SMALL,
                ..slot
            };
        }
        let group = self.small.items[slot.at as usize];
        self.free(slot);
        self.large(group.entries(slot.len()))
    }

    /// A small bucket for the entries of a large one.
    #[cold]
    pub(super) fn shrink(&mut self, slot: Slot) -> Slot {
        let mut group = Group::EMPTY;
        for (len, entry) in self.entries(slot).enumerate() {
            group.push(len, entry);
        }
        self.free(slot);
        Slot {
            at: self.small.add(group),
            room: SMALL,
            ..slot
        }
    }

    /// The entries of a bucket, in no order.
    pub(super) fn entries(&self, slot: Slot) -> impl Iterator<Item = (W, u32)> + '_ {
        (0..slot.len()).map(move |place| bucket!(self, slot, bucket => bucket.get(place)))
    }

    /// Adds an entry to a bucket that is not full. Panics if it is there already.
    #[inline]
    pub(super) fn push(&mut self, slot: &mut Slot, entry: (W, u32)) {
        bucket!(mut self, slot, bucket => bucket.push(slot.len(), entry));
        slot.len += 1;
    }

    /// Takes an entry out; false if it is not in the bucket.
    #[inline]
    pub(super) fn take(&mut self, slot: &mut Slot, word: W) -> bool {
        if slot.is_empty() {
            return false;
        }
        let was_there = bucket!(mut self, slot, bucket => bucket.take(slot.len(), word));
        slot.len -= u16::from(was_there);
        was_there
    }

    /// The first entry in order that is not before `word`.
    #[inline]
    pub(super) fn at_least(&self, slot: Slot, word: W) -> Option<(W, u32)> {
        if slot.is_empty() {
            return None;
        }
        bucket!(self, slot, bucket => bucket.at_least(word))
    }

    /// The first entry in order of a bucket that has some.
    #[inline]
    pub(super) fn first(&self, slot: Slot) -> (W, u32) {
        bucket!(self, slot, bucket => bucket.first())
    }

    /// The last entry in order that is before `word`.
    pub(super) fn below(&self, slot: Slot, word: W) -> Option<(W, u32)> {
        if slot.is_empty() {
            return None;
        }
        bucket!(self, slot, bucket => bucket.below(word))
    }

    /// Panics unless a bucket agrees with itself; returns its words. For tests.
    #[cfg(test)]
    pub(super) fn check(&self, slot: Slot) -> Vec<W> {
        assert!(slot.len <= slot.room && !slot.is_sparse());
        match slot.room {
            0 => Vec::new(),
            _ => bucket!(self, slot, bucket => bucket.check(slot.len())),
        }
    }

    /// Panics unless as many buckets are in use as these slots have; for tests.
    #[cfg(test)]
    pub(super) fn check_pools(&self, slots: &[Slot]) {
        let of = |room: u16| slots.iter().filter(|slot| slot.room == room).count();
        assert_eq!(self.small.in_use(), of(SMALL));
        assert_eq!(self.large.in_use(), of(LARGE));
    }
}
