//! Bins of entries by bytes: log-linear, under a two-level bitmap.
//!
//! A size is counted in granules, the greatest power of two that all sizes and addresses
//! share: up to 128 granules each size has a bin of its own.

use super::Entry;
use super::buckets::Slot;
use super::digits::Digits;
use super::scale::{Scale, Word};

/// Bins an octave, as a power of two.
const OCTAVE_BITS: u32 = 6;

/// Bins in all: sizes below an octave's bins have one each, 64-bit sizes end with the last.
const BINS: usize = (65 - OCTAVE_BITS as usize) << OCTAVE_BITS;

/// Words of the lower bitmap.
const WORDS: usize = BINS.div_ceil(64);

const _: () = assert!(WORDS < 64, "one word must be enough for the upper bitmap");

/// The bins of one scale.
pub(super) struct Bins<W> {
    scale: Scale,
    /// As many as the greatest size so far needs.
    bins: Vec<Slot>,
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
        self.bins.fill(Slot::default());
        self.digits.clear();
        self.words = [0; WORDS];
        self.summary = 0;
    }

    /// Whether the scale has a word for the entry.
    #[inline]
    pub(super) fn holds(&self, bytes: u64, address: u64) -> bool {
        self.scale.holds(bytes, address)
    }

    /// Word and bin of what the scale holds.
    #[inline]
    fn place(&self, bytes: u64, address: u64) -> (W, usize) {
        let word: W = self.scale.word(bytes, address);
        (word, bin_of(self.scale.size(word)))
    }

    /// Adds an entry that the scale holds. Panics if it is there already.
    #[inline]
    pub(super) fn insert(&mut self, new: Entry) {
        let (word, bin) = self.place(new.bytes, new.address);
        if bin >= self.bins.len() {
            self.widen(bin);
        }
        self.digits.insert(&mut self.bins[bin], word, new.block);
        self.words[bin / 64] |= 1 << (bin % 64);
        self.summary |= 1 << (bin / 64);
    }

    #[cold]
    fn widen(&mut self, bin: usize) {
        let bins = (bin + 1).next_multiple_of(64);
        self.bins.resize(bins, Slot::default());
    }

    /// Removes an entry; false if it was not there.
    #[inline]
    pub(super) fn remove(&mut self, bytes: u64, address: u64) -> bool {
        if !self.scale.holds(bytes, address) {
            return false;
        }
        let (word, bin) = self.place(bytes, address);
        let Some(slot) = self.bins.get_mut(bin) else {
            return false;
        };
        let was_there = self.digits.remove(slot, word);
        let bits = &mut self.words[bin / 64];
        *bits &= !(u64::from(slot.is_empty()) << (bin % 64));
        self.summary &= !(u64::from(*bits == 0) << (bin / 64));
        was_there
    }

    /// The first entry not before `(bytes, address)`.
    #[inline]
    pub(super) fn at_least(&self, bytes: u64, address: u64) -> Option<Entry> {
        let word: W = self.scale.least(bytes, address)?;
        let found = self.first_from(bin_of(self.scale.size(word)), word);
        found.map(|(word, block)| self.scale.entry(word, block))
    }

    /// The first entry not before a word of a bin.
    #[inline]
    fn first_from(&self, bin: usize, word: W) -> Option<(W, u32)> {
        let bin = self.bin_from(bin)?;
        let found = self.digits.at_least(self.bins[bin], word);
        found.or_else(|| {
            let bin = self.bin_from(bin + 1)?;
            Some(self.digits.first(self.bins[bin]))
        })
    }

    /// The last entry before `(bytes, address)`.
    #[inline]
    pub(super) fn below(&self, bytes: u64, address: u64) -> Option<Entry> {
        let Some(word): Option<W> = self.scale.least(bytes, address) else {
            return self.last();
        };
        let bin = bin_of(self.scale.size(word));
        let slot = self.bins.get(bin).copied().unwrap_or_default();
        let found = self.digits.below(slot, word);
        let found = found.or_else(|| {
            let bin = self.bin_before(bin)?;
            Some(self.digits.last(self.bins[bin]))
        });
        found.map(|(word, block)| self.scale.entry(word, block))
    }

    /// The last entry of all.
    #[inline]
    pub(super) fn last(&self) -> Option<Entry> {
        let bin = self.bin_before(BINS)?;
        let (word, block) = self.digits.last(self.bins[bin]);
        Some(self.scale.entry(word, block))
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
        words.map(|(word, block)| self.scale.entry(word, block))
    }

    /// Panics unless the bins agree with themselves; returns how many entries they have. For tests.
    #[cfg(test)]
    pub(super) fn check(&self) -> usize {
        for (word, bits) in self.words.iter().enumerate() {
            assert_eq!(self.summary >> word & 1 == 0, *bits == 0);
        }
        let counts = self.bins.iter().enumerate().map(|(bin, slot)| {
            let is_marked = self.words[bin / 64] >> (bin % 64) & 1 == 1;
            assert_eq!(is_marked, !slot.is_empty());
            self.digits.check(*slot, |word| {
                assert_eq!(bin_of(self.scale.size(word)), bin);
            })
        });
        let count = counts.sum();
        assert!(self.words.iter().skip(self.bins.len() / 64).all(|w| *w == 0));
        self.digits.check_pools(&self.bins);
        count
    }

    /// Nodes in use; for tests.
    #[cfg(test)]
    pub(super) fn nodes(&self) -> usize {
        self.digits.nodes()
    }
}
