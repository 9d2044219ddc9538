//! Bins of entries by bytes: log-linear, under a two-level bitmap.
//!
//! A size is counted in granules, the greatest power of two that all sizes and addresses
//! share: up to 128 granules each size has a bin of its own.

use super::Entry;
use super::buckets::Slot;
use super::digits::Digits;
use super::group::Group;
use super::scale::{Scale, Word};

/// Bins an octave, as a power of two.
const OCTAVE_BITS: u32 = 6;

/// Bins in all: sizes below an octave's bins have one each, 64-bit sizes end with the last.
const BINS: usize = (65 - OCTAVE_BITS as usize) << OCTAVE_BITS;

/// Words of the lower bitmap, as many as the upper has bits.
const WORDS: usize = 64;

const _: () = assert!(
    BINS <= 64 * WORDS,
    "one word must be enough for the upper bitmap"
);

/// Marks a bin whose entries are too many for it.
const MANY: u32 = u32::MAX;

/// The entries of a few sizes, mostly a line of the cache.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Bin<W> {
    few: Group<W, 1>,
    /// How many these are, or [`MANY`].
    len: u32,
    /// Where many lie.
    many: Slot,
}

impl<W: Word> Bin<W> {
    const ROOM: u32 = Group::<W, 1>::ROOM as u32;

    const EMPTY: Self = Bin {
        few: Group::EMPTY,
        len: 0,
        many: Slot::NONE,
    };

    #[inline]
    fn has_room(&self) -> bool {
        self.len < Self::ROOM
    }

    #[inline]
    fn is_few(&self) -> bool {
        self.len <= Self::ROOM
    }
}

/// The bins of one scale.
pub(super) struct Bins<W> {
    scale: Scale,
    /// As many as the greatest size so far needs.
    bins: Vec<Bin<W>>,
    /// The entries of bins that have many.
    digits: Digits<W>,
    /// One bit a bin: it has entries.
    words: [u64; WORDS],
    /// One bit a word: it is not zero.
    summary: u64,
}

/// The bin of a size: the leading one and the bits after it.
#[inline]
fn bin_of(size: u64) -> usize {
    // Never below the octave, so that the leading one need not be looked for in zero.
    let octave = (size | 1 << OCTAVE_BITS).ilog2() - OCTAVE_BITS;
    // The leading one itself adds the last of the bins below.
    ((octave as usize) << OCTAVE_BITS) + (size >> octave) as usize
}

impl<W: Word> Bins<W> {
    pub(super) fn new(scale: Scale) -> Self {
        Bins {
            scale,
            bins: Vec::new(),
            digits: Digits::new(),
            words: [0; WORDS],
            summary: 0,
        }
    }

    pub(super) fn scale(&self) -> Scale {
        self.scale
    }

    /// Removes all entries, keeps the memory and goes on with another scale.
    pub(super) fn restart(&mut self, scale: Scale) {
        self.scale = scale;
        self.clear();
    }

    /// Removes all entries and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.bins.fill(Bin::EMPTY);
        self.digits.clear();
        self.words = [0; WORDS];
        self.summary = 0;
    }

    /// Whether the scale has a word for the entry.
    #[inline]
    pub(super) fn holds(&self, bytes: u64, address: u64) -> bool {
        self.scale.holds(bytes, address)
    }

    /// Adds an entry that the scale holds. Panics if it is there already.
    #[inline]
    pub(super) fn insert(&mut self, new: Entry) {
        let (size, word) = self.scale.word(new.bytes, new.address);
        let at = bin_of(size);
        self.words[at / 64 % WORDS] |= 1 << (at % 64);
        self.summary |= 1 << (at / 64);
        self.insert_at(at, (word, new.block));
    }

    #[inline]
    fn insert_at(&mut self, at: usize, entry: (W, u32)) {
        match self.bins.get_mut(at) {
            Some(bin) if bin.has_room() => {
                bin.few.push(bin.len as usize, entry);
                bin.len += 1;
            }
            _ => self.insert_in_many(at, entry),
        }
    }

    /// Adds an entry to a bin that has no room.
    #[inline(never)]
    fn insert_in_many(&mut self, at: usize, entry: (W, u32)) {
        if at >= self.bins.len() {
            self.bins.resize((at + 1).next_multiple_of(64), Bin::EMPTY);
            return self.insert_at(at, entry);
        }
        let bin = &mut self.bins[at];
        if bin.is_few() {
            let few = std::mem::replace(&mut bin.few, Group::EMPTY);
            bin.many = self.digits.new_bucket(few.entries(bin.len as usize));
            bin.len = MANY;
        }
        self.digits.insert(&mut bin.many, entry);
    }

    /// Removes an entry; false if it was not there.
    #[inline]
    pub(super) fn remove(&mut self, bytes: u64, address: u64) -> bool {
        if !self.scale.holds(bytes, address) {
            return false;
        }
        let (size, word) = self.scale.word(bytes, address);
        let at = bin_of(size);
        let Some(bin) = self.bins.get_mut(at) else {
            return false;
        };
        if !bin.is_few() {
            return self.remove_from_many(at, word);
        }
        if !bin.few.take(bin.len as usize, word) {
            return false;
        }
        bin.len -= 1;
        let is_empty = bin.len == 0;
        let bits = &mut self.words[at / 64 % WORDS];
        *bits &= !(u64::from(is_empty) << (at % 64));
        self.summary &= !(u64::from(*bits == 0) << (at / 64));
        true
    }

    #[inline(never)]
    fn remove_from_many(&mut self, at: usize, word: W) -> bool {
        let bin = &mut self.bins[at];
        let was_there = self.digits.remove(&mut bin.many, word);
        if bin.many.is_sparse() {
            self.make_few(at);
        }
        was_there
    }

    /// Takes the entries of a bin back that are no longer many.
    #[cold]
    fn make_few(&mut self, at: usize) {
        let bin = &mut self.bins[at];
        let bucket = self.digits.take_bucket(bin.many);
        bin.len = 0;
        for entry in bucket.entries(bin.many.len()) {
            bin.few.push(bin.len as usize, entry);
            bin.len += 1;
        }
        bin.many = Slot::NONE;
    }

    /// The first entry of at least `bytes`, of which there must be no more than in some entry.
    #[inline]
    pub(super) fn first_of(&self, bytes: u64) -> Option<Entry> {
        let (size, word) = self.scale.least_of(bytes);
        Some(self.scale.entry(self.first_from(bin_of(size), word)?))
    }

    /// The first entry not before `(bytes, address)`.
    #[inline]
    pub(super) fn at_least(&self, bytes: u64, address: u64) -> Option<Entry> {
        let (size, word) = self.scale.least(bytes, address)?;
        Some(self.scale.entry(self.first_from(bin_of(size), word)?))
    }

    /// The first entry not before a word of a bin.
    #[inline]
    fn first_from(&self, at: usize, word: W) -> Option<(W, u32)> {
        let at = self.bin_from(at)?;
        let bin = &self.bins[at];
        if !bin.is_few() {
            return self.first_of_many(at, word);
        }
        let found = bin.few.at_least(word);
        found.or_else(|| Some(self.first_in(self.bin_from(at + 1)?)))
    }

    #[inline(never)]
    fn first_of_many(&self, at: usize, word: W) -> Option<(W, u32)> {
        let found = self.digits.at_least(self.bins[at].many, word);
        found.or_else(|| Some(self.first_in(self.bin_from(at + 1)?)))
    }

    /// The first entry of a bin that has some.
    #[inline]
    fn first_in(&self, at: usize) -> (W, u32) {
        let bin = &self.bins[at];
        if !bin.is_few() {
            return self.digits.first(bin.many);
        }
        bin.few.first()
    }

    /// The last entry of a bin that has some.
    fn last_in(&self, at: usize) -> (W, u32) {
        let bin = &self.bins[at];
        if !bin.is_few() {
            return self.digits.last(bin.many);
        }
        bin.few.below(W::MAX).expect("an entry")
    }

    /// The last entry before `(bytes, address)`.
    pub(super) fn below(&self, bytes: u64, address: u64) -> Option<Entry> {
        let Some((size, word)) = self.scale.least(bytes, address) else {
            return self.last();
        };
        let at = bin_of(size);
        let bin = self.bins.get(at).copied().unwrap_or(Bin::EMPTY);
        let found = if bin.is_few() {
            bin.few.below(word)
        } else {
            self.digits.below(bin.many, word)
        };
        let found = found.or_else(|| Some(self.last_in(self.bin_before(at)?)));
        found.map(|found| self.scale.entry(found))
    }

    /// The last entry of all.
    pub(super) fn last(&self) -> Option<Entry> {
        let at = self.bin_before(BINS)?;
        Some(self.scale.entry(self.last_in(at)))
    }

    /// The first bin with entries from `bin` on, which may be the number of bins.
    #[inline]
    fn bin_from(&self, bin: usize) -> Option<usize> {
        let word = bin / 64;
        let within = self.words.get(word)? >> (bin % 64);
        if within != 0 {
            return Some(bin + within.trailing_zeros() as usize);
        }
        // Two shifts: the last bit of a word has nothing above it, and a shift by 64 is none.
        let words = self.summary >> word >> 1;
        if words == 0 {
            return None;
        }
        let word = word + 1 + words.trailing_zeros() as usize;
        Some(word * 64 + self.words[word].trailing_zeros() as usize)
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

    /// All entries in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Entry> + '_ {
        let words = std::iter::successors(self.first_from(0, W::MIN), |&(word, _)| {
            self.first_from(bin_of(self.scale.size(word)), word.next())
        });
        words.map(|found| self.scale.entry(found))
    }

    /// Panics unless the bins agree with themselves; returns how many entries they have. For tests.
    #[cfg(test)]
    pub(super) fn check(&self) -> usize {
        for (word, bits) in self.words.iter().enumerate() {
            assert_eq!(self.summary >> word & 1 == 0, *bits == 0);
        }
        let unused = self.words.iter().skip(self.bins.len() / 64);
        assert!(unused.copied().all(|bits| bits == 0));
        let mut count = 0;
        for (at, bin) in self.bins.iter().enumerate() {
            let len = if bin.is_few() { bin.len } else { 0 };
            let mut words = bin.few.check(len as usize);
            words.extend(self.digits.check(bin.many));
            assert_eq!(bin.is_few(), bin.many.is_empty());
            assert!(
                words
                    .iter()
                    .all(|word| bin_of(self.scale.size(*word)) == at)
            );
            let is_marked = self.words[at / 64] >> (at % 64) & 1 == 1;
            assert_eq!(is_marked, !words.is_empty());
            count += words.len();
        }
        let many: Vec<Slot> = self.bins.iter().map(|bin| bin.many).collect();
        self.digits.check_pools(&many);
        count
    }

    /// Nodes in use; for tests.
    #[cfg(test)]
    pub(super) fn nodes(&self) -> usize {
        self.digits.nodes()
    }
}
