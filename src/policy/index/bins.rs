//! Many entries by bytes, then address: log-linear bins under a two-level bitmap.
//!
//! Bins are so narrow that most hold one entry or none as long as there are some hundred;
//! that one lies in the bin itself. The entries of a fuller bin are a tree.

use super::Entry;
use super::node::Value;
use super::tree::{Pool, Root};

/// Bins an octave, as a power of two.
const OCTAVE_BITS: u32 = 6;

/// Bins in all: sizes below an octave's bins have one each, 64-bit sizes end with the last.
const BINS: usize = (65 - OCTAVE_BITS as usize) << OCTAVE_BITS;

/// Words of the lower bitmap.
const WORDS: usize = BINS.div_ceil(64);

const _: () = assert!(WORDS < 64, "one word must be enough for the upper bitmap");

impl Value for u32 {
    type Best = ();

    fn best(self) {}
}

/// What a bin holds.
#[derive(Clone, Copy)]
enum Bin {
    Empty,
    One {
        bytes: u64,
        address: u64,
        block: u32,
    },
    Tree(Root),
}

/// The bins; none are made before the first entry.
pub(super) struct Bins {
    pool: Pool<u128, u32>,
    bins: Vec<Bin>,
    /// One bit a bin: it has entries.
    words: [u64; WORDS],
    /// One bit a word: it is not zero.
    summary: u64,
    len: usize,
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

impl Bins {
    pub(super) fn new() -> Self {
        Bins {
            pool: Pool::new(),
            bins: Vec::new(),
            words: [0; WORDS],
            summary: 0,
            len: 0,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Makes the bins, before the first entry.
    pub(super) fn begin(&mut self) {
        self.bins.resize(BINS, Bin::Empty);
    }

    /// Adds an entry. Panics if it is there already.
    #[inline]
    pub(super) fn insert(&mut self, new: Entry) {
        let at = bin_of(new.bytes);
        match self.bins[at] {
            Bin::Empty => {
                let Entry {
                    address,
                    bytes,
                    block,
                } = new;
                self.bins[at] = Bin::One {
                    bytes,
                    address,
                    block,
                };
                self.words[at / 64] |= 1 << (at % 64);
                self.summary |= 1 << (at / 64);
            }
            Bin::One {
                bytes,
                address,
                block,
            } => {
                let mut root = Root::EMPTY;
                self.pool.insert(&mut root, key(bytes, address), block);
                self.insert_in_tree(at, root, new);
            }
            Bin::Tree(root) => self.insert_in_tree(at, root, new),
        }
        self.len += 1;
    }

    #[inline]
    fn insert_in_tree(&mut self, at: usize, mut root: Root, new: Entry) {
        let key = key(new.bytes, new.address);
        self.pool.insert(&mut root, key, new.block);
        self.bins[at] = Bin::Tree(root);
    }

    /// Removes an entry; false if it was not there.
    #[inline]
    pub(super) fn remove(&mut self, bytes: u64, address: u64) -> bool {
        let at = bin_of(bytes);
        match self.bins[at] {
            Bin::Empty => return false,
            Bin::One {
                bytes: own_bytes,
                address: own_address,
                ..
            } => {
                if (own_bytes, own_address) != (bytes, address) {
                    return false;
                }
                self.empty(at);
            }
            Bin::Tree(mut root) => {
                if self.pool.remove(&mut root, key(bytes, address)).is_none() {
                    return false;
                }
                if root.is_empty() {
                    self.empty(at);
                } else {
                    self.bins[at] = Bin::Tree(root);
                }
            }
        }
        self.len -= 1;
        true
    }

    #[inline]
    fn empty(&mut self, at: usize) {
        self.bins[at] = Bin::Empty;
        self.words[at / 64] &= !(1 << (at % 64));
        if self.words[at / 64] == 0 {
            self.summary &= !(1 << (at / 64));
        }
    }

    /// The first entry that is not before `(bytes, address)`.
    #[inline]
    pub(super) fn at_least(&self, bytes: u64, address: u64) -> Option<Entry> {
        let at = bin_of(bytes);
        let found = match self.bins[at] {
            Bin::Empty => None,
            Bin::Tree(root) => self.pool.at_least(root, key(bytes, address)).map(entry),
            Bin::One { .. } => {
                let one = self.edge(at, Pool::first);
                one.filter(|one| (one.bytes, one.address) >= (bytes, address))
            }
        };
        found.or_else(|| self.edge(self.bin_after(at)?, Pool::first))
    }

    /// The first entry after `(bytes, address)`.
    #[inline]
    pub(super) fn above(&self, bytes: u64, address: u64) -> Option<Entry> {
        let at = bin_of(bytes);
        let found = match self.bins[at] {
            Bin::Empty => None,
            Bin::Tree(root) => self.pool.above(root, key(bytes, address)).map(entry),
            Bin::One { .. } => {
                let one = self.edge(at, Pool::first);
                one.filter(|one| (one.bytes, one.address) > (bytes, address))
            }
        };
        found.or_else(|| self.edge(self.bin_after(at)?, Pool::first))
    }

    /// The last entry before `(bytes, address)`.
    #[inline]
    pub(super) fn below(&self, bytes: u64, address: u64) -> Option<Entry> {
        let at = bin_of(bytes);
        let found = match self.bins[at] {
            Bin::Empty => None,
            Bin::Tree(root) => self.pool.below(root, key(bytes, address)).map(entry),
            Bin::One { .. } => {
                let one = self.edge(at, Pool::first);
                one.filter(|one| (one.bytes, one.address) < (bytes, address))
            }
        };
        found.or_else(|| self.edge(self.bin_before(at)?, Pool::last))
    }

    /// Bytes of the last entry; 0 where there is none.
    #[inline]
    pub(super) fn largest_bytes(&self) -> u64 {
        let last = self.bin_before(BINS);
        let last = last.and_then(|bin| self.edge(bin, Pool::last));
        last.map_or(0, |last| last.bytes)
    }

    /// The entry at one end of a bin.
    #[inline]
    fn edge(
        &self,
        at: usize,
        end: impl Fn(&Pool<u128, u32>, Root) -> Option<(u128, u32)>,
    ) -> Option<Entry> {
        match self.bins[at] {
            Bin::Empty => None,
            Bin::Tree(root) => end(&self.pool, root).map(entry),
            Bin::One {
                bytes,
                address,
                block,
            } => Some(Entry {
                address,
                bytes,
                block,
            }),
        }
    }

    /// The next bin with entries.
    #[inline]
    fn bin_after(&self, bin: usize) -> Option<usize> {
        let word = bin / 64;
        // Two shifts: the last bit of a word has nothing above it, and a shift by 64 is none.
        let within = self.words[word] >> (bin % 64) >> 1;
        if within != 0 {
            return Some(bin + 1 + within.trailing_zeros() as usize);
        }
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
        self.bins.iter().flat_map(|bin| {
            let (one, root) = match *bin {
                Bin::Empty => (None, Root::EMPTY),
                Bin::Tree(root) => (None, root),
                Bin::One {
                    bytes,
                    address,
                    block,
                } => (Some((key(bytes, address), block)), Root::EMPTY),
            };
            one.into_iter().chain(self.pool.iter(root)).map(entry)
        })
    }

    /// Removes all entries and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.pool.clear();
        self.bins.fill(Bin::Empty);
        self.words = [0; WORDS];
        self.summary = 0;
        self.len = 0;
    }

    /// Panics unless the bins agree with themselves; for tests.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let (mut roots, mut count) = (Vec::new(), 0);
        for (at, bin) in self.bins.iter().enumerate() {
            let mut entries: Vec<Entry> = Vec::new();
            match *bin {
                Bin::Empty => {}
                Bin::One { .. } => entries.extend(self.edge(at, Pool::first)),
                Bin::Tree(root) => {
                    roots.push(root);
                    entries.extend(self.pool.iter(root).map(entry));
                    assert!(!entries.is_empty(), "a tree without entries");
                }
            }
            assert!(entries.iter().all(|entry| bin_of(entry.bytes) == at));
            count += entries.len();
            let is_marked = self.words[at / 64] >> (at % 64) & 1 == 1;
            assert_eq!(is_marked, !entries.is_empty());
        }
        self.pool.check(&roots);
        for (word, bits) in self.words.iter().enumerate() {
            assert_eq!(self.summary >> word & 1 == 0, *bits == 0);
        }
        assert_eq!(count, self.len);
    }

    /// Nodes in use; for tests.
    #[cfg(test)]
    pub(super) fn nodes(&self) -> usize {
        self.pool.nodes()
    }
}
