//! A few entries in one sorted list: programs that train have a few dozen holes, and a list
//! of them stays in the nearest cache.

use super::Entry;

/// Up to so many entries lie in the list.
pub(super) const FEW: usize = 48;

/// Entries in order of bytes, then address; each column by itself, since a search reads
/// only the first.
pub(super) struct Few {
    len: usize,
    bytes: [u64; FEW],
    addresses: [u64; FEW],
    blocks: [u32; FEW],
}

impl Few {
    pub(super) fn new() -> Self {
        Few {
            len: 0,
            bytes: [0; FEW],
            addresses: [0; FEW],
            blocks: [0; FEW],
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.len == FEW
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<Entry> {
        (at < self.len).then(|| Entry {
            address: self.addresses[at],
            bytes: self.bytes[at],
            block: self.blocks[at],
        })
    }

    /// How many entries are before `(bytes, address)`.
    #[inline]
    pub(super) fn lower(&self, bytes: u64, address: u64) -> usize {
        let known = &self.bytes[..self.len];
        let mut at = known.partition_point(|other| *other < bytes);
        while at < self.len && self.bytes[at] == bytes && self.addresses[at] < address {
            at += 1;
        }
        at
    }

    /// Whether `(bytes, address)` is the entry at this place.
    #[inline]
    pub(super) fn is_at(&self, at: usize, bytes: u64, address: u64) -> bool {
        at < self.len && self.bytes[at] == bytes && self.addresses[at] == address
    }

    #[inline]
    fn set(&mut self, at: usize, entry: Entry) {
        self.bytes[at] = entry.bytes;
        self.addresses[at] = entry.address;
        self.blocks[at] = entry.block;
    }

    /// Moves the entries `from..to` by one place, to begin at `start`.
    #[inline]
    fn shift(&mut self, from: usize, to: usize, start: usize) {
        if from < to {
            self.bytes.copy_within(from..to, start);
            self.addresses.copy_within(from..to, start);
            self.blocks.copy_within(from..to, start);
        }
    }

    /// Puts an entry in at its place. There must be room.
    #[inline]
    pub(super) fn insert(&mut self, at: usize, entry: Entry) {
        self.shift(at, self.len, at + 1);
        self.set(at, entry);
        self.len += 1;
    }

    /// Takes the entry at a place out.
    #[inline]
    pub(super) fn remove(&mut self, at: usize) {
        self.shift(at + 1, self.len, at);
        self.len -= 1;
    }

    /// Puts `new` in for the entry at a place: only what lies between both moves.
    #[inline]
    pub(super) fn change(&mut self, at: usize, new: Entry) {
        let to = self.lower(new.bytes, new.address);
        if to <= at {
            self.shift(to, at, to + 1);
            self.set(to, new);
        } else {
            self.shift(at + 1, to, at);
            self.set(to - 1, new);
        }
    }

    #[inline]
    pub(super) fn largest_bytes(&self) -> u64 {
        self.len.checked_sub(1).map_or(0, |last| self.bytes[last])
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Entry> + '_ {
        (0..self.len).filter_map(|at| self.get(at))
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }
}
