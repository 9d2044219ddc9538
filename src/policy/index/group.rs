//! A few entries in no order, so that one comes and goes without shifting others.
//!
//! Searches look at all places without a branch on what lies there: it is what a predictor
//! cannot guess.

use std::hint::select_unpredictable;

use super::scale::Word;

/// Told where a block is added that is there already.
pub(super) const TWICE: &str = "an index was given the same block twice";

/// Places in a chunk.
const CHUNK: usize = 4;

/// Four places; unused ones, at the end, hold [`Word::MAX`].
#[derive(Clone, Copy)]
struct Chunk<W> {
    words: [W; CHUNK],
    blocks: [u32; CHUNK],
}

/// Up to `4 * N` entries; how many is the owner's to know.
#[derive(Clone, Copy)]
pub(super) struct Group<W, const N: usize> {
    chunks: [Chunk<W>; N],
}

/// The better of two places, each with its distance.
#[inline]
fn nearer<W: Word>(one: (W, usize), other: (W, usize)) -> (W, usize) {
    let is_other = other.0 < one.0;
    (
        select_unpredictable(is_other, other.0, one.0),
        select_unpredictable(is_other, other.1, one.1),
    )
}

impl<W: Word, const N: usize> Group<W, N> {
    pub(super) const ROOM: usize = N * CHUNK;

    pub(super) const EMPTY: Self = {
        let (words, blocks) = ([W::MAX; CHUNK], [0; CHUNK]);
        Group {
            chunks: [Chunk { words, blocks }; N],
        }
    };

    /// The entry at a place.
    #[inline]
    pub(super) fn get(&self, place: usize) -> (W, u32) {
        let chunk = &self.chunks[place / CHUNK % N];
        (chunk.words[place % CHUNK], chunk.blocks[place % CHUNK])
    }

    #[inline]
    fn set(&mut self, place: usize, (word, block): (W, u32)) {
        let chunk = &mut self.chunks[place / CHUNK % N];
        chunk.words[place % CHUNK] = word;
        chunk.blocks[place % CHUNK] = block;
    }

    /// The first `len` entries, in no order.
    pub(super) fn entries(&self, len: usize) -> impl Iterator<Item = (W, u32)> + '_ {
        (0..len).map(|place| self.get(place))
    }

    /// Adds an entry behind the first `len`. Panics if it is there already.
    #[inline]
    pub(super) fn push(&mut self, len: usize, entry: (W, u32)) {
        for chunk in &self.chunks {
            // It never is, so that four branches cost less than their sum.
            let [a, b, c, d] = chunk.words;
            let taken = a == entry.0 || b == entry.0 || c == entry.0 || d == entry.0;
            assert!(!taken, "{TWICE}");
        }
        self.set(len, entry);
    }

    /// Takes one of `len` entries out, the last of which comes into its place; false if it is
    /// not there.
    #[inline]
    pub(super) fn take(&mut self, len: usize, word: W) -> bool {
        let mut place = 0;
        for (at, chunk) in self.chunks.iter().enumerate() {
            for lane in 0..CHUNK {
                let is_here = chunk.words[lane] == word;
                place = select_unpredictable(is_here, at * CHUNK + lane, place);
            }
        }
        if self.get(place).0 != word {
            return false;
        }
        let last = len - 1;
        self.set(place, self.get(last));
        self.chunks[last / CHUNK % N].words[last % CHUNK] = W::MAX;
        true
    }

    /// The place of least distance, with that distance.
    #[inline]
    fn nearest(&self, distance: impl Fn(W) -> W) -> (W, usize) {
        let of_chunk = |at: usize| {
            let words = &self.chunks[at].words;
            let place = |lane: usize| (distance(words[lane]), at * CHUNK + lane);
            nearer(nearer(place(0), place(1)), nearer(place(2), place(3)))
        };
        (1..N).fold(of_chunk(0), |best, at| nearer(best, of_chunk(at)))
    }

    /// The first entry in order that is not before `word`.
    #[inline]
    pub(super) fn at_least(&self, word: W) -> Option<(W, u32)> {
        // What is before `word` wraps round to more than what an unused place gives.
        let (distance, place) = self.nearest(|own| own.minus(word));
        (distance < W::MAX.minus(word)).then(|| self.get(place))
    }

    /// The first entry in order; there must be one.
    #[inline]
    pub(super) fn first(&self) -> (W, u32) {
        self.get(self.nearest(|own| own).1)
    }

    /// The last entry in order that is before `word`.
    #[inline]
    pub(super) fn below(&self, word: W) -> Option<(W, u32)> {
        // What is not before `word` wraps round to `word` or more.
        let (distance, place) = self.nearest(|own| word.minus(own.next()));
        (distance < word).then(|| self.get(place))
    }

    /// Panics unless the places from `len` on are unused; returns the words of the others. For
    /// tests.
    #[cfg(test)]
    pub(super) fn check(&self, len: usize) -> Vec<W> {
        let words = |places: std::ops::Range<usize>| places.map(|place| self.get(place).0);
        assert!(words(len..Self::ROOM).all(|word| word == W::MAX));
        words(0..len).collect()
    }
}
