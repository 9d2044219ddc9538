//! Free blocks ordered by bytes, then by address.

use super::Entry;
use super::node::Value;
use super::tree::{Pool, Root};

/// Bins an octave, as a power of two: narrow bins keep the common case within one node.
const OCTAVE_BITS: u32 = 5;

/// Bins in all: sizes below an octave's bins have one each, 64-bit sizes end with the last.
const BINS: usize = (65 - OCTAVE_BITS as usize) << OCTAVE_BITS;

/// Words of the lower bitmap.
const WORDS: usize = BINS.div_ceil(64);

const _: () = assert!(WORDS < 64, "one word must be enough for the upper bitmap");

impl Value for u32 {
    type Best = ();

    fn best(self) {}
}

/// Up to so many entries lie in one sorted list: programs that train have a few dozen holes, and a
/// list of them stays in the nearest cache.
const FEW: usize = 48;

/// The bins go back into the list once no more than so many are left.
const BACK: usize = FEW / 4;

/// An exact index by size: a sorted list while there are few entries, else log-linear bins under a
/// two-level bitmap, each bin in order.
///
/// Every operation takes logarithmic time in the entries of one bin, also where all have one size.
pub struct BySize {
    /// The entries in order, while they are few; the bins are empty then.
    few: Vec<(u128, u32)>,
    /// The entries are in the bins; the list is empty then.
    spread: bool,
    pool: Pool<u128, u32>,
    bins: Box<[Root]>,
    /// One bit a bin: it has entries.
    words: [u64; WORDS],
    /// One bit a word: it is not zero.
    summary: u64,
    len: usize,
    total_bytes: u64,
}

/// The bin of a size: the leading one and the bits after it.
#[inline]
fn bin_of(bytes: u64) -> usize {
    let octave = (u64::BITS - bytes.leading_zeros()).saturating_sub(OCTAVE_BITS + 1);
    // The leading one itself adds the last of the bins below.
    ((octave as usize) << OCTAVE_BITS) + (bytes >> octave) as usize
}

#[inline]
fn key(bytes: u64, address: u64) -> u128 {
    u128::from(bytes) << 64 | u128::from(address)
}

#[inline]
fn entry((key, block): (u128, u32)) -> Entry {
    Entry {
        address: key as u64,
        bytes: (key >> 64) as u64,
        block,
    }
}

impl Default for BySize {
    fn default() -> Self {
        Self::new()
    }
}

impl BySize {
    /// An index without entries.
    pub fn new() -> Self {
        BySize {
            few: Vec::with_capacity(FEW),
            spread: false,
            pool: Pool::new(),
            bins: vec![Root::EMPTY; BINS].into_boxed_slice(),
            words: [0; WORDS],
            summary: 0,
            len: 0,
            total_bytes: 0,
        }
    }

    /// Adds a block.
    ///
    /// # Panics
    /// If a block of these bytes at this address is there already, or if all bytes together exceed a
    /// `u64`: free blocks lie in one address space and do not overlap.
    #[inline]
    pub fn insert(&mut self, bytes: u64, address: u64, block: u32) {
        let key = key(bytes, address);
        if !self.spread && self.few.len() == FEW {
            self.spread();
        }
        if self.spread {
            self.insert_in_bin(key, block);
        } else {
            let at = self.few.partition_point(|(other, _)| *other < key);
            let there = self.few.get(at).is_some_and(|(other, _)| *other == key);
            assert!(
                !there,
                "a block of {bytes} bytes at {address} is there already"
            );
            self.few.insert(at, (key, block));
        }
        self.len += 1;
        let total_bytes = self.total_bytes.checked_add(bytes);
        self.total_bytes = total_bytes.expect("free blocks exceed the address space");
    }

    fn insert_in_bin(&mut self, key: u128, block: u32) {
        let bin = bin_of((key >> 64) as u64);
        self.pool.insert(&mut self.bins[bin], key, block);
        self.words[bin / 64] |= 1 << (bin % 64);
        self.summary |= 1 << (bin / 64);
    }

    /// Puts the entries of the list into the bins.
    #[cold]
    fn spread(&mut self) {
        self.spread = true;
        for (key, block) in std::mem::take(&mut self.few) {
            self.insert_in_bin(key, block);
        }
    }

    /// Puts the few entries that the bins still have into the list.
    #[cold]
    fn gather(&mut self) {
        let left: Vec<(u128, u32)> = self.binned().collect();
        for (key, _) in &left {
            self.remove_from_bin(*key);
        }
        self.few.reserve(FEW);
        self.few.extend(left);
        self.spread = false;
    }

    /// Removes a block; false if it was not there.
    #[inline]
    pub fn remove(&mut self, bytes: u64, address: u64) -> bool {
        let key = key(bytes, address);
        let was_there = if self.spread {
            self.remove_from_bin(key)
        } else {
            let at = self.few.binary_search_by_key(&key, |(other, _)| *other);
            at.map(|at| self.few.remove(at)).is_ok()
        };
        if was_there {
            self.len -= 1;
            self.total_bytes -= bytes;
            if self.spread && self.len <= BACK {
                self.gather();
            }
        }
        was_there
    }

    fn remove_from_bin(&mut self, key: u128) -> bool {
        let bin = bin_of((key >> 64) as u64);
        let root = &mut self.bins[bin];
        if self.pool.remove(root, key).is_none() {
            return false;
        }
        if root.is_empty() {
            self.words[bin / 64] &= !(1 << (bin % 64));
            if self.words[bin / 64] == 0 {
                self.summary &= !(1 << (bin / 64));
            }
        }
        true
    }

    /// The best fit: the smallest block of at least `bytes`; of equal ones the lowest address.
    #[inline]
    pub fn first_at_least(&self, bytes: u64) -> Option<Entry> {
        self.first_at_least_from(bytes, 0)
    }

    /// The first block in order that is not before `(bytes, address)`.
    #[inline]
    pub fn first_at_least_from(&self, bytes: u64, address: u64) -> Option<Entry> {
        if !self.spread {
            let from = key(bytes, address);
            let at = self.few.partition_point(|(other, _)| *other < from);
            return self.few.get(at).copied().map(entry);
        }
        let bin = bin_of(bytes);
        let found = self.pool.at_least(self.bins[bin], key(bytes, address));
        found.or_else(|| self.first_after_bin(bin)).map(entry)
    }

    /// The first block in order after `(bytes, address)`, which need not be there.
    #[inline]
    pub fn next_after(&self, bytes: u64, address: u64) -> Option<Entry> {
        if !self.spread {
            let from = key(bytes, address);
            let at = self.few.partition_point(|(other, _)| *other <= from);
            return self.few.get(at).copied().map(entry);
        }
        let bin = bin_of(bytes);
        let found = self.pool.above(self.bins[bin], key(bytes, address));
        found.or_else(|| self.first_after_bin(bin)).map(entry)
    }

    /// The last block in order before `(bytes, address)`, which need not be there.
    #[inline]
    pub fn prev_before(&self, bytes: u64, address: u64) -> Option<Entry> {
        if !self.spread {
            let from = key(bytes, address);
            let at = self.few.partition_point(|(other, _)| *other < from);
            return at.checked_sub(1).map(|at| entry(self.few[at]));
        }
        let bin = bin_of(bytes);
        let found = self.pool.below(self.bins[bin], key(bytes, address));
        let previous = || self.pool.last(self.bins[self.bin_before(bin)?]);
        found.or_else(previous).map(entry)
    }

    /// Bytes of the largest block; 0 if there is none.
    #[inline]
    pub fn largest_bytes(&self) -> u64 {
        if !self.spread {
            return self.few.last().map_or(0, |(key, _)| (key >> 64) as u64);
        }
        let last = self
            .bin_before(BINS)
            .and_then(|bin| self.pool.last(self.bins[bin]));
        last.map_or(0, |(key, _)| (key >> 64) as u64)
    }

    /// The worst fit: the largest block; of equal ones the lowest address.
    #[inline]
    pub fn largest(&self) -> Option<Entry> {
        self.first_at_least(self.largest_bytes())
    }

    /// All blocks, by bytes and then by address.
    pub fn iter(&self) -> impl Iterator<Item = Entry> + '_ {
        self.few.iter().copied().chain(self.binned()).map(entry)
    }

    /// What is in the bins, in order.
    fn binned(&self) -> impl Iterator<Item = (u128, u32)> + '_ {
        let filled = self.bins.iter().filter(|root| !root.is_empty());
        filled.flat_map(|root| self.pool.iter(*root))
    }

    /// Number of blocks.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there is no block.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sum of the bytes of all blocks.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Removes all blocks and keeps the memory.
    pub fn clear(&mut self) {
        self.few.clear();
        self.spread = false;
        self.pool.clear();
        self.bins.fill(Root::EMPTY);
        self.words = [0; WORDS];
        self.summary = 0;
        self.len = 0;
        self.total_bytes = 0;
    }

    /// First entry of the bins above `bin`.
    #[inline]
    fn first_after_bin(&self, bin: usize) -> Option<(u128, u32)> {
        let word = bin / 64;
        // Two shifts: the last bit of a word has nothing above it, and a shift by 64 is none.
        let within = self.words[word] >> (bin % 64) >> 1;
        let bin = if within != 0 {
            bin + 1 + within.trailing_zeros() as usize
        } else {
            let words = self.summary >> word >> 1;
            if words == 0 {
                return None;
            }
            let word = word + 1 + words.trailing_zeros() as usize;
            word * 64 + self.words[word].trailing_zeros() as usize
        };
        self.pool.first(self.bins[bin])
    }

    /// The last bin with entries below `bin`, which may be the number of bins.
    #[inline]
    fn bin_before(&self, bin: usize) -> Option<usize> {
        let below = |limit: usize| (1u64 << limit) - 1;
        let word = bin / 64;
        let within = self.words.get(word).map_or(0, |w| w & below(bin % 64));
        if within != 0 {
            return Some(word * 64 + within.ilog2() as usize);
        }
        let words = self.summary & below(word);
        let word = words.checked_ilog2()? as usize;
        Some(word * 64 + self.words[word].ilog2() as usize)
    }

    /// Panics unless the index agrees with itself; for tests.
    #[cfg(test)]
    pub(super) fn check(&self) {
        self.pool.check(&self.bins);
        for (bin, root) in self.bins.iter().enumerate() {
            let mut entries = self.pool.iter(*root).map(entry);
            assert!(entries.all(|entry| bin_of(entry.bytes) == bin));
            assert_eq!(self.words[bin / 64] >> (bin % 64) & 1 == 0, root.is_empty());
        }
        for (word, bits) in self.words.iter().enumerate() {
            assert_eq!(self.summary >> word & 1 == 0, *bits == 0);
        }
        assert!(self.few.is_empty() || !self.spread);
        assert!(self.few.is_sorted() && self.few.len() <= FEW);
        assert_eq!(self.iter().count(), self.len);
        assert_eq!(self.iter().map(|e| e.bytes).sum::<u64>(), self.total_bytes);
    }

    /// Nodes in use, leaves and inner ones; for tests.
    #[cfg(test)]
    pub(super) fn nodes(&self) -> usize {
        self.pool.nodes()
    }
}
